"""Write a folder to start from: a part of your own, with a job that trains with it.

examples:
  nitro init own-environment my-environment
  nitro init own-scaler my-scaler
  nitro init own-network my-network
  nitro init own-algorithm my-algorithm
  nitro init own-loop my-loop
"""

from __future__ import annotations

import argparse
import shlex
import shutil
from pathlib import Path

from nitro_learner.cli.common import some_path, writing
from nitro_learner.cli.exits import DONE, CommandError

_STARTS = Path(__file__).parent / "starts"
"""A folder for each kind; its files end with .txt, because they are no code of this package."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = sorted(path.name for path in _STARTS.iterdir())
    parser.add_argument("kind", choices=kinds, help="what is to be your own")
    parser.add_argument("folder", type=some_path, metavar="DIR", help="new folder, or an empty one")


def run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise CommandError(f"{folder} exists already and is not replaced; name a new folder, or an empty one")
    texts = {path.stem: path for path in sorted((_STARTS / arguments.kind).glob("*.txt"))}
    with writing("DIR", folder, "Name a folder that you may write to."):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            shutil.copyfile(text, folder / name)
    (job,) = (name for name in texts if name.endswith(".yaml"))
    print("\n".join(str(folder / name) for name in texts))
    print(f"Next: cd {shlex.quote(str(folder))}; nitro validate {job}; nitro train {job}")
    print(f"On a cluster: nitro submit {job} --code . --follow")
    return DONE
