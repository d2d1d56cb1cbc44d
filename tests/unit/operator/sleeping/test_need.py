"""What a learner says that it needs, and when it is believed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from nitro_api.pools.sleeping import Later
from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.sleeping.memory import ALL, NeedClock

START = datetime(2026, 1, 1, tzinfo=UTC)


def word(now: int, at: float = 0.0, round: int = 1, later: tuple[tuple[float, int], ...] = ()) -> Any:
    decided = (START + timedelta(seconds=at)).isoformat()
    needs = [{"afterSeconds": seconds, "actors": actors} for seconds, actors in later]
    found = {"needsNow": now, "neededAt": decided, "round": round, "needsLater": needs}
    return TrainingStatus.model_validate(found)


def test_a_word_holds_since_it_was_seen_and_one_from_before_by_its_own_time() -> None:
    clock = NeedClock()
    clock.see(word(4, at=-5), 100, START)
    clock.see(word(1, at=3, later=((10, 8),)), 103, START + timedelta(seconds=3))
    need = clock.need(1, 105)
    assert need is not None
    assert (need.now, need.later) == (1, [Later(8, 8)])
    assert need.past == [Later(2, 4), Later(10, ALL)]
    assert (need.idle(1), need.idle(4), need.idle(5)) == (0, 2, 10)


def test_actors_of_large_pods_need_whole_pods() -> None:
    clock = NeedClock()
    clock.see(word(5, later=((1, 17),)), 0, START)
    need = clock.need(8, 0)
    assert need is not None
    assert (need.now, need.later[0].pods) == (1, 3)


def test_a_learner_that_does_not_say_what_it_needs_has_all_awake() -> None:
    clock = NeedClock()
    clock.see(None, 0, START)
    assert clock.need(1, 0) is None
    clock.see(TrainingStatus(round=3), 0, START)
    assert clock.need(1, 0) is None
    assert clock.said_nothing


def test_a_round_without_a_need_is_not_believed_until_there_is_one() -> None:
    clock = NeedClock()
    for at, (round, now) in enumerate([(0, 4), (0, 0), (1, 0), (1, 4), (1, 0), (2, 0)]):
        clock.see(word(now, at=at, round=round), at, START)
        assert clock.known
    clock.see(word(0, at=10, round=3), 10, START)
    assert clock.need(1, 10) is None, "round 3 was sampled by somebody"
    clock.see(word(0, at=11, round=4), 11, START)
    assert clock.need(1, 11) is None
    clock.see(word(4, at=12, round=4), 12, START)
    assert clock.need(1, 12) is not None


def test_pods_that_come_back_before_their_need_are_remembered_until_it_comes() -> None:
    clock = NeedClock()
    clock.see(word(0, later=((60, 4),)), 0, START)
    for pods, needed, now in [(4, 0, 0.0), (0, 0, 20.0), (4, 0, 50.0)]:
        clock.hold(pods, needed, now)
    need = clock.need(1, 53)
    assert need is not None
    assert need.returned == [Later(3, 4)]
    assert (need.here(4), need.here(5)) == (3, need.idle(5))
    clock.hold(4, 4, 60.0)
    need = clock.need(1, 61)
    assert need is not None
    assert need.returned == []
