"""The platform's limit: properties of the division, and of taking and giving back."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from nitro_operator.kube.kinds import JobKey
from nitro_operator.scaling.grants import BACKFILL_SECONDS, GrantRequest, Limits, grants, reachable
from nitro_operator.scaling.platform import Platform


@st.composite
def request(draw: st.DrawFn) -> GrantRequest:
    return whole_pods(draw, 1)


def whole_pods(draw: st.DrawFn, step: int) -> GrantRequest:
    minimum = draw(st.integers(1, 20))
    return GrantRequest(
        namespace="team",
        minimum=minimum * step,
        wanted=draw(st.integers(minimum, 64)) * step,
        score=draw(st.floats(0, 1)),
        admitted=draw(st.booleans()),
        since=float(draw(st.integers(0, 3000))),
        idle=draw(st.integers(0, 4)) * step if step > 1 else 0,
        step=step,
    )


@st.composite
def request_of_pods(draw: st.DrawFn) -> GrantRequest:
    return whole_pods(draw, draw(st.integers(1, 8)))


REQUESTS = st.dictionaries(st.sampled_from("abcdefgh"), request(), max_size=8)
LIMITS = st.integers(1, 120).map(Limits)


def needed(requests: dict[str, GrantRequest]) -> int:
    """What the jobs that run already keep, whatever the limit."""
    return sum(r.minimum for r in requests.values() if r.admitted)


@given(REQUESTS, LIMITS)
def test_grants_are_zero_or_at_least_the_minimum_and_their_sum_keeps_the_limit(
    requests: dict[str, GrantRequest], limit: Limits
) -> None:
    found = grants(requests, limit)
    assert found.keys() == requests.keys()
    assert sum(found.values()) <= max(limit.platform, needed(requests))
    for key, number in found.items():
        assert number == 0 or requests[key].minimum <= number <= requests[key].wanted


@given(st.dictionaries(st.sampled_from("abcdefgh"), request_of_pods(), max_size=8), LIMITS)
def test_grants_are_whole_pods_within_the_limit(requests: dict[str, GrantRequest], limit: Limits) -> None:
    found = grants(requests, limit)
    assert sum(found.values()) <= max(limit.platform, needed(requests))
    left = limit.platform - sum(found.values())
    for key, number in found.items():
        one = requests[key]
        assert number % one.step == 0
        assert number == 0 or one.minimum <= number <= one.held
        assert number in (0, one.held) or left < one.step, "another pod would not fit"


@given(REQUESTS, LIMITS)
def test_the_whole_limit_is_granted_while_a_running_job_requests_more(
    requests: dict[str, GrantRequest], limit: Limits
) -> None:
    found = grants(requests, limit)
    hungry = [key for key, number in found.items() if 0 < number < requests[key].wanted]
    assert sum(found.values()) >= limit.platform or not hungry


@given(REQUESTS, LIMITS)
def test_the_order_in_which_jobs_are_listed_does_not_matter(
    requests: dict[str, GrantRequest], limit: Limits
) -> None:
    backwards = dict(reversed(list(requests.items())))
    assert grants(requests, limit) == grants(backwards, limit)


@given(REQUESTS, LIMITS)
def test_a_running_job_keeps_its_minimum(requests: dict[str, GrantRequest], limit: Limits) -> None:
    found = grants(requests, limit)
    assert all(found[key] >= r.minimum for key, r in requests.items() if r.admitted)


@given(REQUESTS, LIMITS)
def test_a_waiting_job_is_passed_only_by_jobs_that_are_little_younger(
    requests: dict[str, GrantRequest], limit: Limits
) -> None:
    found = grants(requests, limit)
    waiting = {key: r for key, r in requests.items() if not r.admitted and r.minimum <= limit.platform}
    for older, first in waiting.items():
        for younger, second in waiting.items():
            if second.since > first.since + BACKFILL_SECONDS and found[younger]:
                assert found[older]


@given(REQUESTS, LIMITS, st.data())
def test_a_higher_score_or_request_never_lowers_the_grant(
    requests: dict[str, GrantRequest], limit: Limits, data: st.DataObject
) -> None:
    if not requests:
        return
    key = data.draw(st.sampled_from(sorted(requests)))
    before = grants(requests, limit)[key]
    eager = replace(requests[key], score=min(1.0, requests[key].score + data.draw(st.floats(0, 1))))
    assert grants({**requests, key: eager}, limit)[key] >= before
    greedy = replace(requests[key], wanted=requests[key].wanted + data.draw(st.integers(0, 20)))
    assert grants({**requests, key: greedy}, limit)[key] >= before


@given(REQUESTS, LIMITS)
def test_a_larger_limit_never_lowers_the_sum(requests: dict[str, GrantRequest], limit: Limits) -> None:
    feasible = {key: r for key, r in requests.items() if r.minimum <= limit.platform}
    larger = Limits(limit.platform + 1)
    assert sum(grants(feasible, limit).values()) <= sum(grants(feasible, larger).values())


def ask(
    minimum: int,
    wanted: int,
    score: float = 0.5,
    *,
    admitted: bool = False,
    since: float = 0.0,
    namespace: str = "team",
    idle: int = 0,
) -> GrantRequest:
    return GrantRequest(namespace, minimum, wanted, score, admitted, since, idle)


def test_without_a_limit_each_job_gets_its_request() -> None:
    assert grants({"a": ask(2, 50), "b": ask(4, 1)}, Limits()) == {"a": 50, "b": 4}


def test_the_score_divides_the_rest_after_the_minima() -> None:
    wants = {"a": ask(4, 24, 0.2, admitted=True), "b": ask(4, 24, 0.9, admitted=True)}
    assert grants(wants, Limits(24)) == {"a": 4, "b": 20}


def test_a_job_that_can_never_fit_does_not_block_the_queue() -> None:
    wants = {"a": ask(100, 100), "b": ask(4, 8, since=10 * BACKFILL_SECONDS)}
    assert grants(wants, Limits(24)) == {"a": 0, "b": 8}


def test_a_lowered_limit_keeps_running_jobs_and_admits_no_new_one() -> None:
    wants = {"a": ask(4, 24, admitted=True), "b": ask(8, 9, admitted=True), "c": ask(1, 1)}
    assert grants(wants, Limits(6)) == {"a": 4, "b": 8, "c": 0}


def test_growth_waits_until_other_jobs_have_released_actors() -> None:
    target = {"a": 4, "b": 20}
    assert reachable("b", target, {"a": 20, "b": 4}, 24, 0) == 4
    assert reachable("a", target, {"a": 20, "b": 4}, 24, 0) == 4
    assert reachable("b", target, {"a": 4, "b": 4}, 24, 0) == 20


@st.composite
def history(draw: st.DrawFn) -> list[tuple[str, str, int, float]]:
    """Steps of several jobs: (job, what, wanted, score)."""
    step = st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["ask", "publish", "end", "gone"]),
        st.integers(3, 30),
        st.floats(0, 1),
    )
    return draw(st.lists(step, max_size=60))


@settings(max_examples=200)
@given(history(), st.integers(1, 40), st.dictionaries(st.sampled_from("abcd"), st.integers(3, 30)))
def test_published_grants_never_exceed_the_limit(
    steps: list[tuple[str, str, int, float]], limit: int, before: dict[str, int]
) -> None:
    """However asking, publishing, ending and vanishing interleave, after an operator with any limit."""
    platform = Platform(Limits(limit))
    decided: dict[str, int] = {}
    published = dict(before)
    for name, granted in before.items():
        platform.seen(JobKey("n", name), granted)
    most = max(limit, platform.held)
    for name, what, wanted, score in steps:
        key = JobKey("n", name)
        if what == "ask":
            decided[name] = platform.ask(key, 3, wanted, score, float(ord(name)))
        elif what == "publish" and name in decided:
            published[name] = decided[name]
            platform.published(key, decided[name])
        elif what == "end":
            platform.withdraw(key)
            decided[name] = 0
        elif what == "gone":
            platform.forget(key)
            decided.pop(name, None)
            published.pop(name, None)
        most = max(limit, min(most, platform.held))  # what was too much only shrinks
        assert sum(published.values()) <= most
        assert platform.held <= most
        # A job that holds a grant keeps its minimum.
        assert all(number >= 3 for other, number in decided.items() if published.get(other) and number)


def test_running_jobs_keep_their_minima_under_a_lowered_limit() -> None:
    """An operator that starts with a smaller limit: they shrink to their minima, and no new job starts."""
    platform = Platform(Limits(6))
    a, b, c = (JobKey("n", name) for name in "abc")
    platform.seen(a, 20)
    platform.seen(b, 4)
    for _ in range(3):
        assert platform.ask(c, 1, 8, 1.0, 0) == 0
        granted = {key: platform.ask(key, 4, 20, 0.5, 1) for key in (a, b)}
        for key, number in granted.items():
            platform.published(key, number)
    assert granted == {a: 4, b: 4}
    assert platform.unsettled() == []
    platform.forget(b)
    assert platform.ask(a, 4, 20, 0.5, 1) == 4
    assert platform.ask(c, 1, 8, 1.0, 0) == 2, "what is left below the new limit"


def test_a_running_learner_without_a_grant_gets_its_minimum() -> None:
    """As it was left by an operator whose limit was too small for it, or that could not read the job."""
    platform = Platform(Limits(6))
    a, b = JobKey("n", "a"), JobKey("n", "b")
    platform.seen(a, 6)
    assert platform.ask(b, 4, 8, 0.5, 2, started=True) == 0, "not before the other has given back"
    platform.published(a, platform.ask(a, 4, 6, 0.5, 1, started=True))
    assert platform.holds(a) == 4
    assert platform.ask(b, 4, 8, 0.5, 2, started=True) == 4


def test_platform_lists_the_jobs_with_a_changed_grant() -> None:
    platform = Platform(Limits(10))
    a, b = JobKey("n", "a"), JobKey("n", "b")
    platform.published(a, platform.ask(a, 2, 10, 0.1, 1))
    assert platform.ask(b, 2, 6, 0.9, 2) == 0
    assert platform.unsettled() == [a, b]
    version = platform.version
    platform.published(a, platform.ask(a, 2, 10, 0.1, 1))
    assert platform.version > version
    assert platform.ask(b, 2, 6, 0.9, 2) == 6
    platform.published(b, 6)
    assert platform.unsettled() == []


def test_idle_actors_get_what_nobody_uses() -> None:
    holder = ask(4, 8, 0.9, admitted=True, idle=20)
    assert grants({"a": holder}, Limits(64)) == {"a": 28}
    user = ask(4, 30, 0.1, admitted=True)
    assert grants({"a": holder, "b": user}, Limits(40)) == {"a": 10, "b": 30}, "use goes before holding"
    assert grants({"a": holder, "b": user}, Limits()) == {"a": 28, "b": 30}


def test_actors_that_are_going_delay_growth_and_never_take_a_grant_away() -> None:
    platform = Platform(Limits(64))
    a, b = JobKey("n", "a"), JobKey("n", "b")
    platform.published(a, platform.ask(a, 8, 64, 0.5, 1, started=True))
    platform.exist(a, 64, 0)
    platform.published(a, platform.ask(a, 8, 8, 0.5, 1, started=True))
    assert platform.room().taken == 8 + 56, "from the moment on in which the grant is smaller"
    platform.exist(a, 64, 0)  # Knative has not begun yet
    assert platform.room().taken == 8 + 56
    assert platform.ask(a, 8, 8, 0.5, 1, started=True) == 8
    assert platform.ask(b, 4, 20, 0.5, 2) == 0
    version = platform.version
    platform.exist(a, 48, 40)
    assert platform.version > version, "others look again"
    assert platform.ask(b, 4, 20, 0.5, 2) == 16
    platform.published(b, 16)
    assert platform.ask(a, 8, 64, 0.5, 1, started=True) == 8, "its own going actors delay it as well"
    assert platform.ask(a, 8, 8, 0.5, 1, started=True) == 8
    platform.exist(a, 8, 0)
    assert platform.ask(b, 4, 20, 0.5, 2) == 20
    platform.exist(b, 100, 90)
    assert platform.ask(b, 4, 20, 0.5, 2) == 20, "its own going pods take nothing away"


def test_pods_that_only_look_like_actors_keep_no_other_namespace_waiting() -> None:
    """Whoever may create pods can give them the labels of actors, of a job that does not exist."""
    platform = Platform(Limits(256, {"*": 64}))
    platform.exist(JobKey("evil", "none"), 10**6, 0)
    assert platform.ask(JobKey("team", "hopper"), 4, 64, 1.0, 1) == 64
    assert platform.room().taken == 128
    assert platform.ask(JobKey("evil", "real"), 4, 64, 1.0, 1) == 0, "its own namespace waits"


def test_a_job_gets_whole_pods_of_what_others_leave() -> None:
    platform = Platform(Limits(20))
    a, b = JobKey("n", "a"), JobKey("m", "b")
    platform.published(b, platform.ask(b, 3, 3, 0.5, 1))
    assert platform.ask(a, 8, 24, 0.5, 2, step=8) == 16
    platform.published(a, 16)
    assert platform.unsettled() == [], "what is left is no pod"
    assert platform.ask(JobKey("n", "c"), 8, 8, 0.5, 3, step=8) == 0
    assert platform.ask(b, 3, 5, 0.5, 1) == 4


def test_pods_beyond_its_grant_do_not_stop_their_own_job() -> None:
    platform = Platform(Limits(64))
    a, b = JobKey("n", "a"), JobKey("m", "b")
    platform.published(a, platform.ask(a, 4, 17, 0.5, 1))
    platform.exist(a, 24, 0)
    assert platform.ask(b, 4, 64, 0.5, 2) == 40, "others wait for what is more than its grant"
    platform.withdraw(b)
    platform.published(b, 0)
    assert platform.ask(a, 4, 64, 0.5, 1) == 64
