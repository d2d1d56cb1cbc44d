"""Pack the Python files of a folder into a ConfigMap, for jobs that have parts of your own.

The ConfigMap is named by the digest of what it holds and never changes; jobs name the digest in spec.code.
Learner and actors find the modules as if they were installed, behind all that their images hold. Files that
the folder's .nitroignore names are left out, a pattern a line as in a .gitignore; so are hidden folders,
__pycache__ and virtual environments. The package has at most 900 KiB. The same files give the same digest on
each machine. It goes with the last job that names it, and can be made again at any time.

examples:
  nitro code my-folder | kubectl apply --server-side -f -       # the digest goes to standard error
  nitro code my-folder -o code.yaml                             # the digest goes to standard output
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nitro_learner.cli.common import some_path, writing
from nitro_learner.cli.exits import DONE, CommandError

if TYPE_CHECKING:
    from nitro_learner.run.code_package import CodePackage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=some_path, metavar="DIR", help="folder with your Python files")
    parser.add_argument(
        "-o",
        "--out",
        type=some_path,
        metavar="FILE",
        help="file of the ConfigMap's manifest; default: standard output",
    )


def run(arguments: argparse.Namespace) -> int:
    import yaml

    package = found_code(arguments.folder)
    manifest = yaml.safe_dump(package.config_map(), sort_keys=False, width=2**20)
    line = f"spec.code: {package.digest}"
    if arguments.out is None:
        print(manifest, end="")
        print(line, file=sys.stderr)
        return DONE
    with writing("--out", arguments.out, "Name a file that you may write to."):
        arguments.out.write_text(manifest, encoding="utf-8")
    print(line)
    return DONE


def add_code(parser: argparse.ArgumentParser, effect: str) -> None:
    """Add --code, the folder that `found_code` takes; `effect` says what becomes of it."""
    parser.add_argument(
        "--code",
        type=some_path,
        metavar="DIR",
        help=f"folder with the modules of your own parts, as `nitro code` packs it for a cluster; {effect}",
    )


def found_code(folder: Path) -> CodePackage:
    """Let this process, and the actors that it starts, find the modules of a folder. Returns its package.

    Raises:
        CommandError: it cannot be packed.
    """
    from nitro_learner.run.code_package import CodeFolderError, find

    try:
        return find(folder)
    except CodeFolderError as error:
        raise CommandError(str(error)) from None
