"""The division of a pool: pure, with a bound, compared with one who knows the future."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_api.pools.holding import PodTimes
from nitro_api.pools.sleeping import Division, Later, PodPrices, PoolNeed, Slopes, divide

TIMES = PodTimes(start=10, drain=30, wake=1)
PRICES = PodPrices(awake=1.0, asleep=0.2)
SLOPES = Slopes.of(PRICES, TIMES)
NO_SLEEP = Slopes.of(PodPrices(awake=1.0, asleep=None), TIMES)


def in_gap(seconds: float, of: float, *, now: int = 0, pods: int = 16) -> PoolNeed:
    """A gap so many seconds after its begin, of which it is expected that it has this length."""
    return PoolNeed(now, [Later(of - seconds, pods)], [Later(seconds, pods)])


class TestDecisions:
    def test_break_even_times(self) -> None:
        assert SLOPES.to_sleep == pytest.approx(1 / 0.8), "a wake, over what a sleeper saves in a second"
        assert SLOPES.to_go == pytest.approx((10 + 30 * 0.2) / 0.2)
        assert NO_SLEEP.to_go == TIMES.cycle
        patched = Slopes.of(PRICES, TIMES, patches=3.0)
        assert patched.to_sleep == pytest.approx(7 / 0.8), "patches to sleep and to wake, and the wake"
        assert patched.wake == 4.0
        told = Slopes.of(PRICES, TIMES, patches=3.0, word=1.0)
        assert (told.wake, told.to_sleep) == (5.0, pytest.approx(8 / 0.8)), "the user must hear of it, too"

    def test_what_works_is_awake_and_the_rest_sleeps_after_an_eighth_of_the_break_even_time(self) -> None:
        early, late = in_gap(0.15, 10, now=3), in_gap(0.16, 10, now=3)
        assert divide(early, 16, SLOPES) == Division(16, 16, pytest.approx(SLOPES.to_sleep / 8 - 0.15))
        assert divide(late, 16, SLOPES) == Division(3, 16, pytest.approx(10 - 0.16 - TIMES.wake))

    def test_pods_wake_just_before_they_are_expected_to_be_needed(self) -> None:
        assert divide(in_gap(8.9, 10), 16, SLOPES).awake == 0
        assert divide(in_gap(9.0, 10), 16, SLOPES).awake == 16

    def test_a_gap_that_is_shorter_than_its_patches_is_not_slept_through(self) -> None:
        slow = Slopes.of(PRICES, TIMES, patches=5.0)
        assert all(divide(in_gap(t, 10), 16, slow).awake == 16 for t in range(10))
        assert divide(in_gap(1.7, 30), 16, slow).awake == 16, "not yet"
        assert divide(in_gap(1.8, 30), 16, slow).awake == 0

    def test_some_are_expected_earlier_than_others(self) -> None:
        need = PoolNeed(0, [Later(0.5, 4), Later(20, 16)], [Later(5, 16)])
        assert divide(need, 16, SLOPES).awake == 4

    def test_a_need_that_does_not_come_leaves_them_awake_for_one_break_even_time(self) -> None:
        wait = SLOPES.to_sleep
        assert divide(in_gap(10 + wait * 0.9, 10), 16, SLOPES) == Division(16, 16, pytest.approx(0.1 * wait))
        assert divide(in_gap(10 + wait * 1.1, 10), 16, SLOPES).awake == 0

    def test_a_long_gap_is_let_go_from_sleep_and_ends_with_other_pods(self) -> None:
        gap = 3 * SLOPES.to_go
        assert divide(in_gap(SLOPES.to_go / 2 - 1, gap), 16, SLOPES) == Division(0, 16, pytest.approx(1))
        assert divide(in_gap(SLOPES.to_go / 2, gap), 16, SLOPES).pods == 0
        assert divide(in_gap(gap - 10, gap), 16, SLOPES).pods == 16
        kept = divide(in_gap(gap / 2, gap), 16, SLOPES, let_go=False)
        assert (kept.awake, kept.pods) == (0, 16), "only `hold: auto` lets go within a gap"

    def test_pods_that_were_started_for_a_need_that_is_put_off_do_not_go_at_once(self) -> None:
        """A learner's forecast moves while it learns."""
        later, past = [Later(100, 16)], [Later(3 * SLOPES.to_go, 16)]
        assert divide(PoolNeed(0, later, past), 16, SLOPES).pods == 0
        wait = SLOPES.to_go / 2
        assert divide(PoolNeed(0, later, past, [Later(wait - 1, 16)]), 16, SLOPES) == Division(
            0, 16, pytest.approx(1)
        )
        assert divide(PoolNeed(0, later, past, [Later(wait, 16)]), 16, SLOPES).pods == 0
        assert divide(PoolNeed(0, later, past, [Later(1, 4)]), 16, SLOPES).pods == 4

    def test_what_is_held_beyond_every_expectation_sleeps_and_is_not_let_go_here(self) -> None:
        """The holding rule has decided that it exists."""
        need = PoolNeed(0, [Later(100, 4)], [Later(60, 16)])
        assert divide(need, 16, SLOPES) == Division(0, 16, pytest.approx(100 - TIMES.start))

    def test_before_the_first_need_all_sleep(self) -> None:
        assert divide(PoolNeed(0), 16, SLOPES) == Division(0, 16)

    def test_where_pods_cannot_sleep_long_gaps_are_let_go_and_the_rest_is_held(self) -> None:
        short, long = TIMES.cycle * 0.9, TIMES.cycle * 3
        assert all(divide(in_gap(t, short), 16, NO_SLEEP) for t in range(36))
        assert divide(in_gap(TIMES.cycle / 2 - 1, long), 16, NO_SLEEP) == Division(16, 16, pytest.approx(1))
        assert divide(in_gap(TIMES.cycle / 2, long), 16, NO_SLEEP).pods == 0

    def test_sleep_that_saves_nothing_is_no_sleep(self) -> None:
        assert Slopes.of(PodPrices(1.0, 1.0), TIMES) == NO_SLEEP


def cost(gap: float, expected: float, prices: PodPrices, times: PodTimes) -> float:
    """What one pod costs from its last work to the next, by the rule. What it takes to change a pod is paid
    when it begins: a resize and its wake, or a drain and the start of another pod."""
    slopes = Slopes.of(prices, times)
    rates = {"awake": prices.awake, "asleep": prices.asleep or 0.0, "gone": 0.0}
    paid, t, state = 0.0, 0.0, "awake"
    while t < gap:
        found = divide(PoolNeed(0, [Later(expected - t, 1)], [Later(t, 1)]), 1, slopes)
        wanted = "awake" if found.awake else "asleep" if found.pods else "gone"
        if wanted == "asleep" and state == "awake":
            paid += times.wake * prices.awake
        if wanted == "gone" and state != "gone":
            paid += times.start * prices.awake + times.drain * rates[state]
        step = gap - t if found.seconds is None else min(found.seconds + 1e-9, gap - t)
        # While it comes back just before the expected time it is paid already.
        returns = t < expected and rates[wanted] > rates[state]
        paid += step * rates[state if returns else wanted]
        state = state if returns else wanted
        t += step
    return paid


def optimum(gap: float, prices: PodPrices, times: PodTimes) -> float:
    """What it costs one who knows the gap."""
    asleep = prices.asleep or 0.0
    resize = times.wake * prices.awake
    return min(
        gap * prices.awake,
        resize + gap * asleep,
        resize + times.start * prices.awake + times.drain * asleep,
        times.cycle * prices.awake,
    )


all_times = st.builds(PodTimes, st.floats(2, 60), st.floats(10, 60), st.floats(0.2, 2))
all_prices = st.builds(PodPrices, st.just(1.0), st.floats(0.05, 0.8))
"""With these a sleeper's resize pays within a drain."""
gaps = st.floats(0.01, 1000)


class TestBounds:
    @given(gaps, all_prices, all_times)
    def test_with_a_right_forecast_a_gap_costs_at_most_one_and_a_half_times_the_optimum(
        self, gap: float, prices: PodPrices, times: PodTimes
    ) -> None:
        assert cost(gap, gap, prices, times) <= 1.5 * optimum(gap, prices, times) + 1e-3

    @given(gaps, gaps, all_prices, all_times)
    def test_with_any_forecast_it_costs_at_most_five_and_a_quarter_times_the_optimum(
        self, gap: float, expected: float, prices: PodPrices, times: PodTimes
    ) -> None:
        assert cost(gap, expected, prices, times) <= 9.125 * optimum(gap, prices, times) + 1e-3


needs = st.builds(
    PoolNeed,
    now=st.integers(0, 20),
    later=st.lists(st.builds(Later, st.floats(-100, 500), st.integers(1, 20)), max_size=3),
    past=st.lists(st.builds(Later, st.floats(0, 500), st.integers(1, 20)), max_size=3),
)
slopes_ = st.builds(Slopes.of, all_prices, all_times, st.floats(0, 10))


class TestProperties:
    @given(needs, st.integers(0, 20), slopes_, st.booleans())
    def test_what_works_is_awake_and_nothing_is_more_than_is_held(
        self, need: PoolNeed, held: int, slopes: Slopes, go: bool
    ) -> None:
        found = divide(need, held, slopes, let_go=go)
        assert min(need.now, held) <= found.awake <= found.pods <= held
        assert found.asleep >= 0
        assert go or found.pods == held

    @given(needs, st.integers(0, 20), slopes_)
    def test_the_division_holds_until_the_time_that_it_names(
        self, need: PoolNeed, held: int, slopes: Slopes
    ) -> None:
        first = divide(need, held, slopes)
        seconds = 1000.0 if first.seconds is None else 0.99 * first.seconds
        later = PoolNeed(
            need.now,
            [Later(one.seconds - seconds, one.pods) for one in need.later],
            [Later(one.seconds + seconds, one.pods) for one in need.past],
        )
        then = divide(later, held, slopes)
        assert (then.awake, then.pods) == (first.awake, first.pods) or not math.isfinite(seconds)
