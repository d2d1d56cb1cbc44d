"""Opening of run folders, for a new run or to resume one, and the summary of a run."""

from __future__ import annotations

import contextlib
import logging
import platform
import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_api import ResolvedJob
from nitro_api.costs.ledger import Ledger, LedgerCorrupt
from nitro_learner.checkpoints.store import Checkpoint, CheckpointError, CheckpointStore
from nitro_learner.run.learner_functions import function_cost
from nitro_learner.run.metrics_file import read_numbers
from nitro_learner.run.own_files import keep_digests
from nitro_learner.run.rundir import RunDir, RunDirError, write_text
from nitro_learner.run.same_job import check_same_job, check_same_schedule
from nitro_learner.run.source import Start, begin_with, take_run
from nitro_learner.run.tracking.availability import check_installed
from nitro_learner.scalers.agent import AgentError, ScalingAgent
from nitro_learner.scalers.minionsrl import load_agent
from nitro_learner.training.builder import Sitting
from nitro_learner.training.costs import ActorWork
from nitro_learner.training.device import device_name, torch_device
from nitro_learner.training.round_report import Outcome
from nitro_learner.training.short_episodes import reason, short
from nitro_learner.training.state import TrainingState
from nitro_learner.training.stop import Progress, decide

if TYPE_CHECKING:
    from nitro_learner.run.bucket import RunBucket

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OpenRun(Sitting):
    """A run folder ready to train in.

    Attributes:
        ended: progress of a run that has ended under the job's stop conditions, with its last evaluation;
            None for a run that has more to do.
    """

    folder: RunDir
    ended: Progress | None = None


def open_run(
    folder: RunDir,
    job: ResolvedJob,
    *,
    resume: bool,
    run_id: str | None = None,
    bucket: RunBucket | None = None,
    source: str | None = None,
    start: Start | None = None,
) -> OpenRun:
    """Prepare a run folder for a resolved job.

    Args:
        resume: whether to go on with the run in the folder. Without a checkpoint the run starts over, which
            gives the same result.
        run_id: identity of the run. By default that of its checkpoint, and of a new run a random one.
        bucket: a second copy of the run. The run is copied from it when the folder has no checkpoint.
        source: where the run of spec.resumeFrom is; read when the folder has no checkpoint. With take: Run
            it is copied into the folder, and goes on there.
        start: what the user of this machine has a new run begin with.

    Raises:
        JobInvalid: the other run does not fit the job, a tracker is not installed, or there is no GPU for it.
        RunDirError: the folder holds a run and `resume` is false, or it holds a run of another job or
            schedule, or a run that has lost rounds, or all checkpoints after its end; or the run of
            spec.resumeFrom cannot be copied.
        CheckpointError: all checkpoints are damaged, or the bucket cannot be read.
        AgentError: the run is at its beginning, and the file of its scaling agent cannot be used.
    """
    if bucket is not None:
        bucket.restore(folder)
    check_installed(job.spec)
    whole = job.spec.resume_from is not None and job.spec.resume_from.take == "Run"
    if whole and not CheckpointStore(folder.checkpoints, keep_last=1).rounds():
        take_run(source, job, folder)
    begun = folder.has_run()
    if begun and not resume:
        raise RunDirError(
            f"{folder.path} already holds a run. Go on with it by --resume {folder.path}, "
            "or choose another folder."
        )
    saved = folder.read_job() if begun and folder.job.exists() else None
    if saved:
        check_same_job(saved, job.to_dict(), folder.path)
    kept = job.spec.learner.checkpoint.keep_last
    store = bucket.store(folder, kept) if bucket else CheckpointStore(folder.checkpoints, kept)
    checkpoint = store.latest()
    history: list[dict[str, float | None]] = []
    if checkpoint:
        if saved:
            check_same_schedule(saved, job, folder)
        history = [row for row in read_numbers(folder.metrics) if (row["round"] or 0) <= checkpoint.round]
        _check_rounds(folder.metrics, {int(row["round"] or 0) for row in history}, checkpoint.round)
        _check_rounds(folder.ledger, _paid(folder), checkpoint.round)
        # A folder that was moved, or a run that was taken over, has the identity of another run in it. But
        # the keys of Redis that this run may use carry its own.
        run_id = run_id or str(checkpoint.state["run"])
    else:
        if begun:
            _check_start_over(folder)
        if job.spec.scaling.agent:
            load_agent(job.spec.scaling)
    begin = None if checkpoint else begin_with(folder, job, source, start)
    ended = _ended(folder, job, checkpoint) if checkpoint else None
    if ended is None:
        torch_device(job.spec.learner.device)  # before anything starts
        folder.path.mkdir(parents=True, exist_ok=True)
        write_text(folder.job, job.to_yaml())
        keep_digests(folder, job.spec, begun=begun)
    return OpenRun(
        job,
        run_id or secrets.token_hex(4),
        store,
        checkpoint,
        history,
        begin,
        folder=folder,
        ended=ended,
    )


def _check_start_over(folder: RunDir) -> None:
    """Refuse to train a finished run again, and log a warning where rounds are lost.

    Raises:
        RunDirError: the run has finished, so its checkpoints were removed later.
    """
    summary = folder.read_summary()
    if summary.get("finished") and summary.get("rounds"):
        raise RunDirError(
            f"{folder.checkpoints} has no checkpoint, but the run has finished {summary['rounds']} rounds. "
            f"Restore the folder, or train anew in another one: nitro train {folder.job}"
        )
    rows = read_numbers(folder.metrics) if folder.metrics.exists() else []
    if rows:
        logger.warning("no checkpoint yet: the run starts over, and repeats %d rounds", len(rows))


def _ended(folder: RunDir, job: ResolvedJob, checkpoint: Checkpoint) -> Progress | None:
    """Progress of the run at this checkpoint, if its summary says that it ended there and the job does not
    ask for more; else None."""
    summary = folder.read_summary()
    if not summary.get("finished") or summary.get("rounds") != checkpoint.round:
        return None
    state = TrainingState(actors=0)
    state.load_state_dict(checkpoint.state["training"])
    with open_ledger(folder) as ledger:
        # As it was decided by: the drain was paid afterwards.
        progress = state.progress(ledger.total.total - ledger.estimated)
    return progress if decide(job.spec.stop, progress) else None


def earlier_outcome(run: OpenRun) -> Outcome | None:
    """Outcome of a run that ended in an earlier session, without the returns of its evaluation; else None."""
    reason = decide(run.job.spec.stop, run.ended) if run.ended else None
    if run.ended is None or reason is None:
        return None
    with open_ledger(run.folder) as ledger:
        cost, repeated, work = ledger.total, ledger.repeated_cost.total, ActorWork.of(ledger)
        estimated = ledger.estimated
    return Outcome(
        reason.reason,
        reason.message,
        True,
        run.ended.round,
        cost,
        repeated,
        work=work,
        estimated=estimated,
    )


def open_ledger(folder: RunDir) -> Ledger:
    """The folder's ledger; a new one where there is none. Raises RunDirError when it cannot be read."""
    try:
        return Ledger(folder.ledger)
    except LedgerCorrupt as error:
        raise RunDirError(str(error)) from error


def _paid(folder: RunDir) -> set[int]:
    """The rounds in the folder's ledger."""
    if not folder.ledger.exists():
        return set()
    with open_ledger(folder) as ledger:
        return {entry.round for entry in ledger.entries}


def _check_rounds(path: Path, rounds: Collection[int], last: int) -> None:
    """Refuse a file that lacks a round up to the checkpoint's: each is on the disk before its checkpoint.

    Raises:
        RunDirError: names the rounds.
    """
    missing = set(range(1, last + 1)).difference(rounds)
    if missing:
        starts = sorted(round for round in missing if round - 1 not in missing)
        ends = sorted(round for round in missing if round + 1 not in missing)
        lacking = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True))
        raise RunDirError(
            f"{path} lacks rounds that the checkpoint of round {last} is built on: {lacking}. "
            "Restore the file, or start a new run in another folder."
        )


def summary(run: OpenRun, outcome: Outcome, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """What summary.json says of a run that ended; `last` is its last row of metrics."""
    result: dict[str, Any] = {
        "job": run.job.metadata.name,
        "run": run.id,
        "finished": outcome.finished,
        "reason": outcome.reason,
        "message": outcome.message,
        "rounds": outcome.rounds,
        "cost": asdict(outcome.cost) | {"total": outcome.cost.total, "repeated": outcome.repeated},
        "versions": {
            "python": platform.python_version(),
            "machine": platform.platform(),
            "device": device_name(run.job.spec.learner.device),
            **package_versions(),
        },
    }
    if outcome.paid_pod_seconds is not None:
        result["actors"] = {"podSeconds": outcome.paid_pod_seconds, "busySeconds": outcome.work.seconds}
        if outcome.drain_seconds:  # its pods are not gone yet, and the dollars are an estimate likewise
            result["actors"]["estimatedPodSeconds"] = outcome.drain_seconds
            result["cost"]["estimated"] = outcome.estimated
    if last:
        result |= {
            "envSteps": int(last["env_steps"]),  # a float where it was read from metrics.csv
            "wallSeconds": last["wall_seconds"],
            "rewardMean": last["reward_mean"],
        }
        if short(last.get("cut_share")):
            result["rewardNote"] = reason(run.job.spec.environment.to_dict())
    if run.job.spec.scaling.agent and (spent := _pretraining(run)):
        result["pretraining"] = spent
    if functions := function_cost(run.folder):
        result["modelledLearnerFunctions"] = functions.to_dict()
    if evaluation := _evaluation(run, outcome):
        result["evaluation"] = evaluation
    if best := run.checkpoints.best():
        result["best"] = best
    with contextlib.suppress(RunDirError):
        if start := run.folder.read_start():
            result["start"] = start
    return result


def _evaluation(run: OpenRun, outcome: Outcome) -> dict[str, Any] | None:
    """The final evaluation; None where there is none. A session that was interrupted before its first round
    leaves that of the session before, which had the same policy."""
    returns = outcome.evaluation
    if not returns:
        with contextlib.suppress(RunDirError):
            before = run.folder.read_summary()
            if (before.get("run"), before.get("rounds")) == (run.id, outcome.rounds):
                return before.get("evaluation")
        return None
    mean = sum(returns) / len(returns)
    std = (sum((value - mean) ** 2 for value in returns) / len(returns)) ** 0.5
    evaluation: dict[str, Any] = {"episodes": len(returns), "mean": mean, "std": std}
    evaluation |= {"min": min(returns), "max": max(returns)}
    if len(outcome.agent_evaluation) > 1:
        evaluation |= {"agents": dict(outcome.agent_evaluation), "classes": dict(outcome.class_evaluation)}
    if outcome.evaluation_sets:
        evaluation["sets"] = dict(outcome.evaluation_sets)
    return evaluation


def _pretraining(run: OpenRun) -> dict[str, Any] | None:
    """The cost of the pre-training of the run's agent; None where it is unknown. The agent in the
    checkpoint comes first, because the agent's file may hold another one by now."""
    spent: dict[str, Any] | None = None
    with contextlib.suppress(CheckpointError):
        checkpoint = run.checkpoints.latest()
        spent = checkpoint.state["scaler"]["spent"] if checkpoint else None
    if spent is None:  # no round was learned from
        with contextlib.suppress(AgentError):
            spent = asdict(ScalingAgent.load(Path(str(run.job.spec.scaling.agent))).spent)
    return spent


def package_versions() -> dict[str, str]:
    """The versions of the packages that compute."""
    names = ("nitro-learner", "torch", "numpy", "gymnasium", "mujoco", "ale-py")
    return {name: metadata.version(name) for name in names}
