"""From a run of an experiment to its job on a cluster."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

from nitro_api import ResolvedJob, load_job, resolve
from nitro_api.errors import ABSENT
from nitro_api.loading.job_file import set_field
from nitro_api.schema.wording import value_at
from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.planning.spec import Experiment
from nitro_learner.cluster.jobs import mark_floats

LABEL = "nitro.dev/experiment"
"""Label of the jobs of an experiment: its name."""
RUN = "nitro.dev/run"
"""Annotation of a job: the folder of its run in the experiment's."""
_LONGEST_NAME = 40
_DIGITS = 8


def digits(identity: str, folder: str) -> str:
    """The end of a job's name, by the identity of the experiment's folder and the run's folder in it."""
    return hashlib.sha256(f"{identity}/{folder}".encode()).hexdigest()[:_DIGITS]


def object_name(identity: str, run: PlannedRun) -> str:
    """The name of a run's job. It is the same each time, so that a later command finds the job, and that of
    no other folder's run."""
    words = f"{run.variant}-{run.seed}"[: _LONGEST_NAME - _DIGITS - 1].rstrip("-")
    return f"{words}-{digits(identity, str(run.folder))}"


def manifest(experiment: Experiment, run: PlannedRun, job: ResolvedJob, identity: str) -> dict[str, Any]:
    """The object that is applied.

    Args:
        job: the run's own, resolved, with the schedule of a control.
        identity: of the experiment's folder.

    It has the backend and the labels of the experiment's job. Unless the experiment says otherwise, a claim
    that the operator makes goes with the job, which is removed when its files have been copied.

    Raises:
        JobInvalid: the job cannot run on a cluster.
    """
    given, data = _given(experiment, run), job.to_dict()
    spec = data["spec"]
    for name in ("backend", "suspend", "ttlSecondsAfterFinished"):
        spec.pop(name, None)
    if backend := given["spec"].get("backend"):
        spec["backend"] = backend
    checkpoint = spec["learner"]["checkpoint"]
    if "s3" not in checkpoint and "claimName" not in checkpoint["pvc"]:
        retain = value_at(given, ("spec", "learner", "checkpoint", "pvc", "retain"))
        checkpoint["pvc"]["retain"] = retain is True
    if value_at(given, ("spec", "pricing", "actorMemoryGB")) in (ABSENT, None):
        spec["pricing"].pop("actorMemoryGB", None)  # follows the backend
    metadata = given.get("metadata") or {}
    data["metadata"] = {
        "name": object_name(identity, run),
        "labels": {**(metadata.get("labels") or {}), LABEL: experiment.name},
        "annotations": {**(metadata.get("annotations") or {}), RUN: str(run.folder)},
    }
    resolve(load_job(data))
    mark_floats(spec)
    return data


def _given(experiment: Experiment, run: PlannedRun) -> dict[str, Any]:
    """The run's job with the fields that the experiment's file gives, and no defaults."""
    data: dict[str, Any] = copy.deepcopy(experiment.job)
    for path, value in run.given.items():
        set_field(data, path.split("."), copy.deepcopy(value))  # plan() has found the mistakes
    return data
