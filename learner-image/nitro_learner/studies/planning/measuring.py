"""From a job to its plan: the probe, and the model of what it has measured."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nitro_actor.processor import cores
from nitro_learner.boosting.detector import transitions
from nitro_learner.studies.planning import plan, probe
from nitro_learner.studies.planning.fitting import fit
from nitro_learner.studies.planning.model import Room, RoundShape
from nitro_learner.studies.planning.plan import Plan
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
    rounds = RoundShape(1, 1, overlapping=job.spec.algorithm.record.feeding == "arrivals")
    times = fit(measured.rounds, room, rounds, measured.start)
    # The probe's rounds have one actor at least, and the detector measures as many transitions.
    least = min(transitions(job.spec), transitions(local.spec))
    scale = least / min(least, job.spec.environment.rollout_length)
    return plan.make(
        job.metadata.name, job.spec, replace(times, detector=scale * times.detector), measured.processes
    )
