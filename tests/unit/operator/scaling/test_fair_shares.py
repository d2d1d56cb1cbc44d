"""Fair shares between tenants: what careless and hostile jobs cannot take from others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nitro_operator.kube.kinds import JobKey
from nitro_operator.scaling.grants import BACKFILL_SECONDS, SHARE_SECONDS, GrantRequest, Limits, grants
from nitro_operator.scaling.platform import Platform

LIMIT = 256


def job(
    namespace: str,
    minimum: int,
    wanted: int | None = None,
    *,
    score: float = 0.5,
    since: float = 0.0,
    admitted: bool = False,
) -> GrantRequest:
    most = minimum if wanted is None else wanted
    return GrantRequest(namespace, minimum, most, score, admitted, since)


def totals(requests: Mapping[str, GrantRequest], found: Mapping[str, int]) -> Counter[str]:
    """The granted actors of each namespace."""
    used: Counter[str] = Counter()
    for key, number in found.items():
        used[requests[key].namespace] += number
    return used


HUGE_MINIMUM = {
    "runs": job("one", 8, admitted=True),
    "huge": job("two", 256, since=10),
    "later": job("one", 8, 32, since=20),
}
FIFTY_RUN = {f"a{n}": job("many", 4, 40, admitted=True) for n in range(50)}
FIFTY_WAIT = {f"a{n}": job("many", 8, 8, since=float(n)) for n in range(50)}
LIAR = {
    "liar": job("loud", 4, 1000, score=1.0, admitted=True),
    "honest": job("calm", 4, 60, score=0.01, admitted=True),
}


@pytest.mark.parametrize(
    ("requests", "namespaces", "found"),
    [
        pytest.param(HUGE_MINIMUM, {}, {"runs": 8, "huge": 0, "later": 32}, id="huge minimum"),
        pytest.param(
            {**HUGE_MINIMUM, "later": job("one", 8, since=10_000)},
            {},
            {"runs": 8, "huge": 0, "later": 0},
            id="huge minimum that has waited longer",
        ),
        pytest.param(
            {**HUGE_MINIMUM, "later": job("one", 8, since=10_000)},
            {"*": 128},
            {"runs": 8, "huge": 0, "later": 8},
            id="huge minimum that its namespace does not allow",
        ),
        pytest.param(LIAR, {}, {"liar": 196, "honest": 60}, id="score liar"),
        pytest.param(
            {**LIAR, "honest": job("calm", 4, 500, score=0.01, admitted=True)},
            {},
            {"liar": 128, "honest": 128},
            id="score liar against one that wants as much",
        ),
        pytest.param(LIAR, {"loud": 32}, {"liar": 32, "honest": 60}, id="score liar in a small namespace"),
        pytest.param(
            {**FIFTY_WAIT, "alone": job("few", 8, since=300)},
            {},
            {**{f"a{n}": 8 if n < 31 else 0 for n in range(50)}, "alone": 8},
            id="fifty jobs that wait against one",
        ),
        pytest.param(
            {**FIFTY_RUN, "alone": job("few", 4, 40, since=300)},
            {},
            {**dict.fromkeys(FIFTY_RUN, 4), "a0": 20, "alone": 40},
            id="fifty jobs that run against one",
        ),
        pytest.param(
            {**FIFTY_WAIT, "alone": job("few", 8, since=300)},
            {"*": 64, "few": 16},
            {**{f"a{n}": 8 if n < 8 else 0 for n in range(50)}, "alone": 8},
            id="fifty jobs in a namespace with a limit",
        ),
    ],
)
def test_table_of_fairness(
    requests: dict[str, GrantRequest], namespaces: dict[str, int], found: dict[str, int]
) -> None:
    limits = Limits(LIMIT, namespaces)
    given = grants(requests, limits)
    assert sum(given.values()) <= LIMIT
    for namespace, used in totals(requests, given).items():
        assert used <= limits.of(namespace)
    assert given == found


@dataclass(frozen=True)
class Plan:
    """A job of the simulation. Times are in minutes."""

    namespace: str
    arrives: int
    lasts: int
    minimum: int
    wanted: int
    score: float = 1.0


def simulate(plans: list[Plan], limits: Limits, minutes: int = 10_000) -> list[int | None]:
    """The minute in which each job starts; None if it never does. Checks the limits in every minute."""
    platform = Platform(limits)
    keys = [JobKey(plan.namespace, f"job-{number}") for number, plan in enumerate(plans)]
    started: list[int | None] = [None] * len(plans)
    published: Counter[JobKey] = Counter()
    ended: set[JobKey] = set()
    for minute in range(minutes):
        for number, (key, plan) in enumerate(zip(keys, plans, strict=True)):
            start = started[number]
            if minute < plan.arrives or key in ended:
                continue
            if start is not None and minute >= start + plan.lasts:
                ended.add(key)
                platform.forget(key)
                published[key] = 0
                continue
            granted = platform.ask(
                key, plan.minimum, plan.wanted, plan.score, 60.0 * plan.arrives, started=start is not None
            )
            platform.published(key, granted)
            published[key] = granted
            if granted and start is None:
                started[number] = minute
            assert granted == 0 or plan.minimum <= granted <= plan.wanted
            assert published.total() <= limits.platform
            used = sum(actors for other, actors in published.items() if other.namespace == key.namespace)
            assert used <= limits.of(key.namespace)
        waits = (plan.minimum <= limits.of(plan.namespace) for plan in plans)
        if all(key in ended for key, may in zip(keys, waits, strict=True) if may):
            break
    return started


def test_a_huge_job_starts_although_small_jobs_never_cease_to_arrive() -> None:
    small = [Plan("small", arrives, 10, 8, 64) for arrives in range(0, 300)]
    started = simulate([*small, Plan("huge", 5, 10, 256, 256)], Limits(LIMIT))
    longest = 5 + (BACKFILL_SECONDS + SHARE_SECONDS) / 60 + 10
    assert started[-1] is not None
    assert started[-1] <= longest + 1


def test_one_job_does_not_wait_for_fifty_of_another_namespace() -> None:
    many = [Plan("many", 0, 30, 64, 256) for _ in range(50)]
    started = simulate([*many, Plan("few", 5, 10, 64, 64, score=0.0)], Limits(LIMIT))
    assert started[-1] == 30, "the first room is its own"


@st.composite
def plan(draw: st.DrawFn) -> Plan:
    minimum = draw(st.integers(1, 20))
    return Plan(
        namespace=draw(st.sampled_from("xyz")),
        arrives=draw(st.integers(0, 300)),
        lasts=draw(st.integers(1, 60)),
        minimum=minimum,
        wanted=minimum + draw(st.integers(0, 30)),
        score=draw(st.sampled_from([0.0, 0.5, 1.0])),
    )


@settings(max_examples=30, deadline=None)
@given(
    st.lists(plan(), max_size=16),
    st.integers(8, 40),
    st.dictionaries(st.sampled_from(["x", "y", "*"]), st.integers(4, 40), max_size=2),
)
def test_every_job_that_fits_starts_and_is_not_passed_for_ever(
    plans: list[Plan], limit: int, namespaces: dict[str, int]
) -> None:
    limits = Limits(limit, namespaces)
    started = simulate(plans, limits)
    bound = (BACKFILL_SECONDS + SHARE_SECONDS) / 60
    for first, at in zip(plans, started, strict=True):
        if first.minimum > limits.of(first.namespace):
            assert at is None
            continue
        assert at is not None, "nobody starves"
        for second, then in zip(plans, started, strict=True):
            # Only the room of a namespace keeps a job from the platform's: then others may go on.
            rivals = second.namespace == first.namespace or not namespaces
            if rivals and then is not None and second.arrives > first.arrives + bound:
                assert then >= at


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6), st.integers(1, 120)
)
def test_the_rest_is_divided_by_max_min_fairness(shares: list[tuple[int, int]], limit: int) -> None:
    """A namespace that lacks actors has at most one less than any namespace that got more than it had."""
    requests = {
        f"{n}": job(f"n{n}", 1 + minimum, 1 + minimum + more, admitted=True)
        for n, (minimum, more) in enumerate(shares)
    }
    found = grants(requests, Limits(limit))
    for key, mine in requests.items():
        for other, theirs in requests.items():
            if found[key] < mine.wanted and found[other] > theirs.minimum:
                assert found[key] >= found[other] - 1


def test_sleeping_pods_share_a_limit_of_their_own_and_never_take_what_is_granted() -> None:
    platform = Platform(Limits(16), Limits(24, {"small": 4}))
    one, two, small = JobKey("a", "one"), JobKey("b", "two"), JobKey("small", "three")
    platform.have_pods(one, 16)
    assert platform.pods(two, granted=4, wanted=16) == 8, "24 in all, of which another job has 16"
    platform.have_pods(two, 8)
    assert platform.pods(one, granted=16, wanted=20) == 16
    assert platform.pods(small, granted=2, wanted=4) == 2, "what is granted is never refused"
    platform.have_pods(one, 0)
    assert platform.pods(small, granted=2, wanted=8) == 4, "its namespace's limit"


def test_actors_that_sleep_give_way_to_what_another_job_uses() -> None:
    platform = Platform(Limits(16))
    one, two = JobKey("a", "one"), JobKey("b", "two")
    ask = {"score": 0.5, "since": 0.0, "started": True}
    assert platform.ask(one, 4, 16, **ask) == 16
    platform.published(one, 16)
    platform.exist(one, 16, 0)
    assert platform.ask(one, 4, 0, **ask, idle=16) == 16, "nobody else wants them"
    platform.exist(one, 0, 0)  # all of them sleep
    assert platform.ask(two, 4, 12, **ask) == 0, "not before the other one's status has given them back"
    assert one in platform.unsettled()
    assert platform.ask(one, 4, 0, **ask, idle=16) == 4
    platform.published(one, 4)
    assert platform.ask(two, 4, 12, **ask) == 12
