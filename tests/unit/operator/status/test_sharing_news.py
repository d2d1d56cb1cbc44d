"""Events about sharing, from what learners report in status.sharing."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.kube.kinds import TRAINING_JOB
from nitro_operator.status.conditions import Condition
from nitro_operator.status.events import SharingNews
from operator_objects import make_job
from reconcile_bench import KEY, Bench, note, reported

WHY = "the returns' slope -0.0100 was below 0; agent_0 plays for agent_0, agent_1"


def job(**sharing: Any) -> dict[str, Any]:
    return make_job({"sharing": sharing})


def test_a_toggle_is_told_once_with_its_message() -> None:
    news = SharingNews()
    assert news.of(make_job({})) is None
    assert news.of(job(mode="dynamic", shared=False, toggles=0)) is None
    began = news.of(job(shared=True, toggles=1, message=WHY))
    assert began == Condition("Sharing", True, "SharingBegan", WHY)
    assert news.of(job(shared=True, toggles=1, message=WHY)) is None
    ended = news.of(job(shared=False, toggles=2, message="the job asks for it"))
    assert ended == Condition("Sharing", False, "SharingEnded", "the job asks for it")


def test_what_happened_before_the_operator_started_is_no_news() -> None:
    assert SharingNews().of(job(shared=True, toggles=3)) is None


def test_rounds_that_are_done_again_are_told_again() -> None:
    news = SharingNews()
    for toggles, told in ((0, False), (1, True), (0, False), (1, True)):
        assert (news.of(job(shared=toggles == 1, toggles=toggles)) is not None) == told


@pytest.mark.parametrize("sharing", [[], "on", {"toggles": -1}, {"toggles": "many"}, {"toggles": 1e308}])
def test_a_status_that_cannot_be_read_is_no_news(sharing: Any) -> None:
    news = SharingNews()
    assert news.of(job(toggles=0)) is None
    assert news.of(make_job({"sharing": sharing})) is None


async def test_a_reconcile_posts_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(running=True)
    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))
    for version, toggles in ((2, 0), (3, 1), (4, 1), (5, 2)):
        stored = reported(version=version)
        stored["status"]["sharing"] = {"toggles": toggles, "shared": toggles == 1}
        bench.cache.put(TRAINING_JOB, stored)
        await bench.reconciler.reconcile(KEY)
    assert [event.reason for event in bench.told if event.type == "Sharing"] == [
        "SharingBegan",
        "SharingEnded",
    ]
