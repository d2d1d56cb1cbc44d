"""The holding rule: a pure function of the requests so far and of the measured times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_api.pools.holding import Demand, Holding, PastRound, PodTimes, hold, hold_for

SLOW = PodTimes(start=10, drain=30)
QUICK = PodTimes(start=1, drain=1)


def rounds(*actors: int, seconds: float = 5.0) -> list[PastRound]:
    return [PastRound(one, seconds) for one in actors]


class TestHolding:
    @pytest.mark.parametrize(
        ("past", "requested", "held", "times", "expected"),
        [
            pytest.param((), 8, 0, SLOW, 8, id="first request"),
            pytest.param((8,), 64, 8, SLOW, 64, id="first large request: half of all requests may be so"),
            pytest.param((8, 64), 8, 64, SLOW, 64, id="needed a moment ago"),
            pytest.param((8, 64, 8, 64), 8, 64, SLOW, 64, id="needed every other round"),
            pytest.param((64,) + 16 * (8,), 8, 64, SLOW, 8, id="not needed for two cycles"),
            pytest.param(12 * (8,), 64, 8, SLOW, 8, id="too late for its round, and rare"),
            pytest.param((40, 40, 20, 8, 20), 8, 40, QUICK, 20, id="pods that come and go quickly"),
        ],
    )
    def test_decisions(
        self, past: tuple[int, ...], requested: int, held: int, times: PodTimes, expected: int
    ) -> None:
        demand = Demand(requested, past=rounds(*past), actor_seconds=0.5)
        assert hold(demand, held, times).actors == expected

    def test_actors_that_are_ready_before_their_round_ends_are_started_however_rare(self) -> None:
        past = rounds(*12 * (8,), seconds=60)
        assert hold(Demand(64, past=past, actor_seconds=5), 8, SLOW).actors == 64, "8 waves of 5 s > 10 s"
        assert hold(Demand(64, past=past, actor_seconds=1), 8, SLOW).actors == 8, "8 waves of 1 s < 10 s"

    def test_rare_ones_that_would_come_too_late_by_now_are_not_started_any_more(self) -> None:
        past = rounds(*12 * (8,), seconds=60)
        assert hold(Demand(64, elapsed=35, past=past, actor_seconds=5), 8, SLOW).actors == 8

    def test_likely_actors_are_held_for_two_cycles_and_unlikely_ones_for_half_a_cycle(self) -> None:
        likely = hold(Demand(8, past=rounds(64, 64, 64)), 64, SLOW)
        assert likely == Holding(64, 2 * SLOW.cycle)
        unlikely = hold(Demand(8, past=rounds(*12 * (8,), 64, seconds=20)), 64, SLOW)
        assert unlikely == Holding(64, SLOW.cycle / 2)
        later = Demand(8, elapsed=SLOW.cycle / 2, past=rounds(*12 * (8,), 64, seconds=20))
        assert hold(later, 64, SLOW) == Holding(8)

    def test_what_no_later_round_can_request_is_let_go_at_once(self) -> None:
        assert hold(Demand(8, past=rounds(64, 64), most=30), 64, SLOW).actors == 30
        assert hold(Demand(64, past=rounds(8), most=30, actor_seconds=0.1), 8, SLOW).actors == 30

    def test_what_every_later_round_requests_is_held_for_ever(self) -> None:
        demand = Demand(8, elapsed=1e6, past=rounds(40), fewest=20)
        assert hold(demand, 40, SLOW) == Holding(20)

    def test_an_idle_actor_without_any_history_is_held_for_a_while(self) -> None:
        assert hold(Demand(8), 64, SLOW).actors == 64
        assert hold(Demand(8, elapsed=1e3), 64, SLOW).actors == 8


class TestFixedTime:
    def test_zero_follows_the_requests(self) -> None:
        assert hold_for(0, Demand(8, past=rounds(64)), 64) == Holding(8)
        assert hold_for(0, Demand(64, past=rounds(8)), 8) == Holding(64)

    def test_each_actor_is_held_for_that_time_after_its_last_use(self) -> None:
        demand = Demand(8, elapsed=3, past=rounds(64, 30))
        assert hold_for(20, demand, 64) == Holding(64, pytest.approx(20 - 8))
        assert hold_for(7, demand, 64) == Holding(30, pytest.approx(4))
        assert hold_for(2, demand, 64) == Holding(8)


requests = st.lists(st.builds(PastRound, st.integers(1, 128), st.floats(0, 300)), max_size=30)
times = st.builds(PodTimes, st.floats(0.1, 60), st.floats(0.1, 60))
demands = st.builds(
    Demand,
    requested=st.integers(1, 128),
    elapsed=st.floats(0, 600),
    past=requests,
    actor_seconds=st.floats(0, 60),
    fewest=st.integers(1, 8),
    most=st.integers(8, 128),
)


class TestProperties:
    @given(demands, st.integers(0, 128), times)
    def test_what_works_now_is_never_let_go_and_nothing_is_held_beyond_what_is_there(
        self, demand: Demand, held: int, cycle: PodTimes
    ) -> None:
        actors = hold(demand, held, cycle).actors
        assert min(demand.requested, held) <= actors <= max(demand.requested, held)

    @given(demands, times)
    def test_a_job_without_actors_gets_what_it_requests(self, demand: Demand, cycle: PodTimes) -> None:
        assert hold(demand, 0, cycle).actors == demand.requested

    @given(demands, st.integers(0, 128), times)
    def test_the_decision_holds_until_the_time_that_it_names(
        self, demand: Demand, held: int, cycle: PodTimes
    ) -> None:
        """Asked again with its own result, shortly before that time, the rule says the same."""
        first = hold(demand, held, cycle)
        if first.seconds is None or first.seconds < 1e-3:
            return
        later = Demand(
            demand.requested,
            demand.elapsed + first.seconds * 0.99,
            demand.past,
            demand.actor_seconds,
            demand.fewest,
            demand.most,
        )
        assert hold(later, max(first.actors, 1), cycle).actors == first.actors

    @given(demands, st.integers(0, 128), times)
    def test_after_three_cycles_without_a_request_only_what_later_rounds_need_is_left(
        self, demand: Demand, held: int, cycle: PodTimes
    ) -> None:
        calm = Demand(
            demand.requested, 3 * cycle.cycle, demand.past, demand.actor_seconds, demand.fewest, demand.most
        )
        assert hold(calm, held, cycle).actors <= max(demand.requested, min(demand.fewest, held))

    @given(demands, st.integers(0, 128), times)
    def test_a_costlier_cycle_never_lets_more_go(self, demand: Demand, held: int, cycle: PodTimes) -> None:
        costlier = PodTimes(cycle.start, 2 * cycle.drain)
        assert hold(demand, held, costlier).actors >= hold(demand, held, cycle).actors


def test_the_classic_rule_never_pays_more_than_twice_the_optimum() -> None:
    """Of one pod, over all gaps: what is paid idle, and a cycle where it was let go."""
    cycle = SLOW.cycle
    for gap in (1.0, 10.0, 39.0, 41.0, 100.0, 1e4):
        released = hold_for(cycle, Demand(8, elapsed=gap, past=rounds(64)), 64).actors < 64
        paid = min(gap, cycle) + (cycle if released else 0.0)
        assert paid <= 2 * min(gap, cycle) + 1e-9
