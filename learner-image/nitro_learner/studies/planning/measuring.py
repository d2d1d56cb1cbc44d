"""From a job to its plan: what a probe or earlier runs have measured, and the model of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nitro_actor.processor import cores
from nitro_api import JobSpec
from nitro_learner import scalers
from nitro_learner.backends.local import processes_of
from nitro_learner.boosting.detector import transitions
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.studies.planning import plan, probe
from nitro_learner.studies.planning.fitting import fit
from nitro_learner.studies.planning.model import Room, RoundShape, Times
from nitro_learner.studies.planning.plan import BACKENDS, Plan
from nitro_learner.studies.planning.runs import PastRun, Reached
from nitro_learner.studies.resolved_job import BEGUN_HERE, backend_overrides, resolved_job


def planned(source: Any, overrides: Sequence[str]) -> Plan:
    """The plan of a job by a probe on this machine.

    Args:
        source: what `load_job` takes.
        overrides: PATH=VALUE each.

    Raises:
        JobInvalid, ProbeFailed, TrainingFailed: see `probe.measure`.
    """
    job = resolved_job(source, [*overrides, *BEGUN_HERE])
    local = resolved_job(source, [*overrides, *BEGUN_HERE, *backend_overrides("Local")])
    measured = probe.measure(local)
    room = Room(measured.processes, cores(), crowded=True)
    times = fit([measured.rounds], room, RoundShape(1, 1, overlapping=_overlaps(job.spec)), measured.start)
    # The probe's rounds have one actor at least, and the detector measures as many transitions.
    return plan.make(
        job.metadata.name, job.spec, _detecting(times, local.spec, job.spec, fewest=1), measured.processes
    )


def planned_from(
    source: Any, overrides: Sequence[str], paths: Sequence[Path], target: float | None = None
) -> Plan:
    """The plan of a job by earlier runs.

    Args:
        source: what `load_job` takes; None = the job of the first run.
        paths: of their folders, one at least.
        target: a return, of which the plan then says when each run has reached it.

    Raises:
        JobInvalid: the job has mistakes.
        RunDirError: a folder holds no run with a round, or runs are of different jobs.
    """
    if source is None:
        source = RunDir(paths[0]).read_job()
    job = resolved_job(source, [*overrides, *BEGUN_HERE])
    runs = [PastRun.read(path) for path in paths]
    first = runs[0].spec
    for run in runs:
        _check_alike(run, first, "the other runs")
        _check_alike(run, job.spec, "the job")
    if _measures(job.spec) and not _measures(first):
        raise RunDirError(
            f"{paths[0]}: its scaler {first.scaling.decider} measures nothing, and that of the job, "
            f"{job.spec.scaling.decider}, does. Give runs with that scaler, or set spec.scaling.scaler: fixed"
        )
    here = first.backend.type == "Local"
    processes = processes_of(first)
    most = max(one.actors for run in runs for one in run.rounds)
    room = Room(processes, cores(), crowded=True) if here else Room(most)
    rounds = RoundShape(first.scaling.min_actors, 1, overlapping=_overlaps(first))
    times = fit([run.rounds for run in runs], room, rounds, 0.0)
    made = plan.make(
        job.metadata.name,
        job.spec,
        _detecting(times, first, job.spec, fewest=first.scaling.min_actors),
        processes,
        # Nothing was measured on this machine by a run elsewhere.
        BACKENDS if here else BACKENDS[1:],
    )
    reached = [] if target is None else [Reached.of(run, target) for run in runs]
    return replace(made, target=target, reached=reached)


def _overlaps(spec: JobSpec) -> bool:
    return spec.algorithm.record.feeding == "arrivals"


def _measures(spec: JobSpec) -> bool:
    return bool(scalers.make(spec).needs)


def _detecting(times: Times, measured: JobSpec, planned: JobSpec, *, fewest: int) -> Times:
    """The times with the detector of the planned job, which may measure more transitions."""
    if not _measures(planned):
        return replace(times, detector=0.0)
    had = min(transitions(measured), fewest * measured.environment.rollout_length)
    return replace(times, detector=times.detector * transitions(planned) / had)


def _check_alike(run: PastRun, other: JobSpec, what: str) -> None:
    """Raise RunDirError where a run's rounds say nothing about another job's."""
    pairs = {
        "environment.id": (run.spec.environment.id, other.environment.id),
        "environment.rolloutLength": (
            run.spec.environment.rollout_length,
            other.environment.rollout_length,
        ),
        "algorithm.name": (run.spec.algorithm.name, other.algorithm.name),
        "backend.type": (run.spec.backend.type, other.backend.type),
    }
    if what == "the job":
        del pairs["backend.type"]
    for field, (mine, theirs) in pairs.items():
        if mine != theirs:
            raise RunDirError(
                f"{run.path}: its spec.{field} is {mine}, and that of {what} is {theirs}. Give runs that "
                "differ from the job in seed, actors, prices or stop only."
            )
