"""Whether a run may go on under a job: the job is the run's own, but for what does not change its results."""

import logging
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nitro_api import JobSpec, ResolvedJob
from nitro_learner.run.rundir import OtherJob, RunDir, RunDirError

logger = logging.getLogger(__name__)

# Fields that may differ when a run goes on: they change where and how long it runs, or how it began, not what
# it computes from now on.
_FREE = (
    "stop",
    "backend",
    "actor",
    "learner",
    "cache",
    "tracking",
    "resumeFrom",
    "suspend",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "scaling.hold",
    "scaling.sleep",
    "pricing.actorMemoryGB",  # follows the actors' memory, which a suspended job may change
)


def check_same_job(saved: Mapping[str, Any], now: Mapping[str, Any], place: Path | str) -> None:
    """Refuse to go on with a run under another job. `place` says where the run is.

    Raises:
        OtherJob: names the fields that differ, with both values, and those that may change.
    """
    old, new = (deciding(job["spec"]) for job in (saved, now))
    differing = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
    if differing:
        lines = "\n".join(
            f"  spec.{path}: {old.get(path)!r} in the folder, {new.get(path)!r} now" for path in differing
        )
        free = ", ".join(f"spec.{name}" for name in _FREE)
        raise OtherJob(
            f"{place} holds a run of another job; these fields differ:\n{lines}\n"
            f"A run that goes on keeps them; only these may change: {free}."
        )


def deciding(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job's spec that its results depend on, by path."""
    return {path: value for path, value in leaves(spec) if not _is_free(path)}


def check_same_schedule(saved: Mapping[str, Any], job: ResolvedJob, folder: RunDir) -> None:
    """Refuse to go on to another number of rounds where the run depends on it. For a job on a cluster there
    is only a warning, because its user may change spec.stop and has no other folder.

    Raises:
        RunDirError
    """
    before, after = saved["spec"].get("stop", {}).get("rounds"), job.spec.stop.rounds
    if not depends_on_rounds(job.spec) or before == after:
        return
    why, kept = "its learning rate falls to zero over", "at the rate"
    if not job.spec.algorithm.anneals:
        why, kept = "the rounds in which sharing toggles are drawn from", "with the toggles"
    reason = f"{folder.path}: {why} {before} rounds, so it cannot become a run of {after} rounds."
    if job.metadata.uid is None:
        raise RunDirError(
            f"{reason} Choose another folder, or spec.stop.rounds={before} again. "
            f"A new run of {after} rounds: "
            f"nitro train {shlex.quote(str(folder.job))} --set spec.stop.rounds={after}; with "
            f"--from {shlex.quote(str(folder.path))} it begins with what this run has learned"
        )
    logger.warning("%s It goes on all the same, %s that a run of %d rounds has there.", reason, kept, after)


def depends_on_rounds(spec: JobSpec) -> bool:
    """Whether a run's first rounds depend on how many spec.stop.rounds says: the learning rate falls to zero
    over them, or the rounds of toggles are drawn from them.
    """
    return spec.algorithm.anneals or (spec.sharing is not None and spec.sharing.mode == "random-toggle")


def _is_free(path: str) -> bool:
    """Whether a field, or what holds it, may change in a run that goes on."""
    return any(path == name or path.startswith(f"{name}.") for name in _FREE)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a job's fields by their paths, such as `algorithm.name`."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}".lstrip("."))
    else:
        yield path, value
