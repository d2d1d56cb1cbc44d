"""What the subcommands share: exit codes, the error that ends a command, and the option that overrides
fields.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_api import JobInvalid, NitroTrainingJob, load_job, resolve
from nitro_learner import extras

if TYPE_CHECKING:
    from nitro_learner.rundir import RunDir

DONE = 0
FAILED = 1
BAD_INPUT = 2
"""The operator reads it too: it ends a learner's Job without another try."""
INTERRUPTED = 75
"""EX_TEMPFAIL: stopped before the end, and resuming goes on from the last checkpoint."""
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


def check_picture(out: Path | None) -> None:
    """Raises CommandError if --out names no picture that can be drawn."""
    if out and out.suffix not in (".png", ".svg", ".pdf"):
        raise CommandError(f"--out {out}: must end in .png, .svg or .pdf")


def distinct(folders: Sequence[Path]) -> list[Path]:
    """The folders, each once: globs that overlap name some twice, which is told."""
    found: dict[Path, Path] = {}
    for folder in folders:
        first = found.setdefault(folder.resolve(), folder)
        if first is not folder:
            print(f"nitro: {folder} is given twice and counts once", file=sys.stderr)
    return list(found.values())


def add_namespace(parser: argparse.ArgumentParser, default: str = "kubectl's current one") -> None:
    """Adds --namespace."""
    parser.add_argument("-n", "--namespace", help=f"namespace; default: {default}")


def backend_overrides(backend: str) -> list[str]:
    """Overrides that let a job's actors run there, whatever it says."""
    # The other backends' settings are left out: a job may have the block of its own type only.
    others = [block for block in ("knative", "lambda", "local") if block != backend.lower()]
    return [f"spec.backend.type={backend}", *(f"spec.backend.{block}=null" for block in others)]


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


def read_run(path: Path) -> tuple[RunDir, NitroTrainingJob]:
    """A run folder and its job, with actors on this machine whatever backend it was trained with.

    Raises:
        CommandError: it is no run folder, or a damaged one.
    """
    from nitro_learner.rundir import RunDir, RunDirError

    folder = RunDir(path)
    try:
        folder.read_job()
    except RunDirError as error:
        raise CommandError(str(error)) from None
    return folder, read_job(folder.job, backend_overrides("Local"))


def lambda_backend(spec: Any, *, operated: bool) -> Any:
    """The Lambda backend of a resolved job; the Redis of `transport: Redis` is the one of NITRO_REDIS_URL.

    Args:
        operated: whether an operator looks after the function of a job with `manage: true`.

    Raises:
        CommandError: there is no such variable.
    """
    from nitro_learner.backends.lambda_backend import LambdaBackend
    from nitro_learner.evaluation import SLOTS

    redis_url = None
    if spec.backend.lambda_.transport == "Redis":
        redis_url = os.environ.get("NITRO_REDIS_URL")
        if not redis_url:
            raise CommandError(
                "spec.backend.lambda.transport: Redis needs the variable NITRO_REDIS_URL, by which this "
                "machine reaches the function's Redis; set it, or set transport: Payload"
            )
    return LambdaBackend(
        spec.backend.lambda_,
        spec.environment.id,
        limit=spec.scaling.max_actors + SLOTS,
        redis_url=redis_url,
        created_elsewhere=operated and spec.backend.lambda_.manage,
    )
