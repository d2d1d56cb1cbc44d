"""The cache of the objects that the operator watches."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.kube.cache import Cache
from nitro_operator.kube.kinds import POD, TRAINING_JOB, JobKey
from operator_objects import make_job, pod

Object = dict[str, Any]


KEY = JobKey("team", "hopper")


def versioned(obj: Object, version: int, uid: str | None = None) -> Object:
    meta = {**obj["metadata"], "resourceVersion": str(version)}
    return {**obj, "metadata": meta | ({"uid": uid} if uid else {})}


class TestCache:
    def test_an_older_event_does_not_undo_our_own_write(self) -> None:
        cache = Cache()
        assert cache.put(TRAINING_JOB, versioned(make_job({"phase": "Running"}), 10)) == KEY
        assert cache.put(TRAINING_JOB, versioned(make_job({"phase": "Pending"}), 9)) == KEY, "to be looked at"
        job = cache.job(KEY)
        assert job is not None
        assert job["status"]["phase"] == "Running"

    def test_the_deletion_of_a_predecessor_does_not_remove_the_new_object(self) -> None:
        cache = Cache()
        cache.put(TRAINING_JOB, versioned(make_job(), 1))
        cache.put(TRAINING_JOB, versioned(make_job(), 2, uid="new"))
        assert cache.remove(TRAINING_JOB, make_job()) == KEY
        assert cache.job(KEY) is not None
        cache.remove(TRAINING_JOB, versioned(make_job(), 2, uid="new"))
        assert cache.job(KEY) is None

    def test_a_full_list_removes_objects_whose_deletion_was_missed(self) -> None:
        cache = Cache()
        for name in ("a", "b"):
            cache.put(POD, pod("actor", name=name))
        assert cache.replace(POD, [pod("actor", name="a")]) == {KEY}
        assert [p["metadata"]["name"] for p in cache.children(POD, KEY)] == ["a"]
        assert cache.replace(POD, [pod("actor", name="a")]) == set()

    def test_a_late_answer_does_not_restore_a_removed_object(self) -> None:
        cache = Cache()
        cache.put(TRAINING_JOB, versioned(make_job(), 1))
        cache.remove(TRAINING_JOB, versioned(make_job(), 3))
        cache.put(TRAINING_JOB, versioned(make_job({"phase": "Running"}), 2))
        assert cache.job(KEY) is None
        assert cache.replace(TRAINING_JOB, [versioned(make_job(), 2)]) == set()
        assert cache.job(KEY) is None
        cache.put(TRAINING_JOB, versioned(make_job(), 4, uid="new"))
        assert cache.job(KEY) is not None

    def test_an_object_that_regains_its_label_is_cached_again(self) -> None:
        """A watch by label tells of a label that is taken off as of a deletion."""
        cache = Cache()
        cache.put(POD, versioned(pod("actor"), 1))
        cache.remove(POD, versioned(pod("actor"), 2))
        cache.put(POD, versioned(pod("actor"), 3))
        assert len(cache.children(POD, KEY)) == 1

    def test_only_the_newest_removals_are_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nitro_operator.kube.cache.REMEMBERED_REMOVALS", 2)
        cache = Cache()
        for name in ("a", "b", "c"):
            cache.remove(POD, pod("actor", name=name))
        for name in ("a", "b", "c"):
            cache.put(POD, pod("actor", name=name))
        assert [p["metadata"]["name"] for p in cache.children(POD, KEY)] == ["a"]

    def test_a_list_keeps_objects_that_were_added_during_the_request(self) -> None:
        cache = Cache()
        cache.put(POD, pod("actor", name="gone"))
        cache.expect_list(POD)
        cache.put(POD, pod("actor", name="new"))
        assert cache.replace(POD, []) == {KEY}
        assert [p["metadata"]["name"] for p in cache.children(POD, KEY)] == ["new"]
        cache.expect_list(POD)
        cache.replace(POD, [])
        assert cache.children(POD, KEY) == [], "the next list is younger"

    def test_objects_without_a_job_are_not_cached(self) -> None:
        stranger = pod("actor")
        stranger["metadata"]["labels"] = {}
        assert Cache().put(POD, stranger) is None
