"""Run one command line: find the subcommand, and report why it ended early by a message and an exit code."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from nitro_learner.cli import commands as own
from nitro_learner.cli import streams
from nitro_learner.cli.exits import ABORTED, BAD_INPUT, DONE, EPILOG, FAILED, NO_ROOM, CommandError

_PLAYING = ("nitro_actor", "safetensors")
"""What the extra `play` installs, and `train` too."""
_TRAINING = (*_PLAYING, "redis", "tensorboard", "torch")
"""What the extra `train` installs."""
_PLAYERS = ("export", "serve")
"""Commands that load a policy and train nothing."""
_LOADING = "loading…"


def run(argv: Sequence[str] | None, *, prog: str, commands: Mapping[str, str] | None) -> int:
    """Run a command line of the program `prog`, which has these commands, and return its exit code: see
    `main`."""
    with streams.prepared():
        code = _run(argv, prog, commands)
    compute = sys.modules.get("nitro_learner.training.compute")
    if compute and compute.left_running():  # an update that was broken off, or hangs
        os._exit(code)
    return code


def installed() -> dict[str, str]:
    """All subcommands that are installed, each with its one-line help."""
    return {name: summary for table in _tables() for name, summary in table.COMMANDS.items()}


def _run(argv: Sequence[str] | None, prog: str, commands: Mapping[str, str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    if commands is None:
        commands = own.COMMANDS if chosen in own.COMMANDS else installed()
        if chosen in own.EXPERIMENTS and chosen not in commands:
            return _lacks_experiments(chosen)
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Serverless reinforcement learning. Every command's --help has examples.",
        epilog=EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    command: Callable[[Any], int] | None = None
    loads = goes_on = False
    for name, summary in commands.items():
        if name != chosen:
            subparsers.add_parser(name, help=summary)
            continue
        table, module = _found(name)
        loads, goes_on = name in table.LOADS, name in table.GO_ON
        subparser = subparsers.add_parser(
            name, help=summary, description=module.__doc__, epilog=EPILOG, formatter_class=_Formatter
        )
        module.add_arguments(subparser)
        command = module.run
    arguments = parser.parse_args(words)
    if command is None:
        parser.error(f"no such command: {arguments.command}")
    if loads and not getattr(arguments, "json", False):
        print(_LOADING, file=sys.stderr, flush=True)
    try:
        with streams.unfailing("stdout") if goes_on else contextlib.nullcontext():
            return _ended(command, arguments)
    finally:
        try:
            print(end="", flush=True)
        except OSError:  # Python would try the same at its exit, and complain once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one subcommand by itself, which prints the help that the program prints."""
    _, module = _found(name)
    parser = argparse.ArgumentParser(
        prog=f"nitro {name}", description=module.__doc__, epilog=EPILOG, formatter_class=_Formatter
    )
    module.add_arguments(parser)
    return parser


def _found(name: str) -> tuple[ModuleType, ModuleType]:
    """The table that has a subcommand, and the subcommand's module."""
    table = next(table for table in _tables() if name in table.COMMANDS)
    return table, import_module(f"{table.__package__}.{name.replace('-', '_')}")


def _tables() -> Iterator[ModuleType]:
    """The modules that name subcommands: `nitro_learner.cli.commands` describes them."""
    yield own
    # It takes as long to import as all the rest, and most subcommands are found before.
    from importlib import metadata

    for point in metadata.entry_points(group="nitro.commands"):
        yield point.load()


def _lacks_experiments(name: str) -> int:
    from nitro_api.errors import installing

    remedy = installing("train", "experiments")
    return _say(f"{name} needs the package nitro-experiments, which is not installed: {remedy}", FAILED)


def _ended(command: Callable[[Any], int], arguments: argparse.Namespace) -> int:
    """Run a subcommand and return its exit code; what ends it early is reported."""
    # `nitro --help` takes a seventh of the time without it.
    from nitro_api import JobInvalid
    from nitro_api.errors import installing
    from nitro_learner.run.rundir import RunDirError

    try:
        code = command(arguments)
        print(end="", flush=True)  # whether all of the output could be written
        return code
    except ModuleNotFoundError as error:
        if (missing := (error.name or "").split(".")[0]) not in _TRAINING:
            raise
        plays = arguments.command in _PLAYERS and missing in _PLAYING
        does, extra = ("loads a policy", "play") if plays else ("trains", "train")
        return _say(f"{arguments.command} {does}, which takes more: {installing(extra)}", FAILED)
    except CommandError as error:
        return _say(str(error), error.code)
    except RunDirError as error:
        return _say(str(error), BAD_INPUT)
    except JobInvalid as error:  # what only the start of a run finds, such as the file of a scaling agent
        return _say(str(error), BAD_INPUT)
    except BrokenPipeError:  # `nitro explain | head`: nobody reads on, which is no error
        return DONE
    except OSError as error:  # no right, no room, no folder
        if error.filename is None and error.errno not in NO_ROOM:
            raise
        return _say(f"{error.filename or 'the output'}: {error.strerror}", FAILED)
    except KeyboardInterrupt:
        return _say("interrupted", ABORTED)


def _say(message: str, code: int) -> int:
    # Where nobody reads on, as in `nitro train ... 2>&1 | head`, the code alone says it.
    print(f"nitro: {message}", file=sys.stderr)
    return code


class _Version(argparse.Action):
    """Print the version. What reads it from the installed package takes as long to import as all the rest."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib import metadata

        print(f"nitro {metadata.version('nitro-learner')}")
        parser.exit()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keep the examples' lines and give long options room."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)
