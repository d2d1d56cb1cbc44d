"""What a round costs, on machines and on serverless actors.

The formulas follow how AWS bills; the Nitro paper prints none. It gives the prices in section 8.1,
footnotes 2 and 3 (us-east-2), except the price of a request. It writes provisioned concurrency as a sum of
two prices; that one is for being ready and the other for an invocation is AWS's.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from nitro_api.costs.pod_prices import CPU_SHARE
from nitro_api.spec.pricing import Pricing


@dataclass(frozen=True)
class RoundCost:
    """Cost of one round in US dollars."""

    learner: float
    """The learner's machine."""

    actors: float
    """Actor machines, invocations or pods."""

    @property
    def total(self) -> float:
        """Learner and actors together."""
        return self.learner + self.actors


def learner_cost(pricing: Pricing, seconds: float) -> float:
    """Dollars for the learner's machine: P_k * p_learner. `seconds` is the round's wall time."""
    return _sane(seconds, "seconds") * pricing.learner_dollars_per_hour / 3600.0


def vm_cost(pricing: Pricing, seconds: float) -> RoundCost:
    """Cost of a round whose actors live on machines of their own, busy or idle: P_k (p_learner + n p_vm).

    `seconds` is P_k, the round's wall time.
    """
    machines = pricing.vm_count * pricing.vm_dollars_per_hour
    return RoundCost(learner_cost(pricing, seconds), seconds * machines / 3600.0)


def serverless_cost(
    pricing: Pricing,
    seconds: float,
    billed: Sequence[float],
    provisioned: int = 0,
    *,
    at_once: int | None = None,
) -> RoundCost:
    """Cost of a round whose actors are invocations.

    P_k p_learner + sum_i [ceil_1ms(d_i) GB p_x + p_request] + P_k provisioned GB p_pc. `seconds` is P_k, the
    round's wall time; `billed` holds d_i, the whole of each invocation in seconds, retries included;
    `provisioned` is the provisioned concurrency. An invocation runs under it, at its lower price, if one of
    its sandboxes is free when the invocation begins. That is computed as if at most `at_once` invocations
    ran at a time (None: all of them), each as soon as another one has ended. Raises ValueError for a time
    that is negative or not finite.
    """
    memory = pricing.actor_memory_gb
    actors = (
        _sane(seconds, "seconds") * _sane(provisioned, "provisioned") * memory * pricing.provisioned_gb_second
    )
    free = [(0.0, sandbox) for sandbox in range(min(len(billed), at_once or len(billed)))]  # a heap, by time
    for duration in billed:
        paid = billed_seconds(duration)
        began, sandbox = free[0]
        heapq.heapreplace(free, (began + paid, sandbox))
        price = pricing.lambda_provisioned_gb_second if sandbox < provisioned else pricing.lambda_gb_second
        actors += paid * memory * price + pricing.lambda_request
    return RoundCost(learner_cost(pricing, seconds), actors)


def pod_cost(
    pricing: Pricing, gb_seconds: float, vcpu_seconds: float = 0.0, *, awake_gb_seconds: float | None = None
) -> float:
    """Dollars for the memory and CPU that actor pods requested.

    With podVCPUSecond memory and CPU are paid apart. Without it podGBSecond is the price of an awake pod, and
    CPU_SHARE of it is CPU, which is paid as far as it was requested.

    Args:
        pricing: resolved.
        gb_seconds: pod-seconds times the memory of a pod's actors.
        awake_gb_seconds: the GB-seconds of awake pods that request as much CPU; None where no pod slept.
    """
    memory = _sane(gb_seconds, "gb_seconds") * pricing.pod_gb_second
    requested = _sane(vcpu_seconds, "vcpu_seconds")
    if pricing.pod_vcpu_second is not None:
        return memory + requested * pricing.pod_vcpu_second
    if awake_gb_seconds is None:
        return memory
    cpu = _sane(awake_gb_seconds, "awake_gb_seconds") * pricing.pod_gb_second
    return memory * (1 - CPU_SHARE) + cpu * CPU_SHARE


def billed_seconds(duration: float) -> float:
    """A duration in seconds, rounded up to the next millisecond as Lambda bills it."""
    # Rounded to the nanosecond first: 0.069 * 1000 is 69.00000000000001, which must not become 70.
    return math.ceil(round(_sane(duration, "duration") * 1e3, 6)) / 1e3


def _sane(value: float, name: str) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is {value}; it must be finite and not negative")
    return value
