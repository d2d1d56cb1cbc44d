"""The run whose policies a new run starts with: spec.resumeFrom."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nitro_api import FieldError, JobInvalid, NitroTrainingJob, resolve_stored
from nitro_api.errors import ABSENT
from nitro_api.rules.resume_rules import differences
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.training.adoption import misfit


def read_source(place: str | None, job: NitroTrainingJob, folder: RunDir) -> Mapping[str, Any]:
    """The state of another run's newest checkpoint, without replayed data.

    Args:
        place: the run's folder, or its address s3://BUCKET/PREFIX/RUN; None where nobody provides it.
        job: that starts.
        folder: of its own run.

    Raises:
        JobInvalid: there is no checkpoint, or it is of another network or algorithm.
        RunDirError: nobody provides the run, or its job.yaml is damaged.
        CheckpointError: all checkpoints are damaged, or the bucket cannot be read.
    """
    if place is None and job.metadata.uid is None:
        raise RunDirError(
            "spec.resumeFrom starts a run on a cluster only. On this machine, a run goes on by "
            "`nitro train --resume RUN_DIR`, and for more rounds with --set spec.stop.rounds=N."
        )
    if place is None:
        raise RunDirError(
            f"{folder.path} has lost the run's own checkpoints, and the run of spec.resumeFrom is no longer "
            "at hand. Create the job anew."
        )
    if not place.startswith("s3://"):
        return _read(RunDir(Path(place)), job)
    with tempfile.TemporaryDirectory() as copy:
        found = RunDir(Path(copy))
        from nitro_learner.run.bucket import RunBucket  # S3's client is needed on clusters only

        RunBucket.at(place, job.spec.learner.checkpoint.s3).copy_newest(found)
        return _read(found, job)


def _read(run: RunDir, job: NitroTrainingJob) -> Mapping[str, Any]:
    store = CheckpointStore(run.checkpoints, keep_last=1)
    if not store.rounds():
        message = "has no checkpoint; name a run that has one, in a new job"
        raise JobInvalid([FieldError("spec.resumeFrom", ABSENT, message)])
    differing = differences(resolve_stored(run.read_job()).spec, job.spec)
    if differing:
        raise misfit(differing)
    checkpoint = store.latest(attached=False)
    assert checkpoint is not None
    return checkpoint.state
