"""How many pods of a pool are awake, asleep and gone: ski rental with three slopes, refined by a forecast.

A pod that is awake costs its CPU and memory, one that sleeps its memory, and one that is gone nothing. The
deeper the state, the more it costs to come back: a sleeper must be woken, and a pod that is gone is paid
while it drains and while another one starts. This is ski rental with several slopes (Lotker, Patt-Shamir and
Rawitz, "Rent, lease or buy", STACS 2008; Irani, Shukla and Gupta, "Online strategies for dynamic power
management in systems with multiple power-saving states", TECS 2(3), 2003). The optimum of a gap is the lower
envelope of the three lines of cost over time.

That envelope is the sum of two problems with two states each: whether to pay a sleeper's price or an awake
pod's, and whether to pay nothing or a sleeper's price. Each has its break-even time T, after which the deeper
state would have been cheaper. As in `holding`, a pod goes deeper after lambda T where the forecast says
that the gap is longer than T, and else after T / lambda: the rule of Purohit, Svitkina and Kumar (NeurIPS
2018), by which a gap costs at most 1 + lambda times the optimum where the forecast is right, and 1 + 1 /
lambda times where it is wrong. To let go, lambda is 1/2. To sleep, it is 1/8: the learner corrects its
forecast while it learns, and a sleeper is back within seconds. So the sum costs at most 1.5 times the
optimum where the forecast is right, and at most nine times where it is wrong.

A pod comes back just before the forecast says so, or when it is needed, whichever is first. If the forecast
time passes without a need, another gap begins of which nothing is known: the pod goes deeper after T, which
costs at most twice the optimum (Karlin et al.). So a gap never costs more than 9.125 times its optimum.
Likewise where a forecast moves after a pod has been started for it: the pod does not go before another gap,
from its return on, has lasted long enough. Else it would be started and let go again with every word.

All pods of a pool are equal, so the n-th one is needed whenever at least n are: each n is a problem of its
own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from nitro_api.pools.holding import TRUST, PodTimes

SLEEP_TRUST = 0.125
"""Lambda of the decision to sleep."""


@dataclass(frozen=True)
class PodPrices:
    """What a pod costs. Unit: dollars per second; only the ratios matter."""

    awake: float
    asleep: float | None
    """None where pods cannot sleep."""


@dataclass(frozen=True)
class Later:
    """Pods that are expected to be needed."""

    seconds: float
    """Time until then."""
    pods: int


@dataclass(frozen=True)
class PoolNeed:
    """What a pool's user needs now, has needed and expects to need."""

    now: int
    """Pods that work, or may at any moment."""
    later: Sequence[Later] = ()
    """What is expected, from now on. A time that has passed without the need is negative."""
    past: Sequence[Later] = ()
    """Earlier needs, the newest first: pods, and the seconds since they were needed last."""
    returned: Sequence[Later] = ()
    """Pods that came back for an expected need that has not come yet, and the seconds since then."""

    def idle(self, n: int) -> float:
        """Seconds for which nobody has needed the n-th pod; infinite if nobody ever did."""
        if n <= self.now:
            return 0.0
        return next((past.seconds for past in self.past if past.pods >= n), math.inf)

    def here(self, n: int) -> float:
        """Seconds since the n-th pod was needed, or came back for a need; infinite if it never did."""
        back = min((returned.seconds for returned in self.returned if returned.pods >= n), default=math.inf)
        return min(self.idle(n), back)

    def ahead(self, n: int) -> float | None:
        """Seconds until the n-th pod is expected to be needed; None where nobody expects it."""
        return min((later.seconds for later in self.later if later.pods >= n), default=None)


@dataclass(frozen=True)
class Slopes:
    """The times that prices and a pool's own times lead to. Unit of all: seconds."""

    wake: float
    """Before a need, a sleeper is woken."""
    start: float
    """Before a need, another pod is started in place of one that is gone."""
    to_sleep: float
    """Break-even time between awake and asleep; infinite where pods cannot sleep."""
    to_go: float
    """Break-even time between asleep and gone, or without sleep between awake and gone."""

    @classmethod
    def of(cls, prices: PodPrices, times: PodTimes, patches: float = 0.0, word: float = 0.0) -> Self:
        """Args:
        prices: of one pod.
        times: that a pod needs to start, to drain and to wake.
        patches: that it takes to ask all pods of the pool, to sleep or to wake.
        word: until the pool's user knows that pods are awake.
        """
        wake = times.wake + patches + word
        asleep = prices.asleep
        if asleep is None or prices.awake <= asleep:
            return cls(wake, times.start, math.inf, times.cycle)
        back = (wake + patches) * prices.awake
        gone = times.start * prices.awake + times.drain * asleep
        to_sleep = back / (prices.awake - asleep)
        to_go = gone / asleep if asleep else math.inf
        # Where another pod is there almost as soon as a sleeper, a pod goes without having slept.
        return cls(wake, times.start, to_sleep, times.cycle if to_go < to_sleep else to_go)


@dataclass(frozen=True)
class Division:
    """How a pool's pods are to be divided."""

    awake: int
    pods: int
    """Awake and asleep ones together; the others are let go, or not started."""
    seconds: float | None = None
    """Time until the division changes, without any new word; None = never."""

    @property
    def asleep(self) -> int:
        return self.pods - self.awake


def divide(need: PoolNeed, held: int, slopes: Slopes, *, let_go: bool = True) -> Division:
    """Divide a pool between awake and asleep pods, and those that are gone.

    Args:
        need: what its user needs, has needed and expects.
        held: pods that are to exist between gaps of the user's work, as `holding` decides: what the user is
            expected to need next, and what is held beyond that for later.
        let_go: whether pods may be let go within a gap. Otherwise all that are held sleep at most.
    """
    sizes = sorted({n for n in _sizes(need, held) if 0 < n <= held})
    states = [(n, _State.of(need, n, slopes, let_go=let_go)) for n in sizes]
    seconds = min((state.seconds for _, state in states), default=math.inf)
    awake = max((n for n, state in states if state.awake), default=0)
    pods = max((n for n, state in states if state.exists), default=0)
    return Division(awake, pods, seconds if math.isfinite(seconds) else None)


def _sizes(need: PoolNeed, held: int) -> set[int]:
    """The numbers that can be the answer. All pods between two neighbours are in the same state."""
    entries = [*need.later, *need.past, *need.returned]
    return {held, need.now, *(entry.pods for entry in entries)}


@dataclass(frozen=True)
class _State:
    """What one pod is to be."""

    awake: bool
    exists: bool
    seconds: float = math.inf
    """Time until that changes."""

    @classmethod
    def of(cls, need: PoolNeed, n: int, slopes: Slopes, *, let_go: bool) -> Self:
        if n <= need.now:
            return cls(awake=True, exists=True)
        idle, here, ahead = need.idle(n), need.here(n), need.ahead(n)
        leaves = let_go and ahead is not None
        if ahead is not None and ahead <= 0:  # another gap, since the time at which the need did not come
            idle, here = -ahead, min(here, -ahead)
            asleep_after, gone_after, ahead = slopes.to_sleep, slopes.to_go, None
        else:
            asleep_after = _after(slopes.to_sleep, SLEEP_TRUST, idle, ahead)
            gone_after = _after(slopes.to_go, TRUST, here, ahead)
        awake, exists = idle < asleep_after, not leaves or here < gone_after
        changes = [asleep_after - idle, gone_after - here if leaves else math.inf]
        if ahead is not None:  # it comes back before it is needed
            awake, exists = awake or ahead <= slopes.wake, exists or ahead <= max(slopes.start, slopes.wake)
            changes += [ahead - slopes.wake, ahead - slopes.start, ahead]
        return cls(
            awake and exists, exists, min((change for change in changes if change > 0), default=math.inf)
        )


def _after(even: float, trust: float, idle: float, ahead: float | None) -> float:
    """Seconds of a gap after which a pod goes into the deeper state.

    Args:
        even: the break-even time.
        trust: how far the forecast shortens or lengthens it.
        idle: seconds of the gap so far.
        ahead: seconds until the gap is expected to end; None = not soon.
    """
    long = ahead is None or idle + ahead >= even
    return even * trust if long else even / trust
