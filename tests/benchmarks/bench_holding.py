"""Rules for holding actor pods, simulated on the requests of real runs.

    python tests/benchmarks/bench_holding.py

The traces are in tests/data/request-traces/. The rule `auto` is the function that the operator calls.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))

from nitro_api.pools.holding import COLD_START_SECONDS, Demand, Holding, PodTimes, hold, hold_for  # noqa: E402
from nitro_api.spec.pricing import Pricing  # noqa: E402
from nitro_api.spec.scaling import Scaling  # noqa: E402
from nitro_operator.backends.lambda_actors import provisioned_times  # noqa: E402
from pod_simulator import Place, Result, Rule, Simulation, TraceRound, oracle, read_trace  # noqa: E402

TRACES = TESTS / "data" / "request-traces"
CLUSTER = Place(start=2.0, start_each=0.28, drain=20.0, drain_each=0.3, slot=0.94)
"""As seen on one node of two cores: 2 to 20 s until pods are ready, 20 to 40 s until they are gone."""
CLOUD = Place(start=3.0, start_each=0.0, drain=30.0, drain_each=0.0, slot=0.94)
QUICK = Place(start=3.0, start_each=0.0, drain=2.0, drain_each=0.0, slot=3.0, rest=10.0)
PLACES = {
    "one node of two cores, rounds of 2 s": CLUSTER,
    "a cloud: 3 s to start, 30 s to drain, rounds of 2 s": CLOUD,
    "3 s to start, 2 s to drain, rounds of 10 s": QUICK,
}
LAMBDA = Place(
    start=60.0,
    start_each=0.0,
    drain=0.0,
    drain_each=0.0,
    slot=3.0,
    rest=10.0,
    interval=600.0,
    cold=COLD_START_SECONDS,
)
"""A minute until provisioned concurrency is there, and at most one change in ten minutes."""
WARM_SECONDS = 300.0
"""How long a sandbox on demand stays warm. AWS names no time; five minutes are commonly seen."""
REPEATS = 10
"""Runs of a trace one after the other, so that a Lambda job lasts longer than ten minutes."""


def before(demand: Demand, held: int, times: PodTimes) -> Holding:  # noqa: ARG001
    """The larger of the last two requests: the rule of earlier releases."""
    return Holding(max(demand.requested, demand.past[-1].actors if demand.past else 0))


def hysteresis(demand: Demand, held: int, times: PodTimes) -> Holding:  # noqa: ARG001
    """The largest of the last six requests."""
    return Holding(max(demand.requested, 0, *(one.actors for one in demand.past[-5:])))


def ski_rental(demand: Demand, held: int, times: PodTimes) -> Holding:
    """Each pod is held for one cycle."""
    return hold_for(times.cycle, demand, held)


def largest(demand: Demand, held: int, times: PodTimes) -> Holding:  # noqa: ARG001
    """As many as ever may be needed, always: the paper's provisioned sandboxes."""
    return Holding(64)


def provisioned(demand: Demand, held: int, times: PodTimes) -> Holding:  # noqa: ARG001
    """The rule `auto` with Lambda's prices."""
    return hold(demand, held, provisioned_times(_pricing()))


RULES: dict[str, Rule] = {
    "larger of the last two (before)": before,
    "largest of the last six": hysteresis,
    "ski rental": ski_rental,
    "`auto`": hold,
    "always 64": largest,
}


def scaling_of(name: str) -> Scaling:
    """The settings with which a trace was made."""
    scaler, _, decay = name.partition("-decay-")
    low, high = (24, 24) if scaler == "fixed" else (8, 64)
    return Scaling(
        scaler=scaler,
        min_actors=low,
        max_actors=high,
        initial_actors=low,
        decay=float(decay or 0.995),
        window=6,
    )


def pods(traces: dict[str, list[TraceRound]]) -> None:
    """Print the table of rules on pods: slots that found a ready actor, paid / oracle, seconds of a round."""
    print(f"| place | rule | {' | '.join(f'`{name}`' for name in traces)} | pods started |")
    print("|---" * (len(traces) + 3) + "|")
    for place_name, place in PLACES.items():
        best = {name: oracle(trace, place) for name, trace in traces.items()}
        for rule_name, rule in RULES.items():
            found = {
                name: Simulation(trace, place, scaling_of(name), rule).run() for name, trace in traces.items()
            }
            row(place_name, rule_name, found, best)
        row(place_name, "oracle", best, best)


def row(place: str, rule: str, found: dict[str, Result], best: dict[str, Result]) -> None:
    """Print one row of that table."""
    cells = [
        f"{one.hit_rate:.0%}, {one.paid / best[name].paid:.2f}, {fmean(one.rounds):.1f} s"
        for name, one in found.items()
    ]
    print(f"| {place} | {rule} | {' | '.join(cells)} | {sum(one.started for one in found.values())} |")


def functions(traces: dict[str, list[TraceRound]]) -> None:
    """Print the table of provisioned concurrency, in dollars for sandboxes of 1 GB."""
    print(f"| provisioned concurrency | {' | '.join(f'`{name}`' for name in traces)} |")
    print("|---" * (len(traces) + 1) + "|")
    cells: dict[str, list[str]] = {"none": [], "by `auto`": [], "always 64": []}
    for name, once in traces.items():
        trace = once * REPEATS
        slots = sum(one.actors for one in trace)
        warm, dollars, seconds = on_demand(trace)
        cells["none"].append(f"{warm:.0%}, ${dollars:.2f}, {seconds:.1f} s")
        for kind, rule in (("by `auto`", provisioned), ("always 64", largest)):
            found = Simulation(trace, LAMBDA, scaling_of(name), rule).run()
            share, seconds = found.warm / slots, fmean(found.rounds)
            cells[kind].append(f"{share:.0%}, ${bill(found, slots):.2f}, {seconds:.1f} s")
    for kind, texts in cells.items():
        print(f"| {kind} | {' | '.join(texts)} |")


def on_demand(trace: Sequence[TraceRound]) -> tuple[float, float, float]:
    """Share of warm starts, dollars and mean seconds of a round without provisioned concurrency."""
    pricing, now, cold, lengths = _pricing(), 0.0, 0, []
    used = [-WARM_SECONDS - 1] * max(one.actors for one in trace)
    for one in trace:
        fresh = sum(now - used[n] > WARM_SECONDS for n in range(one.actors))
        length = LAMBDA.slot + LAMBDA.rest * one.rest_seconds + (COLD_START_SECONDS if fresh else 0.0)
        cold += fresh
        now += length
        lengths.append(length)
        used[: one.actors] = [now] * one.actors
    slots = sum(one.actors for one in trace)
    seconds = slots * LAMBDA.slot + cold * COLD_START_SECONDS
    return (
        1 - cold / slots,
        seconds * pricing.lambda_gb_second + slots * pricing.lambda_request,
        fmean(lengths),
    )


def bill(found: Result, slots: int) -> float:
    """Dollars with provisioned concurrency; a slot without a ready sandbox is one on demand, and cold."""
    pricing = _pricing()
    cold = slots - found.warm
    return (
        found.paid * pricing.provisioned_gb_second
        + found.warm * LAMBDA.slot * pricing.lambda_provisioned_gb_second
        + cold * (LAMBDA.slot + COLD_START_SECONDS) * pricing.lambda_gb_second
        + slots * pricing.lambda_request
    )


def _pricing() -> Pricing:
    return Pricing(vm_count=1, pod_gb_second=0.0, actor_memory_gb=1.0)


if __name__ == "__main__":
    requests = {path.stem: read_trace(path) for path in sorted(TRACES.glob("*.csv"))}
    pods(requests)
    print()
    functions(requests)
