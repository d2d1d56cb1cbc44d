"""A job that can be trained here: with every default, and with environment and algorithm looked up."""

from collections.abc import Mapping, Sequence
from typing import Any

from nitro_api import ResolvedJob, load_job, resolve
from nitro_api.resolution.resolve import keep_begun
from nitro_learner.algorithms import availability
from nitro_learner.studies import environment_ids

BEGUN_HERE = ["spec.resumeFrom=null"]
"""Overrides for a job that begins with a run which this machine reaches: the one it names is a cluster's."""


def backend_overrides(backend: str) -> list[str]:
    """Overrides that let a job's actors run on that backend, whatever the job names."""
    # A job may have the block of its own type only.
    others = [block for block in ("knative", "lambda", "local") if block != backend.lower()]
    return [f"spec.backend.type={backend}", *(f"spec.backend.{block}=null" for block in others)]


def resolved_job(
    source: Any, overrides: Sequence[str], begun: Mapping[str, Any] | None = None
) -> ResolvedJob:
    """The job with every default filled in.

    Args:
        source: what `load_job` takes.
        overrides: PATH=VALUE each.
        begun: what job.yaml says in the folder of the run that the job goes on with.

    Raises:
        JobInvalid: lists every mistake, or says what is not installed.
    """
    job = load_job(source, overrides, look_up=environment_ids.mistakes)
    if begun is not None:
        spec = begun["spec"]
        keep_begun(job.spec, spec["environment"] | spec["algorithm"].get("hyperparameters", {}))
    job = resolve(job)
    availability.check(job.spec)
    return job
