"""What a job's actor pods did, beside what somebody would have done who knew its requests in advance."""

from __future__ import annotations

import statistics

from harness import Object

from nitro_api import resolve_stored
from nitro_api.pools.holding import hold
from pod_simulator import Place, Result, Simulation, TraceRound, oracle


def slots_that_found_a_ready_actor(status: Object) -> tuple[int, int]:
    """Their number, and that of all slots, from the second request of a size on."""
    ready = slots = seen = 0
    for one in status["training"]["history"]:
        known = min(one["actors"], seen)
        slots += known
        ready += min(known, one.get("ready", 0))
        seen = max(seen, one["actors"])
    return ready, slots


def oracle_of(status: Object) -> Result:
    """What an oracle would have started and paid, with the times of pods and rounds that were measured."""
    return oracle(*_trace(status))


def replayed(status: Object, job: Object) -> Result:
    """What the operator's rule starts and pays in a simulation with the same times."""
    trace, place = _trace(status)
    return Simulation(trace, place, resolve_stored(job).spec.scaling, hold).run()


def _trace(status: Object) -> tuple[list[TraceRound], Place]:
    rounds, actors = status["training"]["history"], status["actors"]
    slot = statistics.fmean(one["actorSeconds"] for one in rounds)
    trace = [TraceRound(one["actors"], max(0.0, one["seconds"] - one["actorSeconds"])) for one in rounds]
    return trace, Place(actors["startSeconds"], 0.0, actors["drainSeconds"], 0.0, slot)
