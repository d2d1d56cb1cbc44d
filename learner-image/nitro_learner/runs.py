"""Opens a run folder for a new run or for going on with one, and writes what a run leaves behind."""

from __future__ import annotations

import contextlib
import platform
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_api import NitroTrainingJob
from nitro_learner.checkpoint import Checkpoint, CheckpointStore
from nitro_learner.report import Outcome
from nitro_learner.rundir import RunDir, RunDirError, read_metrics
from nitro_learner.scalers.agent import AgentError, ScalingAgent

if TYPE_CHECKING:
    from nitro_learner.bucket import RunBucket

# Fields that may differ when a run goes on: they change where and how long it runs, not what it computes.
_FREE = ("stop", "backend", "actor", "learner", "suspend", "ttlSecondsAfterFinished", "activeDeadlineSeconds")


@dataclass(frozen=True)
class OpenRun:
    """A run folder ready to train in.

    Attributes:
        id: the run's identity, kept over resumes.
        checkpoint: where to go on from; None = from the start.
        history: rows of metrics.csv up to the checkpoint.
    """

    folder: RunDir
    job: NitroTrainingJob
    id: str
    checkpoints: CheckpointStore
    checkpoint: Checkpoint | None
    history: list[dict[str, float | None]]


def open_run(
    folder: RunDir,
    job: NitroTrainingJob,
    *,
    resume: bool,
    run_id: str | None = None,
    bucket: RunBucket | None = None,
) -> OpenRun:
    """Prepares a run folder for a resolved job.

    Args:
        resume: whether to go on with the run in it; without a checkpoint it starts over, which gives the same
            result.
        run_id: identity of a new run; a random one by default.
        bucket: where the run is kept beside the folder, and taken from when the folder is empty.

    Raises:
        RunDirError: the folder holds a run and `resume` is false, or holds another job.
        CheckpointError: all checkpoints are damaged, or the bucket cannot be read.
    """
    if bucket is not None:
        bucket.restore(folder)
    if folder.has_run() and not resume:
        raise RunDirError(
            f"{folder.path} already holds a run. Go on with it by --resume {folder.path}, "
            "or choose another folder."
        )
    if folder.job.exists():
        check_same_job(folder.read_job(), job.to_dict(), folder)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_text(folder.job, job.to_yaml())
    kept = job.spec.learner.checkpoint.keep_last
    store = bucket.store(folder, kept) if bucket else CheckpointStore(folder.checkpoints, kept)
    checkpoint = store.latest()
    history: list[dict[str, float | None]] = []
    if checkpoint:
        history = [row for row in read_metrics(folder.metrics) if (row["round"] or 0) <= checkpoint.round]
        run_id = str(checkpoint.state["run"])
    return OpenRun(folder, job, run_id or secrets.token_hex(4), store, checkpoint, history)


def check_same_job(saved: Mapping[str, Any], now: Mapping[str, Any], folder: RunDir) -> None:
    """Refuses to go on with a run under another job.

    Raises:
        RunDirError: names the fields that differ, with both values.
    """
    old, new = (
        dict(_leaves({k: v for k, v in job["spec"].items() if k not in _FREE})) for job in (saved, now)
    )
    differing = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
    if differing:
        lines = "\n".join(
            f"  spec.{path}: {old.get(path)!r} in the folder, {new.get(path)!r} now" for path in differing
        )
        raise RunDirError(f"{folder.path} holds a run of another job; these fields differ:\n{lines}")


def summary(run: OpenRun, outcome: Outcome, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """What summary.json says of a run that ended; `last` is its last row of metrics."""
    evaluation = outcome.evaluation
    result: dict[str, Any] = {
        "job": run.job.metadata.name,
        "run": run.id,
        "finished": outcome.finished,
        "reason": outcome.reason,
        "message": outcome.message,
        "rounds": outcome.rounds,
        "cost": asdict(outcome.cost) | {"total": outcome.cost.total},
        "versions": {
            "python": platform.python_version(),
            "machine": platform.platform(),
            **package_versions(),
        },
    }
    if last:
        result |= {
            "envSteps": last["env_steps"],
            "wallSeconds": last["wall_seconds"],
            "rewardMean": last["reward_mean"],
        }
    if run.job.spec.scaling.agent:
        with contextlib.suppress(AgentError):  # the file was needed only when the run began
            result["pretraining"] = asdict(ScalingAgent.load(Path(run.job.spec.scaling.agent)).spent)
    if evaluation:
        mean = sum(evaluation) / len(evaluation)
        result["evaluation"] = {
            "episodes": len(evaluation),
            "mean": mean,
            "std": (sum((value - mean) ** 2 for value in evaluation) / len(evaluation)) ** 0.5,
            "min": min(evaluation),
            "max": max(evaluation),
        }
    return result


def package_versions() -> dict[str, str]:
    """Of what computes."""
    names = ("nitro-learner", "torch", "numpy", "gymnasium", "mujoco", "ale-py")
    return {name: metadata.version(name) for name in names}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".lstrip("."))
    else:
        yield path, value
