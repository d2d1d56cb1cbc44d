"""The run that a new run starts from: spec.resumeFrom, or on one machine what `nitro train --from` names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nitro_api import FieldError, JobInvalid, ResolvedJob, resolve_stored
from nitro_api.errors import ABSENT
from nitro_api.rules.resume_rules import differences
from nitro_learner.checkpoints.store import CheckpointError, CheckpointStore, load
from nitro_learner.run.rundir import OtherJob, RunDir, RunDirError, write_text
from nitro_learner.run.same_job import check_same_job
from nitro_learner.training.adoption import RESUME_FROM, Source, misfit

if TYPE_CHECKING:
    from nitro_learner.run.bucket import RunBucket

_COPY = ".resume-from"
"""Folder for the copy of another run, until it is whole."""
_NAME_THEM = (
    "Its job had some of these values as defaults of its release. Create this job anew with the values that "
    "the folder has, each by name (None: leave it out), or with take: Policies, which begins a new run."
)
_UID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@dataclass(frozen=True)
class Start:
    """What the user of one machine has a new run begin with.

    Attributes:
        place: see `read_source`.
        named: how it was given, for errors.
    """

    place: str
    named: str

    @classmethod
    def given(cls, place: str | Path, option: str) -> Start:
        """What was given to an option, such as `--from `."""
        text = str(place)
        return cls(text if text.startswith("s3://") else str(Path(place).resolve()), f"{option}{place}")


def begin_with(folder: RunDir, job: ResolvedJob, source: str | None, start: Start | None) -> Source | None:
    """What a run without a checkpoint begins with; None where it begins anew.

    A run that was stopped before its first checkpoint finds in its folder what it was started with.

    Args:
        source: where the run of spec.resumeFrom is.
        start: what the user of this machine has given. It is kept in the folder.

    Raises:
        JobInvalid, RunDirError, CheckpointError: as `read_source`.
    """
    kept = folder.read_start()
    if start is None and kept:
        start = Start(str(kept["from"]), str(folder.start))
    if start is None:
        return read_source(source, job, folder) if job.spec.resume_from else None
    begun = read_source(start.place, job, folder, start.named)
    folder.path.mkdir(parents=True, exist_ok=True)
    write_text(
        folder.start,
        json.dumps({"from": start.place, "run": begun.state["run"], "round": begun.round}, indent=2) + "\n",
    )
    return begun


def read_source(place: str | None, job: ResolvedJob, folder: RunDir, named: str = RESUME_FROM) -> Source:
    """Another run's policies, without replayed data.

    Args:
        place: the run's folder, or its address s3://BUCKET/PREFIX/RUN, for its newest checkpoint; or a
            checkpoint file in either, such as s3://BUCKET/PREFIX/RUN/checkpoints/best.safetensors. None where
            nobody provides it.
        named: what names the other run, for errors.

    Raises:
        JobInvalid: there is no checkpoint, or it is of another network or algorithm.
        RunDirError: nobody provides the run, or its job.yaml is damaged.
        CheckpointError: all checkpoints are damaged, or the bucket cannot be read.
    """
    place = _provided(place, job, folder)
    if not place.startswith("s3://"):
        path = Path(place)
        if named != RESUME_FROM and not path.exists():
            raise JobInvalid([FieldError(named, ABSENT, "does not exist; name a run folder or a checkpoint")])
        if path.is_file():
            return _read(RunDir(path.parents[1]), job, named, path)
        return _read(RunDir(path), job, named)
    with tempfile.TemporaryDirectory() as copy:
        source = RunDir(Path(copy))
        from nitro_learner.run.bucket import RunBucket  # S3's client takes a second to import

        file = RunBucket.copied(place, source, job.spec.learner.checkpoint.s3)
        return _read(source, job, named, file)


def take_run(place: str | None, job: ResolvedJob, folder: RunDir) -> None:
    """Copy another run, which must be of the same job, into the folder of the run that starts.

    The checkpoints come last: a folder that has one has all of the run.

    Args:
        place: as of `read_source`.
        folder: of its own run, without a checkpoint.

    Raises:
        JobInvalid: there is no checkpoint.
        RunDirError: nobody provides the run, it is of another job, or it cannot be copied.
        CheckpointError: the bucket cannot be read.
    """
    place = _provided(place, job, folder)
    copy = folder.path / _COPY
    try:
        shutil.rmtree(copy, ignore_errors=True)
        with _copied(place, job, copy) as run:
            if not CheckpointStore(run.checkpoints, keep_last=1).rounds():
                raise _without_checkpoint(RESUME_FROM, job)
            try:
                check_same_job(run.read_job(), job.to_dict(), f"spec.resumeFrom ({_named(job)})")
            except OtherJob as error:
                raise OtherJob(f"{error}\n{_NAME_THEM}") from None
            os.sync()  # nothing of it may be on the disk later than the checkpoints' new place
            checkpoints = run.checkpoints.name
            for part in sorted(run.path.iterdir(), key=lambda path: path.name == checkpoints):
                target = folder.path / part.name
                if target.is_dir():
                    shutil.rmtree(target)
                part.replace(target)
    except OSError as error:
        raise RunDirError(
            f"the run of spec.resumeFrom ({_named(job)}) could not be copied to {folder.path}: {error}. "
            "Make room or rights for it, and create the job anew."
        ) from error


@contextlib.contextmanager
def _copied(place: str, job: ResolvedJob, copy: Path) -> Iterator[RunDir]:
    """A copy of a run, in a folder that is removed at the end."""
    run = RunDir(copy)
    try:
        if place.startswith("s3://"):
            from nitro_learner.run.bucket import RunBucket  # S3's client is needed on clusters only

            copy.mkdir(parents=True)
            RunBucket.at(place, job.spec.learner.checkpoint.s3).restore(run)
        else:
            # Hidden files are locks, and halves of files.
            shutil.copytree(place, copy, ignore=shutil.ignore_patterns(".*"), copy_function=shutil.copyfile)
        yield run
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def former_run(folder: RunDir, job: str, bucket: RunBucket | None = None) -> str | None:
    """The folder of the newest of all earlier runs of a job's name that have a checkpoint.

    Args:
        folder: of the job's own run; the others are beside it.
        bucket: the run's place in a bucket, where the others are then.

    Returns:
        None where there is none, or the place cannot be read: the run that begins does not need it.
    """
    try:
        if bucket is not None:
            newest = bucket.beside(f"{job}-")
        else:
            files = folder.path.parent.glob(f"{job}-*/checkpoints/round-*.safetensors")
            written = ((path.parents[1].name, path.stat().st_mtime) for path in files)
            newest = dict(sorted(written, key=lambda item: item[1]))
    except (OSError, CheckpointError):
        return None
    newest.pop(folder.path.name, None)
    former = [name for name in newest if re.fullmatch(f"{re.escape(job)}-{_UID}", name)]
    return max(former, key=lambda name: newest[name], default=None)


def _provided(place: str | None, job: ResolvedJob, folder: RunDir) -> str:
    if place is None and job.metadata.uid is None:
        raise RunDirError(
            "spec.resumeFrom starts a run on a cluster only. On this machine, a run begins with the policies "
            "of another one by `nitro train JOB.yaml --from RUN_DIR` (or a checkpoint file, or "
            "s3://BUCKET/PREFIX/RUN), and goes on by `nitro train --resume RUN_DIR`."
        )
    if place is None:
        raise RunDirError(
            f"{folder.path} has lost the run's own checkpoints, and the run of spec.resumeFrom is no longer "
            "at hand. Create the job anew."
        )
    return place


def _read(run: RunDir, job: ResolvedJob, named: str, file: Path | None = None) -> Source:
    """Read a file of a run, or its newest checkpoint."""
    store = CheckpointStore(run.checkpoints, keep_last=1)
    if file is None and not store.rounds():
        raise _without_checkpoint(named, job)
    differing = differences(resolve_stored(run.read_job()).spec, job.spec)
    if differing:
        raise misfit(named, differing)
    checkpoint = load(file, attached=False) if file else store.latest(attached=False)
    assert checkpoint is not None
    return Source(named, checkpoint.state, checkpoint.round)


def _without_checkpoint(named: str, job: ResolvedJob) -> JobInvalid:
    where, anew = f" ({_named(job)})" if named == RESUME_FROM else "", ", in a new job"
    message = f"has no checkpoint{where}; name a run that has one{anew if where else ''}"
    return JobInvalid([FieldError(named, ABSENT, message)])


def _named(job: ResolvedJob) -> str:
    """How the job names the other run."""
    source = job.spec.resume_from
    given = source.to_dict() if source is not None else {}
    return ", ".join(f"{field}: {value}" for field, value in given.items() if field != "take")
