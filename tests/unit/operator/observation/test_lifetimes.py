"""The measured start and drain times of pods, and how many were started."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from nitro_api.pools.holding import PodTimes
from nitro_operator.observation.lifetimes import LONGEST_SECONDS, USUAL, PodLifetimes
from operator_objects import make_job, pod

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    return at(seconds).isoformat().replace("+00:00", "Z")


def actor(name: str, created: float, ready: float | None = None, **asked: float) -> dict[str, Any]:
    """A pod; asked: `deleted` and `grace` seconds, if its deletion was asked for."""
    found = pod("actor", name=name)
    found["metadata"]["creationTimestamp"] = stamp(created)
    status = "False" if ready is None else "True"
    found["status"]["conditions"] = [
        {"type": "Ready", "status": status, "lastTransitionTime": stamp(ready or created)}
    ]
    if asked:
        found["metadata"]["deletionTimestamp"] = stamp(asked["deleted"] + asked["grace"])
        found["metadata"]["deletionGracePeriodSeconds"] = asked["grace"]
    return found


class TestLifetimes:
    def test_before_anything_was_seen_times_are_assumed(self) -> None:
        assert PodLifetimes().times == USUAL
        assert PodLifetimes.restored(make_job(), [], BEGIN).times == USUAL

    def test_times_are_medians_of_what_the_pods_say(self) -> None:
        lifetimes = PodLifetimes()
        lifetimes.see([actor("a", 0), actor("b", 0), actor("c", 0)], at(1))
        lifetimes.see([actor("a", 0, 4), actor("b", 0, 6), actor("c", 0)], at(7))
        lifetimes.see([actor("a", 0, 4), actor("b", 0, 6), actor("c", 0, 20)], at(21))
        assert lifetimes.times == PodTimes(6, USUAL.drain)
        going = [actor("a", 0, 4, deleted=30, grace=60), actor("b", 0, 6, deleted=30, grace=60)]
        lifetimes.see(going, at(31))
        lifetimes.see(going[:1], at(55))
        lifetimes.see([], at(65))
        assert lifetimes.times == PodTimes(6, 30)
        assert lifetimes.started == 3

    def test_a_shorter_grace_period_moves_the_end_and_not_the_beginning(self) -> None:
        lifetimes = PodLifetimes()
        lifetimes.see([actor("a", 0, 1, deleted=10, grace=60)], at(11))
        lifetimes.see([actor("a", 0, 1, deleted=18, grace=1)], at(18))
        lifetimes.see([], at(20))
        assert lifetimes.times.drain == 10

    def test_a_pod_that_never_became_ready_says_nothing_of_starts(self) -> None:
        lifetimes = PodLifetimes()
        lifetimes.see([actor("a", 0)], at(1))
        lifetimes.see([actor("a", 0, deleted=5, grace=60)], at(6))
        lifetimes.see([], at(9))
        assert lifetimes.times == PodTimes(USUAL.start, 4)

    def test_times_are_bounded(self) -> None:
        lifetimes = PodLifetimes()
        lifetimes.see([actor("a", 0, 1e6), actor("b", 10, 5)], at(1e6))
        assert lifetimes.times.start == LONGEST_SECONDS / 2

    def test_a_grace_period_beyond_all_dates_is_bounded(self) -> None:
        going = actor("a", 0, 1, deleted=10, grace=60)
        going["metadata"]["deletionGracePeriodSeconds"] = 10**11
        lifetimes = PodLifetimes.restored(make_job(), [going], at(20))
        lifetimes.see([], at(70))
        assert lifetimes.times.drain == LONGEST_SECONDS

    def test_a_restart_goes_on_from_the_status(self) -> None:
        job = make_job({"actors": {"started": 40, "startSeconds": 7.5, "drainSeconds": 33}})
        job["metadata"]["statusWrittenAt"] = stamp(100)
        pods = [actor("old", 50, 55), actor("starting", 90), actor("new", 110)]
        lifetimes = PodLifetimes.restored(job, pods, at(120))
        assert (lifetimes.started, lifetimes.times) == (41, PodTimes(7.5, 33))
        lifetimes.see([actor("old", 50, 55), actor("starting", 90, 125), actor("new", 110, 125)], at(126))
        assert lifetimes.times == PodTimes(25, 33)
        assert lifetimes.started == 41
