"""Billing of rounds in dollars, written to the ledger: invocations, where pods are metered pod-seconds,
or machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nitro_api.costs.ledger import Ledger
from nitro_api.costs.prices import RoundCost, learner_cost, pod_cost, serverless_cost, vm_cost
from nitro_api.spec.pricing import Pricing


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
        """The work in a ledger's entries. Older versions wrote down no numbers of invocations."""
        details = [entry.details for entry in ledger.entries]
        return cls(
            math.fsum(float(each.get("billedSeconds", 0.0)) for each in details),
            sum(int(each.get("invocations", 0)) for each in details),
            sum(int(each.get("estimatedInvocations", 0)) for each in details),
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

    Actors are billed by the invocation model (nitro-spec section 6), on the local backend as well: there it
    says what the same run would cost with serverless actors. With `pod_seconds` they are billed by their
    pods' lifetime, with `pricing.model: vm` by the machines that would host them; the journal then keeps the
    invocation model's figure beside it.

    Args:
        ledger: open journal; holds what earlier sittings cost, rounds that a crash made them do twice
            included.
        pricing: resolved prices.
        pod_seconds: reads the pods' total lifetime so far in seconds, None when unknown.
        provisioned: reads the sandboxes that Lambda keeps ready, which are billed for the round's whole time.
        per_pod: actors in a pod, each with the memory that pricing.actorMemoryGB names.
    """

    def __init__(
        self,
        ledger: Ledger,
        pricing: Pricing,
        pod_seconds: Callable[[], float | None] | None = None,
        provisioned: Callable[[], int] = lambda: 0,
        per_pod: int = 1,
    ) -> None:
        self._ledger = ledger
        self._pricing = pricing
        self._pod_seconds = pod_seconds
        self._provisioned = provisioned
        self._per_pod = per_pod
        entries = ledger.entries
        self._metered = float(entries[-1].details.get("podSeconds", 0.0)) if entries else 0.0
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
    def pod_seconds(self) -> float | None:
        """Time that their pods have existed, as far as it is paid; None where there are none."""
        return self._metered if self._pod_seconds is not None else None

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
        details = {
            "actors": actors,
            "seconds": seconds,
            "invocations": len(billed),
            "billedSeconds": sum(billed),
            "estimatedInvocations": estimated,
        } | ({"provisioned": provisioned} if provisioned else {})
        if self._pod_seconds is not None:
            # An unknown or restarted meter bills nothing now; its next reading brings it all.
            now = max(self._pod_seconds() or 0.0, self._metered)
            details |= {"podSeconds": now, "invocationDollars": cost.actors}
            cost = RoundCost(
                learner_cost(self._pricing, seconds),
                pod_cost(self._pricing, (now - self._metered) * self._per_pod),
            )
            self._metered = now
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
