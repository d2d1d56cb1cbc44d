"""From a run of an experiment to its job on a cluster."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

from nitro_api import NitroTrainingJob, load_job, resolve
from nitro_learner.experiments.plan import PlannedRun
from nitro_learner.experiments.spec import Experiment

LABEL = "nitro.dev/experiment"
"""Label of the jobs of an experiment: its name."""
RUN = "nitro.dev/run"
"""Annotation of a job: the folder of its run in the experiment's."""
_LONGEST_NAME = 40
_DIGITS = 8


def object_name(experiment: Experiment, run: PlannedRun) -> str:
    """The name of a run's job. It is the same whenever and wherever the experiment is run, so that a later
    command finds the job."""
    digits = hashlib.sha256(f"{experiment.name}/{run.folder}".encode()).hexdigest()[:_DIGITS]
    words = f"{run.variant}-{run.seed}"[: _LONGEST_NAME - _DIGITS - 1].rstrip("-")
    return f"{words}-{digits}"


def manifest(experiment: Experiment, run: PlannedRun, job: NitroTrainingJob) -> dict[str, Any]:
    """The object that is applied.

    Args:
        job: the run's own, resolved, with the schedule of a control.

    It has the backend and the labels of the experiment's job. A claim that the operator makes for it goes
    when it is deleted: then its files have been copied.

    Raises:
        JobInvalid: the job cannot run on a cluster.
    """
    base, data = copy.deepcopy(experiment.job), job.to_dict()
    spec = data["spec"]
    spec.pop("backend", None)
    if backend := base["spec"].get("backend"):
        spec["backend"] = backend
    checkpoint = spec.setdefault("learner", {}).setdefault("checkpoint", {})
    if "s3" not in checkpoint and "claimName" not in checkpoint.get("pvc", {}):
        checkpoint["pvc"] = {**checkpoint.get("pvc", {}), "retain": False}
    if "actorMemoryGB" not in base["spec"].get("pricing", {}):
        spec["pricing"].pop("actorMemoryGB", None)  # follows the backend
    metadata = base.get("metadata") or {}
    data["metadata"] = {
        "name": object_name(experiment, run),
        "labels": {**(metadata.get("labels") or {}), LABEL: experiment.name},
        "annotations": {**(metadata.get("annotations") or {}), RUN: str(run.folder)},
    }
    resolve(load_job(data))
    return data
