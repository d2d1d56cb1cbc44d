"""What several subcommands share: options, checks of paths, and reading jobs and runs.

A function imports nitro_api, which takes long to load, when it reads a job: `--help` reads none.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_learner.cli.exits import BAD_INPUT, FAILED, NO_ROOM, CommandError
from nitro_learner.run.views.plot_axes import check_suffix

if TYPE_CHECKING:
    from nitro_api import JobInvalid, ResolvedJob
    from nitro_learner.run.rundir import RunDir
    from nitro_learner.studies.job_check import JobCheck


@contextlib.contextmanager
def policy_loaded() -> Iterator[None]:
    """Raise CommandError where the block raises CheckpointError."""
    from nitro_learner.checkpoints.store import CheckpointError, NoCheckpointError

    try:
        yield
    except CheckpointError as error:
        code = BAD_INPUT if isinstance(error, NoCheckpointError) else FAILED
        raise CommandError(str(error), code) from None


@contextlib.contextmanager
def cluster_asked() -> Iterator[None]:
    """Raise CommandError where the block raises ClusterError."""
    from nitro_learner.cluster.jobs import ClusterError

    try:
        yield
    except ClusterError as error:
        raise CommandError(str(error), BAD_INPUT if error.no_such_job else FAILED) from None


def some_text(text: str) -> str:
    """The type of an option that must not be empty, as an unset shell variable is."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the path is empty; is a shell variable unset? Give a path")
    return text


def some_path(text: str) -> Path:
    """The type of an option that names a file or a folder: the empty text would mean the current folder."""
    return Path(some_text(text))


@contextlib.contextmanager
def writing(option: str, path: Path, remedy: str) -> Iterator[None]:
    """Give an OSError of the block, such as no permission, the option that named the path and a remedy.

    Raises:
        CommandError
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM or not _concerns(error.filename, path):
            raise
        raise CommandError(
            f"{option} {path}: it cannot be written ({error.strerror}). {remedy}", FAILED
        ) from None


def _concerns(filename: str | bytes | int | None, path: Path) -> bool:
    """Whether an error's file is the path, a folder above it, something in it, or its temporary name."""
    if not isinstance(filename, str):
        return filename is None
    other = Path(filename)
    temporary = other.parent == path.parent and other.name.startswith(f".{path.stem}")
    return other == path or other in path.parents or path in other.parents or temporary


def unnamed(path: Path) -> Path:
    """Return the default file of --out, unless it exists already: it may be somebody else's.

    Raises:
        CommandError: there is one.
    """
    if path.exists():
        raise CommandError(f"{path} exists already and is not replaced; name the file by --out {path}")
    return path


def add_set(parser: argparse.ArgumentParser) -> None:
    """Add --set PATH=VALUE."""
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="override a field, such as spec.seed=3 (repeatable)",
    )


def check_picture(out: Path | None) -> None:
    """Raise CommandError if --out names no picture that can be drawn."""
    try:
        if out:
            check_suffix(out)
    except ValueError as error:
        raise CommandError(f"--out {error}") from None


def distinct(folders: Sequence[Path]) -> list[Path]:
    """The folders, each once. Globs that overlap name some folders twice; a message says so."""
    by_place: dict[Path, Path] = {}
    for folder in folders:
        first = by_place.setdefault(folder.resolve(), folder)
        if first is not folder:
            print(f"nitro: {folder} is given twice and counts once", file=sys.stderr)
    return list(by_place.values())


def add_namespace(parser: argparse.ArgumentParser, default: str = "kubectl's current one") -> None:
    """Add --namespace."""
    parser.add_argument("-n", "--namespace", help=f"namespace; default: {default}")


def add_context(parser: argparse.ArgumentParser) -> None:
    """Add --context."""
    parser.add_argument("--context", help="context of the kubeconfig; default: the current one")


def add_run_or_job(parser: argparse.ArgumentParser) -> None:
    """Have `run_folder` know whether the command was called as a plugin of kubectl."""
    parser.set_defaults(of_cluster=parser.prog.startswith("kubectl "))


def run_folder(given: str, arguments: argparse.Namespace) -> Path | None:
    """The run folder that an argument names; None where it names a job of the cluster.

    Raises:
        CommandError: it is a path, and no folder, or there is --namespace.
    """
    folder, is_path = Path(given), os.sep in given
    if is_path and arguments.namespace is not None:
        raise CommandError(
            f"--namespace {arguments.namespace} asks for a job of the cluster, and {folder} is a path: leave "
            "one of them out"
        )
    if folder.is_dir() and not _means_job(arguments):
        return folder
    if is_path:
        raise CommandError(f"{folder}: no such run folder")
    return None


@contextlib.contextmanager
def job_asked(given: str, arguments: argparse.Namespace) -> Iterator[None]:
    """As `cluster_asked`, for an argument that may have been meant as a folder."""
    try:
        with cluster_asked():
            yield
    except CommandError as error:
        if _means_job(arguments):
            raise
        raise CommandError(f"there is no folder {given}, and on the cluster: {error}", error.code) from None


def _means_job(arguments: argparse.Namespace) -> bool:
    return bool(arguments.of_cluster) or arguments.namespace is not None


def refused(head: str, error: JobInvalid) -> CommandError:
    """The error of an input with mistakes: `head`, and a line for each mistake."""
    return CommandError("\n".join([head, *(f"  {item}" for item in error.errors)]))


def read_job(path: Path, overrides: Sequence[str], begun: Mapping[str, Any] | None = None) -> ResolvedJob:
    """The job with every default filled in.

    Args:
        begun: what job.yaml says in the folder of the run that the job goes on with.

    Raises:
        CommandError: it is invalid, or needs what is not installed; one line per mistake.
    """
    from nitro_api import JobInvalid
    from nitro_learner.studies.resolved_job import resolved_job

    try:
        return resolved_job(path, overrides, begun)
    except JobInvalid as error:
        raise refused(f"{path} is not a valid job:", error) from None


def print_notes(path: Path, check: JobCheck) -> None:
    """Print what the check of a job says beside its mistakes."""
    for warning in check.warnings:
        print(f"{path}: warning: {warning}", file=sys.stderr)
    for remark in check.remarks:
        print(f"{path}: remark: {remark}", file=sys.stderr)


def add_checkpoint(parser: argparse.ArgumentParser, of: str) -> None:
    """Add --checkpoint and --best, of which one may be given."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--checkpoint",
        type=int,
        metavar="ROUND",
        help=f"the checkpoint of this round{of}; default: the newest",
    )
    add_best(which)


def add_best(parser: argparse._ActionsContainer) -> None:
    """Add --best."""
    parser.add_argument(
        "--best",
        action="store_true",
        help="the policy with the best evaluation in place of the newest",
    )


def checkpoint_of(folder: RunDir, round: int | None, *, best: bool) -> Path | None:
    """The checkpoint of a round, or the best policy's; None where neither was asked for.

    Raises:
        CommandError: there is none of it.
    """
    from nitro_learner.checkpoints.files import BEST, without_best
    from nitro_learner.checkpoints.store import CheckpointStore

    store = CheckpointStore(folder.checkpoints, keep_last=1)
    if best:
        if not (store.directory / BEST).exists():
            raise CommandError(str(without_best(str(folder.path))))
        return store.directory / BEST
    if round is not None and round not in store.rounds():
        rounds = ", ".join(map(str, store.rounds())) or "none"
        raise CommandError(f"{folder.path} has no checkpoint of round {round}; there are: {rounds}")
    return None if round is None else store.path(round)


def read_run(path: Path) -> tuple[RunDir, ResolvedJob]:
    """A run folder and its job, with actors on this machine whatever backend it was trained with.

    Raises:
        RunDirError: it is no run folder, or a damaged one.
    """
    from nitro_learner.run.rundir import RunDir
    from nitro_learner.studies.resolved_job import backend_overrides

    folder = RunDir(path)
    folder.read_job()
    return folder, read_job(folder.job, backend_overrides("Local"))
