"""The simulator of pods, on traces short enough to reckon by hand, and the rule on the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from nitro_api.pools.holding import Demand, Holding, PodTimes, hold, hold_for
from nitro_api.spec.scaling import Scaling
from pod_simulator import Place, Simulation, TraceRound, oracle, read_trace

TRACES = Path(__file__).parents[3] / "data" / "request-traces"
PLACE = Place(start=4.0, start_each=0.0, drain=6.0, drain_each=0.0, slot=1.0)
RANGE = Scaling(scaler="nitro", min_actors=1, max_actors=64, initial_actors=1, decay=1.0, window=6)


def follow(demand: Demand, held: int, times: PodTimes) -> Holding:  # noqa: ARG001
    return Holding(demand.requested)


def ski_rental(demand: Demand, held: int, times: PodTimes) -> Holding:
    return hold_for(times.cycle, demand, held)


def test_a_round_in_waves_reckoned_by_hand() -> None:
    """Two pods after 4 s, three slots of 1 s: done at 6 s, then 2 s of rest, then 6 s of drain."""
    found = Simulation([TraceRound(3, 2.0)], PLACE, RANGE, lambda *_: Holding(2)).run()
    assert found.rounds == [8.0]
    assert found.busy == 3.0
    assert found.paid == 2 * (8.0 + 6.0)
    assert (found.started, found.most, found.slots) == (2, 2, 0)


def test_pods_that_follow_the_requests_pay_for_every_start_and_drain() -> None:
    trace = [TraceRound(n, 9.0) for n in (1, 2, 1, 2)]
    found = Simulation(trace, PLACE, RANGE, follow).run()
    assert found.rounds == [14.0, 11.0, 10.0, 11.0]
    assert (found.slots, found.hits) == (4, 3), "of the second request of two, one found a ready actor"
    assert found.paid == (14 + 11 + 10 + 11 + 6) + 2 * (11 + 6)
    assert found.busy == 6.0


def test_a_pod_is_let_go_in_the_middle_of_a_round_when_its_time_is_over() -> None:
    trace = [TraceRound(2, 0.0), TraceRound(1, 99.0)]
    found = Simulation(trace, PLACE, RANGE, ski_rental).run()
    assert found.rounds == [5.0, 100.0]
    assert found.paid == pytest.approx((105 + 6) + (5 + PLACE.times(1).cycle + 6))


def test_the_oracle_holds_short_gaps_and_bridges_long_ones() -> None:
    short = oracle([TraceRound(1, 3.0), TraceRound(1, 3.0)], PLACE)
    assert short.paid == 4 + (1 + 3 + 1) + 6
    long = oracle([TraceRound(1, 30.0), TraceRound(1, 3.0)], PLACE)
    assert long.paid == (4 + 1 + 6) + (4 + 1 + 6)
    assert long.started == 2


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.csv")), ids=lambda path: path.stem)
def test_the_rule_on_the_requests_of_real_runs(path: Path) -> None:
    """On pods as one node starts and drains them. `hydrozoa` never requests fewer than before, and what it
    requests for the first time cannot be there."""
    place = Place(start=2.0, start_each=0.28, drain=20.0, drain_each=0.3, slot=0.94)
    scaler, _, decay = path.stem.partition("-decay-")
    low, high = (24, 24) if scaler == "fixed" else (8, 64)
    scaling = Scaling(
        scaler=scaler,
        min_actors=low,
        max_actors=high,
        initial_actors=low,
        decay=float(decay or 0.995),
        window=6,
    )
    trace = read_trace(path)
    found, best = Simulation(trace, place, scaling, hold).run(), oracle(trace, place)
    assert found.hit_rate >= (0.85 if scaler == "hydrozoa" else 0.9)
    assert found.paid <= 2 * best.paid
    assert found.started <= 2 * best.started
