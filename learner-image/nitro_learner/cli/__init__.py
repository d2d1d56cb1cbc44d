"""The `nitro` command. Each subcommand is a module that is imported only when it runs: validate and explain
need no torch.

A subcommand's module has a docstring (its help, with examples), `add_arguments(parser)` and `run(arguments)
-> exit code`.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

from nitro_api import JobInvalid
from nitro_learner.cli.common import ABORTED, BAD_INPUT, DONE, EPILOG, FAILED, CommandError

# Name and one-line help are here so that `nitro --help` imports no subcommand.
COMMANDS = {
    "train": "train a job on this machine",
    "profile": "measure one actor of a job: its size on Lambda and Knative",
    "validate": "check a job file and show it with all defaults",
    "explain": "documentation of a job's fields",
    "top": "all jobs of a cluster, live",
    "report": "a run's job, plots and costs as one HTML file",
    "plot": "draw one run, or compare several",
    "experiment": "compare variants of a job over seeds at a matched budget",
    "detector": "how good the boosting detector was in a run",
    "landscape": "draw return and surrogate around a run's policy",
    "evaluate": "play episodes with a trained policy",
    "pretrain-scaler": "train the scaling agent of a job with scaler minionsrl",
    "learn": "train the job of this pod (run by the operator)",
}

_TRAINING = ("nitro_actor", "redis", "safetensors", "tensorboard", "torch")
"""What only the extra `train` installs."""

# Of a write that fails, which names no file.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

# What asks a cluster, or nobody: it works where nothing that trains is installed.
KUBECTL = ("top", "report", "validate", "explain")


def kubectl() -> int:
    """`kubectl nitro`: kubectl finds the program kubectl-nitro on the PATH."""
    return main(prog="kubectl nitro", commands={name: COMMANDS[name] for name in KUBECTL})


def main(
    argv: Sequence[str] | None = None, *, prog: str = "nitro", commands: Mapping[str, str] = COMMANDS
) -> int:
    """Runs a command line and returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Serverless reinforcement learning. Every command's --help has examples.",
        epilog=EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="version", version=f"nitro {metadata.version('nitro-learner')}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in words if not word.startswith("-")), None)
    run: Callable[[Any], int] | None = None
    for name, summary in commands.items():
        if name != chosen:
            subparsers.add_parser(name, help=summary)
            continue
        module: ModuleType = import_module(f"nitro_learner.cli.{name.replace('-', '_')}")
        subparser = subparsers.add_parser(
            name, help=summary, description=module.__doc__, epilog=EPILOG, formatter_class=_Formatter
        )
        module.add_arguments(subparser)
        run = module.run
    arguments = parser.parse_args(words)
    if run is None:
        parser.error(f"no such command: {arguments.command}")
    try:
        code = _ended(run, arguments)
    finally:
        try:
            print(end="", flush=True)
        except OSError:  # Python would try the same at its exit, and complain once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    compute = sys.modules.get("nitro_learner.compute")
    if compute and compute.left_running():  # an update that was broken off, or hangs
        os._exit(code)
    return code


def _ended(run: Callable[[Any], int], arguments: argparse.Namespace) -> int:
    """Runs a subcommand and returns its exit code; what ends it early is told."""
    try:
        code = run(arguments)
        print(end="", flush=True)  # whether all of the output could be written
        return code
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _TRAINING:
            raise
        install = "pip install ./actor-image './learner-image[train]'"
        return _say(f"{arguments.command} trains, which takes more: in a checkout {install}", FAILED)
    except CommandError as error:
        return _say(str(error), error.code)
    except JobInvalid as error:  # what only the start of a run finds, such as the file of a scaling agent
        return _say(str(error), BAD_INPUT)
    except BrokenPipeError:  # `nitro explain | head`: nobody reads on, which is no error
        return DONE
    except OSError as error:  # no right, no room, no folder
        if error.filename is None and error.errno not in _NO_ROOM:
            raise
        return _say(f"{error.filename or 'the output'}: {error.strerror}", FAILED)
    except KeyboardInterrupt:
        return ABORTED


def _say(message: str, code: int) -> int:
    # Where nobody reads on, as in `nitro train ... 2>&1 | head`, the code alone says it.
    with contextlib.suppress(OSError):
        print(f"nitro: {message}", file=sys.stderr)
    return code


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the examples' lines and gives long options room."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)
