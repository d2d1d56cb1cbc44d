"""What the subcommands share: exit codes, the error that ends a command, and the option that overrides
fields.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from nitro_api import JobInvalid, NitroTrainingJob, load_job, resolve
from nitro_learner import extras

DONE = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 75
"""EX_TEMPFAIL: stopped before the end, and resuming goes on from the last checkpoint. The operator reads it
too.
"""
ABORTED = 130

EPILOG = """\
exit codes:
  0    done
  1    failed; the message says why
  2    bad input: the job file, the folder or the command line
  75   stopped before the end; resuming goes on from the last checkpoint
  130  aborted by a second Ctrl-C
"""


class CommandError(Exception):
    """A command cannot do what was asked: the message goes to stderr."""

    def __init__(self, message: str, code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code


def add_set(parser: argparse.ArgumentParser) -> None:
    """Adds --set PATH=VALUE."""
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="override a field, such as spec.seed=3 (repeatable)",
    )


def read_job(path: Path, overrides: Sequence[str]) -> NitroTrainingJob:
    """The job with every default filled in.

    Raises:
        CommandError: it is invalid, or needs what is not installed; one line per mistake.
    """
    try:
        job = resolve(load_job(path, overrides))
        extras.check(job.spec)
        return job
    except JobInvalid as error:
        raise CommandError(
            "\n".join([f"{path} is not a valid job:", *(f"  {item}" for item in error.errors)])
        ) from None
