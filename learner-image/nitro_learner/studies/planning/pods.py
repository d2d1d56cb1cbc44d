"""What a pod of the pool does in the gap of a round, by the rule with which the operator divides pools."""

from dataclasses import dataclass

from nitro_api import JobSpec
from nitro_api.costs.pod_prices import pod_vcpu
from nitro_api.costs.prices import pod_cost
from nitro_api.pools.holding import USUAL
from nitro_api.pools.pod_resources import SLEEPING_VCPU
from nitro_api.pools.sleeping import Later, PodPrices, PoolNeed, Slopes, divide

_WORD_SECONDS = 0.5
"""Until the learner knows that pods are awake."""
ASLEEP_VCPU = 2 * SLEEPING_VCPU
"""CPU that a sleeping pod requests: the least for its actor, and the least for its queue-proxy."""
_LEAST_SECONDS = 1e-3
"""A shorter step is not made."""


@dataclass(frozen=True)
class GapUse:
    """Seconds of one pod in each state. Where it goes it drains, and the one in its place starts awake."""

    awake: float = 0.0
    asleep: float = 0.0
    draining: float = 0.0


def gap_use(spec: JobSpec, gap: float, pods: int) -> GapUse:
    """What each pod does between two rounds that need all of them, where the learner foretells the second.

    Args:
        gap: from the end of one round's sampling to the beginning of the next one's. Unit: seconds.
    """
    slopes = Slopes.of(_prices(spec), USUAL, word=_WORD_SECONDS)
    let_go = spec.scaling.hold == "auto"
    at, awake, asleep, goes = 0.0, 0.0, 0.0, False
    while at < gap:
        need = PoolNeed(0, later=(Later(gap - at, pods),), past=(Later(at, pods),))
        state = divide(need, pods, slopes, let_go=let_go)
        until = gap if state.seconds is None else min(gap, at + max(state.seconds, _LEAST_SECONDS))
        if state.pods < pods:
            goes = True
        elif state.awake < pods:
            asleep += until - at
        else:
            awake += until - at
        at = until
    return GapUse(awake, asleep, USUAL.drain if goes else 0.0)


def _prices(spec: JobSpec) -> PodPrices:
    """What a second of a pod costs."""
    memory, whole = spec.pricing.actor_memory_gb * spec.actor.per_pod, pod_vcpu(spec.actor)
    awake = pod_cost(spec.pricing, memory, whole)
    asleep = pod_cost(spec.pricing, memory, ASLEEP_VCPU, awake_gb_seconds=memory * ASLEEP_VCPU / whole)
    if awake <= 0:  # pods without a price: what they take of their node
        awake, asleep = whole, ASLEEP_VCPU
    return PodPrices(awake, asleep if spec.scaling.sleep == "auto" else None)
