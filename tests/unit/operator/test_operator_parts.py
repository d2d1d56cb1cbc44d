"""Cache, queue, meter, drift and configuration."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from operator_objects import UID, make_job, make_view, pod

from nitro_operator.builders import redis_service
from nitro_operator.builders.learner import actor_url
from nitro_operator.cache import Cache
from nitro_operator.config import Config
from nitro_operator.drift import drifted, projection
from nitro_operator.kinds import POD, SERVICE, TRAINING_JOB, JobKey
from nitro_operator.metering import Meter
from nitro_operator.queue import WorkQueue

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

    def test_a_full_list_drops_what_a_broken_watch_missed(self) -> None:
        cache = Cache()
        for name in ("a", "b"):
            cache.put(POD, pod("actor", name=name))
        assert cache.replace(POD, [pod("actor", name="a")]) == {KEY}
        assert [p["metadata"]["name"] for p in cache.children(POD, KEY)] == ["a"]
        assert cache.replace(POD, [pod("actor", name="a")]) == set()

    def test_a_late_answer_does_not_bring_back_what_has_been_removed(self) -> None:
        cache = Cache()
        cache.put(TRAINING_JOB, versioned(make_job(), 1))
        cache.remove(TRAINING_JOB, versioned(make_job(), 3))
        cache.put(TRAINING_JOB, versioned(make_job({"phase": "Running"}), 2))
        assert cache.job(KEY) is None
        assert cache.replace(TRAINING_JOB, [versioned(make_job(), 2)]) == set()
        assert cache.job(KEY) is None
        cache.put(TRAINING_JOB, versioned(make_job(), 4, uid="new"))
        assert cache.job(KEY) is not None

    def test_an_object_that_gets_its_label_back_is_there_again(self) -> None:
        """A watch by label tells of a label that is taken off as of a deletion."""
        cache = Cache()
        cache.put(POD, versioned(pod("actor"), 1))
        cache.remove(POD, versioned(pod("actor"), 2))
        cache.put(POD, versioned(pod("actor"), 3))
        assert len(cache.children(POD, KEY)) == 1

    def test_only_the_newest_removals_are_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nitro_operator.cache.REMEMBERED_REMOVALS", 2)
        cache = Cache()
        for name in ("a", "b", "c"):
            cache.remove(POD, pod("actor", name=name))
        for name in ("a", "b", "c"):
            cache.put(POD, pod("actor", name=name))
        assert [p["metadata"]["name"] for p in cache.children(POD, KEY)] == ["a"]

    def test_a_list_takes_nothing_away_that_came_while_it_was_on_its_way(self) -> None:
        cache = Cache()
        cache.put(POD, pod("actor", name="gone"))
        cache.expect_list(POD)
        cache.put(POD, pod("actor", name="new"))
        assert cache.replace(POD, []) == {KEY}
        assert [p["metadata"]["name"] for p in cache.children(POD, KEY)] == ["new"]
        cache.expect_list(POD)
        cache.replace(POD, [])
        assert cache.children(POD, KEY) == [], "the next list is younger"

    def test_objects_of_no_job_are_not_kept(self) -> None:
        stranger = pod("actor")
        stranger["metadata"]["labels"] = {}
        assert Cache().put(POD, stranger) is None


class TestQueue:
    async def test_one_run_at_a_time_for_a_key_and_none_is_lost(self) -> None:
        running, most, runs = 0, 0, 0
        twice = asyncio.Event()

        async def handle(_: str) -> None:
            nonlocal running, most, runs
            running, runs = running + 1, runs + 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            if runs == 2:
                twice.set()

        queue = WorkQueue(handle, workers=4, timeout=1)
        queue.start()
        queue.add("a")
        await asyncio.sleep(0.005)
        for _ in range(10):
            queue.add("a")
        await asyncio.wait_for(twice.wait(), 60)
        await queue.stop()
        assert (most, runs) == (1, 2)

    async def test_a_failure_is_tried_again_and_a_hung_run_is_ended(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nitro_operator.queue.FIRST_RETRY_SECONDS", 0.01)
        runs = 0
        healed = asyncio.Event()

        async def handle(_: str) -> None:
            nonlocal runs
            runs += 1
            if runs == 1:
                raise ValueError("no")
            if runs == 2:
                await asyncio.sleep(600)
            healed.set()

        queue = WorkQueue(handle, workers=1, timeout=0.05)
        queue.start()
        queue.add("a")
        await asyncio.wait_for(healed.wait(), 60)
        assert queue.longest_run() == 0
        await queue.stop()
        assert runs == 3

    async def test_what_fails_for_days_ends_no_worker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nitro_operator.queue.LAST_RETRY_SECONDS", 0.0)
        runs = 0
        healed = asyncio.Event()

        async def handle(_: str) -> None:
            nonlocal runs
            runs += 1
            if runs <= 1100:
                raise ValueError("not yet")
            healed.set()

        queue = WorkQueue(handle, workers=1, timeout=1)
        queue.start()
        queue.add("a")
        await asyncio.wait_for(healed.wait(), 60)
        assert not any(worker.done() for worker in queue.loops)
        await queue.stop()

    async def test_the_earlier_of_two_delays_counts(self) -> None:
        runs: list[str] = []
        ran = asyncio.Event()

        async def handle(key: str) -> None:
            runs.append(key)
            ran.set()

        queue = WorkQueue(handle, workers=1, timeout=1)
        queue.start()
        queue.add_after("a", 60)
        queue.add_after("a", 0.01)
        queue.add_after("a", 60)
        await asyncio.wait_for(ran.wait(), 60)
        await queue.stop()
        assert runs == ["a"]


class TestMeter:
    def test_it_integrates_the_number_of_pods_terminating_ones_included(self) -> None:
        meter = Meter()
        leaving = pod("actor", name="b")
        leaving["metadata"]["deletionTimestamp"] = "now"
        meter.sample([], 0)
        meter.sample([pod("actor", name="a"), leaving], 10)
        meter.sample([pod("actor", name="a")], 15)
        assert meter.sample([], 20) == 2 * 5 + 1 * 5
        assert not meter.running

    def test_a_pod_counts_from_when_a_node_took_it_until_it_ended(self) -> None:
        pending, ended = pod("actor"), pod("actor", phase="Succeeded")
        del pending["status"]["startTime"]
        meter = Meter()
        meter.sample([pending, ended], 0)
        assert meter.sample([], 100) == 0

    def test_a_restart_adds_the_time_in_between(self) -> None:
        job = make_job({"actors": {"podSeconds": 100.0}})
        job["metadata"]["statusWrittenAt"] = "2026-01-01T00:10:00Z"
        old, young = pod("actor", name="a"), pod("actor", name="b")
        young["metadata"]["creationTimestamp"] = "2026-01-01T00:10:20Z"
        now = datetime(2026, 1, 1, 0, 10, 30, tzinfo=UTC)
        assert Meter.restored(job, [old, young], now).total == 100 + 30 + 10
        early = datetime(2026, 1, 1, 0, 9, 0, tzinfo=UTC)
        assert Meter.restored(job, [old], early).total == 100, "a clock that went back takes nothing away"


class TestDrift:
    def test_what_the_server_adds_is_no_drift(self) -> None:
        desired = redis_service(make_view())
        observed = {**desired, "status": {}, "spec": {**desired["spec"], "clusterIP": "10.0.0.1"}}
        assert not drifted(desired, observed)

    @pytest.mark.parametrize(
        ("desired", "observed", "expected"),
        [
            ({"cpu": "1000m"}, {"cpu": "1"}, False),
            ({"memory": "1Gi"}, {"memory": "1024Mi"}, False),
            ({"memory": "1Gi"}, {"memory": "1G"}, True),
            ([{"a": 1}], [{"a": 1, "b": 2}], False),
            ([{"a": 1}], [{"a": 1}, {"a": 2}], True),
            ({"a": {}}, {}, False),
            ({"a": True}, {}, True),
            ({"a": "x"}, None, True),
        ],
    )
    def test_fields_that_we_set(self, desired: Any, observed: Any, expected: bool) -> None:
        assert drifted(desired, observed) is expected

    def test_the_projection_is_what_the_server_made_of_our_fields(self) -> None:
        assert projection({"a": "1.0", "c": [{"d": 1}]}, {"a": "1", "b": 2, "c": [{"d": 1, "e": 2}]}) == {
            "a": "1",
            "c": [{"d": 1}],
        }
        assert SERVICE.path("n", "x") == "/api/v1/namespaces/n/services/x"
        assert UID in TRAINING_JOB.path("n", UID, "status")


IMAGES = {"NITRO_ACTOR_IMAGE": "a", "NITRO_LEARNER_IMAGE": "l", "NITRO_REDIS_IMAGE": "r"}


class TestConfig:
    def test_defaults(self) -> None:
        config = Config.from_environment(IMAGES)
        assert config.platform_max_actors == 0
        assert config.watch_namespaces == ()
        assert (config.metrics_port, config.health_port) == (8080, 8081)

    @pytest.mark.parametrize(
        ("text", "domain"),
        [
            (
                "nameserver 10.0.0.10\nsearch nitro.svc.corp.test svc.corp.test corp.test\n",
                "corp.test",
            ),
            ("search svc.cluster.local. lan\noptions ndots:5\n", "cluster.local"),
            ("search lan\n", "cluster.local"),
            (None, "cluster.local"),
        ],
    )
    def test_the_clusters_domain(self, tmp_path: Path, text: str | None, domain: str) -> None:
        file = tmp_path / "resolv.conf"
        if text is not None:
            file.write_text(text)
        config = Config.from_environment(IMAGES, file)
        assert config.cluster_domain == domain
        assert actor_url(make_view(config)) == f"http://hopper-actors-v1.team.svc.{domain}"

    def test_lists(self) -> None:
        config = Config.from_environment(IMAGES | {"NITRO_WATCH_NAMESPACES": "a, b,"})
        assert config.watch_namespaces == ("a", "b")

    @pytest.mark.parametrize(
        ("environment", "words"),
        [
            ({"NITRO_ACTOR_IMAGE": ""}, "NITRO_ACTOR_IMAGE"),
            ({"NITRO_PLATFORM_MAX_ACTORS": "many"}, "not a number"),
            ({"NITRO_RESYNC_SECONDS": "-1"}, "negative"),
        ],
    )
    def test_a_mistake_names_its_variable(self, environment: dict[str, str], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            Config.from_environment(IMAGES | environment)
