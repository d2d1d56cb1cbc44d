"""Billing of rounds in dollars, written to the ledger: invocations, where pods are metered pod-seconds,
or machines.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nitro_api.costs.ledger import Entry, Ledger
from nitro_api.costs.pod_use import STATES, PodUse
from nitro_api.costs.prices import RoundCost, learner_cost, serverless_cost, vm_cost
from nitro_api.spec.pricing import Pricing

if TYPE_CHECKING:
    from nitro_learner.backends.base import ActorBackend
    from nitro_learner.backends.tasks.counts import Counts
    from nitro_learner.sampling.dispatch import Dispatcher
    from nitro_learner.sampling.plans import EvaluationResult, RoundResult


@dataclass(frozen=True)
class ActorWork:
    """What a run's actors have done so far: all that was billed, what was done again included.

    Attributes:
        seconds: time that they worked. Unit: actor-seconds.
        invocations: failed and repeated ones, evaluations, and those that were broken off included.
        estimated: those of them whose billed time is an estimate.
    """

    seconds: float = 0.0
    invocations: int = 0
    estimated: int = 0

    @classmethod
    def of(cls, ledger: Ledger) -> ActorWork:
        """The work in a ledger's entries."""
        details = [entry.details for entry in ledger.entries]
        return cls(
            math.fsum(float(detail.get("billedSeconds", 0.0)) for detail in details),
            sum(int(detail.get("invocations", 0)) for detail in details),
            sum(int(detail.get("estimatedInvocations", 0)) for detail in details),
        )

    def since(self, before: ActorWork) -> ActorWork:
        """The part of it that came after `before`."""
        return ActorWork(
            max(0.0, self.seconds - before.seconds),
            max(0, self.invocations - before.invocations),
            max(0, self.estimated - before.estimated),
        )


class Meter:
    """What a run has cost.

    Actors are billed by the invocation model (`nitro_api.costs.prices`; the prices are those of Nitro,
    section 8.1), on the local backend as well: there it says what the same run would cost with serverless
    actors. With `pods` they are billed by what their pods request while they exist, with `pricing.model: vm`
    by the machines that would host them; the journal then keeps the invocation model's figure beside it.

    Args:
        ledger: open journal; holds what earlier sittings cost, rounds that a crash made them do twice
            included.
        pricing: resolved prices.
        pods: reads what the pods have used so far, None when unknown.
        provisioned: reads the sandboxes that Lambda keeps ready, which are billed for the round's whole time.
        drain: estimates what the pods will still use until they are gone, None when unknown.
        pod_vcpu: CPU that an awake pod requests by the job, for an operator that does not report it.
        job: identity of the job that `pods` belong to. Those of a job that is made anew and goes on with the
            run are counted from zero.
    """

    def __init__(
        self,
        ledger: Ledger,
        pricing: Pricing,
        pods: Callable[[], PodUse | None] | None = None,
        provisioned: Callable[[], int] = lambda: 0,
        drain: Callable[[], PodUse | None] = lambda: None,
        pod_vcpu: float = 0.0,
        job: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._pricing = pricing
        self._pods = pods
        self._provisioned = provisioned
        self._drain = drain
        self._pod_vcpu = pod_vcpu
        self._job = job
        self._metered = self._measured = metered(ledger, job)
        self._work = ActorWork.of(ledger)

    @property
    def total(self) -> RoundCost:
        """The run's cost so far."""
        return self._ledger.total

    @property
    def repeated(self) -> float:
        """What of the total went into rounds that were done again after a crash. Unit: US dollars."""
        return self._ledger.repeated_cost.total

    @property
    def work(self) -> ActorWork:
        """What actors have done so far."""
        return self._work

    @property
    def pods(self) -> PodUse | None:
        """What their pods have used, as far as it was measured and paid; None where there are none."""
        return self._measured if self._pods is not None else None

    @property
    def paid_pod_seconds(self) -> float | None:
        """Pod-seconds that the run has paid, those of former jobs and the estimate included; None where there
        are no pods."""
        former = [entry.details for entry in self._ledger.entries if not _of(entry, self._job)]
        earlier = math.fsum(float(detail.get("roundPodSeconds", 0.0)) for detail in former)
        return earlier + self._metered.seconds if self._pods is not None else None

    @property
    def left(self) -> float:
        """What pods will still exist for after the run, an estimate that is paid. Unit: pod-seconds."""
        return self._metered.seconds - self._measured.seconds

    @property
    def estimated(self) -> float:
        """What of the total is the estimate of a drain that has not happened yet. Unit: US dollars."""
        return self._ledger.estimated

    def round(
        self,
        number: int,
        seconds: float,
        billed: Sequence[float],
        actors: int,
        estimated: int = 0,
        at_once: int | None = None,
    ) -> RoundCost:
        """Write down a round and return its own cost.

        Args:
            number: the round; 0 for what belongs to none: the evaluation at the end, and what was broken off.
            seconds: the round's wall time.
            billed: seconds of every invocation, failed and evaluation ones included.
            estimated: how many of them nobody reported, so that their time is a guess.
            at_once: how many of them ran at a time at most; None = all.

        Raises:
            OSError: the journal cannot be written (disk full).
        """
        provisioned = self._provisioned()
        cost = serverless_cost(self._pricing, seconds, billed, provisioned, at_once=at_once)
        details: dict[str, Any] = {
            "actors": actors,
            "seconds": seconds,
            "invocations": len(billed),
            "billedSeconds": sum(billed),
            "estimatedInvocations": estimated,
        } | ({"provisioned": provisioned} if provisioned else {})
        if self._pods is not None:
            # An unknown or restarted meter bills nothing now; its next reading brings it all.
            paid = self._pay(self._pods() or self._metered, details)
            self._measured = self._metered
            details["invocationDollars"] = cost.actors
            cost = RoundCost(learner_cost(self._pricing, seconds), paid)
        if self._pricing.model == "vm":
            details.setdefault("invocationDollars", cost.actors)
            cost = vm_cost(self._pricing, seconds)
        self._ledger.append(number, cost, **details)
        self._work = ActorWork(
            self._work.seconds + sum(billed),
            self._work.invocations + len(billed),
            self._work.estimated + estimated,
        )
        return cost

    def leave(self) -> None:
        """Write down, at the end of the run, what its pods will still use until they are gone: an estimate. A
        run that goes on later pays only for what they used beyond it.

        Raises:
            OSError: the journal cannot be written (disk full).
        """
        drain = self._drain()
        if self._pods is None or drain is None or not drain.seconds or self._pricing.model == "vm":
            return
        before = self._metered
        total = {state: before.vcpu_seconds.get(state, 0.0) for state in STATES} if drain.vcpu_seconds else {}
        total |= {state: total.get(state, 0.0) + more for state, more in drain.vcpu_seconds.items()}
        seconds = before.seconds + drain.seconds
        details: dict[str, Any] = {"actors": 0, "seconds": 0.0, "invocations": 0, "billedSeconds": 0.0}
        paid = self._pay(PodUse(seconds, total, drain.pod_vcpu, drain.per_pod), details)
        self._ledger.append(0, RoundCost(0.0, paid), **details, estimatedPodSeconds=drain.seconds)

    def _pay(self, now: PodUse, details: dict[str, Any]) -> float:
        """Dollars for what pods have used since the last payment, which is added to the entry's details."""
        now = replace(now.at_least(self._metered), pod_vcpu=now.pod_vcpu or self._pod_vcpu)
        part, self._metered = now.since(self._metered), now
        details |= {
            "podSeconds": now.seconds,
            "roundPodSeconds": part.seconds,
            "roundGBSeconds": part.gb_seconds(self._pricing),
        }
        if self._job is not None:
            details["job"] = self._job
        if part.vcpu_seconds:
            details["roundVCPUSeconds"] = dict(part.vcpu_seconds)
        return part.dollars(self._pricing, slept=now.vcpu_seconds.get("asleep", 0.0) > 0)


def metered(ledger: Ledger, job: str | None = None) -> PodUse:
    """What a ledger's entries have paid of a job's pods."""
    own = [entry.details for entry in ledger.entries if _of(entry, job)]
    parts = [detail.get("roundVCPUSeconds") or {} for detail in own]
    totals = {state: math.fsum(float(part.get(state, 0.0)) for part in parts) for state in STATES}
    seconds = float(own[-1].get("podSeconds", 0.0)) if own else 0.0
    return PodUse(seconds, totals if any(parts) else {})


def _of(entry: Entry, job: str | None) -> bool:
    return bool(entry.details.get("job", job) == job)


class Billing:
    """Pay for the rounds of a run. The time until the first payment counts from here::

    billing = Billing(meter, dispatcher, backend)
    cost = billing.round(7, 16, result, evaluated, seconds=1.3)
    billing.rest()                                 # what belongs to no round
    """

    def __init__(self, meter: Meter, dispatcher: Dispatcher, backend: ActorBackend) -> None:
        self.meter = meter
        self._dispatcher = dispatcher
        self._backend = backend
        self._paid_at = time.monotonic()

    def round(
        self,
        round: int,
        actors: int,
        *results: RoundResult | EvaluationResult | None,
        seconds: float,
    ) -> RoundCost:
        """Write down a round's seconds and all its invocations: with a result, without a result, and those
        that the backend bills itself. Return the round's own cost.

        Raises:
            OSError: the ledger cannot be written (disk full).
        """
        parts: list[Counts] = [work for result in results if result for work in result.work]
        parts.append(self._dispatcher.take_unused())
        billed = [
            invocation for part in parts for invocation in part.billed_seconds
        ] + self._backend.take_bills()
        guessed = sum(part.estimated for part in parts)
        self._paid_at = time.monotonic()
        return self.meter.round(round, seconds, billed, actors, guessed, at_once=self._backend.limit)

    def rest(self, played: EvaluationResult | None = None) -> None:
        """Bill the seconds since the last payment, and an evaluation, outside of rounds. Raises OSError,
        as above.
        """
        self.round(0, 0, played, seconds=time.monotonic() - self._paid_at)
