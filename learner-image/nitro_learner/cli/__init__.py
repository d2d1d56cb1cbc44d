"""The `nitro` command: one module for each subcommand.

A module is imported only when its subcommand runs: validate and explain need no torch.

A subcommand's module has a docstring (its help, with examples), `add_arguments(parser)` and `run(arguments)
-> exit code`. This module imports next to nothing, so that Ctrl-C is in hand before anything slow begins.
"""

from collections.abc import Mapping, Sequence

from nitro_learner.cli import interrupts
from nitro_learner.cli.commands import COMMANDS, KUBECTL


def kubectl() -> int:
    """`kubectl nitro`: kubectl finds the program kubectl-nitro on the PATH."""
    return main(prog="kubectl nitro", commands={name: COMMANDS[name] for name in KUBECTL})


def main(
    argv: Sequence[str] | None = None, *, prog: str = "nitro", commands: Mapping[str, str] | None = None
) -> int:
    """Run a command line and return its exit code.

    Args:
        argv: the words of the command line; None = this process's.
        prog: the program's name.
        commands: its subcommands, each with its one-line help; None = all that are installed.
    """
    with interrupts.at_once():
        from nitro_learner.cli import program

        return program.run(argv, prog=prog, commands=commands)
