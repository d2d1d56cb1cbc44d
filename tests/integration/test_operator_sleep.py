"""Actors that sleep in place between rounds, on a real API server whose kubelet is a stand-in."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apiserver import ApiServer
from cluster_support import Cluster
from kubelet_support import ASLEEP, AWAKE, NODE, Kubelet
from operator_support import Object, OperatorProcess, eventually, install_knative, job

SCALING: Object = {"scaler": "fixed", "minActors": 4, "initialActors": 4, "maxActors": 4}


class Learner:
    """The word of a job's learner on what it needs, and its heartbeat. Use as a context manager."""

    def __init__(self, cluster: Cluster, name: str, **scaling: Any) -> None:
        self._cluster, self._name = cluster, name
        self._round = 0
        self._word: Object = {}
        self._said = threading.Lock()
        self._ends = threading.Event()
        self._heartbeat = threading.Thread(target=self._beat, daemon=True)
        cluster.apply(job(name, scaling=SCALING | scaling))
        cluster.start_learner(name)
        cluster.start_knative(name)
        eventually(lambda: cluster.status(name)["phase"] == "Running", what="phase Running")

    def __enter__(self) -> Learner:
        self._heartbeat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._heartbeat.join()

    def samples(self, actors: int = 4) -> None:
        self.says(needsNow=actors, needsLater=[])

    def updates(self, seconds: float = 1000.0, actors: int = 4, busy: int = 0) -> None:
        """Say that so many actors are needed after that time, and `busy` until then."""
        self._round += 1
        later = [{"afterSeconds": seconds, "actors": actors}]
        self.says(needsNow=busy, needsLater=later, round=self._round)

    def says(self, **word: Any) -> None:
        at = datetime.now(UTC).isoformat()
        found = {"neededAt": at, "requestedActors": 4, "state": "Running", "round": self._round}
        with self._said:
            self._word = found | word
            self._cluster.report(self._name, **self._word)

    def _beat(self) -> None:
        while not self._ends.wait(5):
            with self._said:
                if self._word:
                    self._cluster.report(self._name, **self._word)


def actors(cluster: Cluster, name: str) -> Object:
    found: Object = cluster.status(name)["actors"]
    return found


def addresses(cluster: Cluster, name: str) -> list[str]:
    return sorted(actors(cluster, name)["addresses"])


def states(cluster: Cluster, name: str) -> tuple[int, int, int]:
    found = actors(cluster, name)
    return found["awake"], found["asleep"], found["deferred"]


@contextmanager
def running(cluster: Cluster, name: str, **scaling: Any) -> Iterator[tuple[Learner, Kubelet]]:
    """A job with four actor pods whose learner has not said a word."""
    with Learner(cluster, name, **scaling) as learner, Kubelet(cluster, name) as kubelet:
        kubelet.start(4)
        yield learner, kubelet


@contextmanager
def sleeping(cluster: Cluster, name: str, **scaling: Any) -> Iterator[tuple[Learner, Kubelet]]:
    """A job of four actors, which have sampled and sleep."""
    with running(cluster, name, **scaling) as (learner, kubelet):
        learner.samples()
        eventually(lambda: addresses(cluster, name) == kubelet.addresses(), what="all awake")
        learner.updates()
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="all asleep")
        yield learner, kubelet


def test_actors_sleep_while_the_learner_learns_and_wake_at_its_word(cluster: Cluster) -> None:
    with running(cluster, "naps") as (learner, kubelet):
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="asleep before the learner says a word")
        learner.samples()
        eventually(lambda: addresses(cluster, "naps") == kubelet.addresses(), what="all work")
        assert kubelet.cpus() == [AWAKE] * 4
        learner.updates(busy=1)
        eventually(
            lambda: sorted(kubelet.cpus()) == [ASLEEP] * 3 + [AWAKE], what="the one that works stays awake"
        )
        assert len(addresses(cluster, "naps")) == 1
        learner.samples()
        eventually(lambda: addresses(cluster, "naps") == kubelet.addresses(), what="all again")
        eventually(lambda: states(cluster, "naps") == (4, 0, 0), what="the numbers")
        found = actors(cluster, "naps")
        assert (found["ready"], found["granted"], found["podVCPU"]) == (4, 4, 0.25)
        assert found["wakeSeconds"] < 60


def test_pods_that_are_being_started_have_their_cpu_once_they_are_needed(cluster: Cluster) -> None:
    with running(cluster, "fresh", initialActors=6, maxActors=6) as (learner, kubelet):
        kubelet.start(2, ready=False)
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 6, what="all asleep before the learner says a word")
        learner.says(needsNow=5, needsLater=[], requestedActors=6)
        eventually(lambda: sorted(kubelet.cpus()) == [ASLEEP] + [AWAKE] * 5, what="five are needed")
        able = kubelet.addresses()[:4]
        eventually(lambda: addresses(cluster, "fresh") == able, what="those that can work are published")


def test_actors_wake_before_they_are_expected_to_be_needed(cluster: Cluster) -> None:
    with sleeping(cluster, "early") as (learner, kubelet):
        learner.updates(seconds=10)
        eventually(lambda: kubelet.cpus() == [AWAKE] * 4, what="awake without a word")
        learner.samples()


def test_a_deferred_wake_joins_when_there_is_room(cluster: Cluster) -> None:
    with sleeping(cluster, "late") as (learner, kubelet):
        kubelet.room = 0.5 + 2 * 0.001
        learner.samples()
        eventually(lambda: states(cluster, "late") == (2, 2, 2), what="two wait")
        assert len(actors(cluster, "late")["addresses"]) == 2
        eventually(lambda: cluster.condition("late", "ActorsReady")["reason"] == "WakeDeferred")
        message = cluster.condition("late", "ActorsReady")["message"]
        assert "2 sleeping actors" in message
        assert "didn't have enough resource" in message
        first = actors(cluster, "late")["addresses"]
        kubelet.room = 10
        eventually(lambda: states(cluster, "late") == (4, 0, 0), what="all awake")
        assert actors(cluster, "late")["addresses"][:2] == first, "the others come after them"


def test_a_wake_that_a_node_defers_for_too_long_is_given_up_for_another_pod(cluster: Cluster) -> None:
    with sleeping(cluster, "gives-up") as (learner, kubelet):
        before = {pod["metadata"]["uid"] for pod in kubelet.pods()}
        kubelet.infeasible = True
        learner.samples()
        eventually(lambda: not before & {pod["metadata"]["uid"] for pod in kubelet.pods()}, what="deleted")


def test_a_wake_that_a_quota_has_no_room_for_is_deferred(cluster: Cluster) -> None:
    with sleeping(cluster, "quota") as (learner, _):
        hard = {"requests.cpu": "300m"}
        about = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
        cluster.apply({**about, "spec": {"hard": hard}})
        used = {"status": {"hard": hard, "used": {"requests.cpu": "4m"}}}
        flags = ("--subresource=status", "--type=merge", "-p", json.dumps(used))
        cluster.kubectl("patch", "resourcequota", "few", *flags)
        learner.samples()
        eventually(lambda: states(cluster, "quota") == (1, 3, 3), what="three wait")
        eventually(lambda: "exceeded quota" in cluster.condition("quota", "ActorsReady")["message"])
        cluster.kubectl("delete", "resourcequota", "few")
        eventually(lambda: states(cluster, "quota") == (4, 0, 0), what="all awake")


def test_never_wakes_all_and_publishes_no_addresses(cluster: Cluster) -> None:
    with sleeping(cluster, "never") as (_, kubelet):
        cluster.patch_spec("never", scaling={"sleep": "never"})
        eventually(lambda: kubelet.cpus() == [AWAKE] * 4, what="all awake")
        eventually(lambda: "addresses" not in actors(cluster, "never"), what="no addresses")


def test_an_operator_that_ends_wakes_all_and_one_that_was_killed_leaves_it_to_the_next(
    cluster: Cluster, operator: OperatorProcess
) -> None:
    with sleeping(cluster, "ends") as (learner, kubelet):
        operator.kill()
        learner.samples()
        assert kubelet.cpus() == [ASLEEP] * 4
        operator.start()
        eventually(lambda: kubelet.cpus() == [AWAKE] * 4, what="awake after the operator's return")
        learner.updates()
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="asleep again")
        kubelet.carries_out = False
        learner.samples()
        eventually(lambda: [_cpu(pod) for pod in kubelet.pods()] == [AWAKE] * 4, what="they wake")
        operator.kill()
        kubelet.carries_out = True
        operator.start()
        eventually(lambda: len(actors(cluster, "ends")["addresses"]) == 4, what="all work")
        learner.updates()
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="asleep once more")
        operator.stop()
        eventually(lambda: kubelet.cpus() == [AWAKE] * 4, what="awake after the operator's end")
        assert addresses(cluster, "ends") == kubelet.addresses()
        operator.start()
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="asleep under the next one")


def test_a_learner_that_always_says_that_it_needs_none_is_not_believed(cluster: Cluster) -> None:
    with sleeping(cluster, "liar") as (learner, kubelet):
        learner.updates()  # another round is done, without any need
        eventually(lambda: kubelet.cpus() == [AWAKE] * 4, what="not believed")
        learner.samples()
        learner.updates()
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="believed again")


def test_a_learner_of_an_earlier_release_has_all_its_actors_awake(cluster: Cluster) -> None:
    with running(cluster, "older") as (_, kubelet):
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="asleep before its first report")
        cluster.report("older", state="Running", requestedActors=4, round=1)
        eventually(lambda: kubelet.cpus() == [AWAKE] * 4, what="awake after it")
        eventually(lambda: "addresses" not in actors(cluster, "older"), what="no addresses")


def test_pods_of_somebody_else_are_never_changed(cluster: Cluster) -> None:
    """Labels are a tenant's: what counts is who owns a pod."""
    with sleeping(cluster, "mine") as (learner, kubelet):
        meta = {"name": "strange", "labels": kubelet.pods()[0]["metadata"]["labels"]}
        container = {"name": "actor", "image": "x", "resources": {"requests": {"cpu": AWAKE}}}
        spec = {"containers": [container], "nodeName": "other"}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        address = {"podIP": "10.0.1.1", "podIPs": [{"ip": "10.0.1.1"}]}
        cluster.report_actor(cluster.get("pod", "strange") or {}, **address)
        learner.samples()
        eventually(lambda: len(addresses(cluster, "mine")) == 4, what="all awake")
        assert "10.0.1.1" not in addresses(cluster, "mine"), "it would get the job's token"
        learner.updates()
        eventually(lambda: states(cluster, "mine") == (1, 4, 0), what="its own sleep")
        assert _cpu(cluster.get("pod", "strange")) == AWAKE


def test_a_pod_whose_cpu_somebody_else_has_changed_is_left_alone(cluster: Cluster) -> None:
    with running(cluster, "vpa") as (learner, kubelet):
        learner.samples()
        eventually(lambda: kubelet.cpus() == [AWAKE] * 4, what="all awake")
        patch = {"spec": {"containers": [{"name": "actor", "resources": {"requests": {"cpu": "300m"}}}]}}
        name = kubelet.pods()[0]["metadata"]["name"]
        cluster.kubectl("patch", "pod", name, "--subresource=resize", "-p", json.dumps(patch))
        eventually(lambda: kubelet.cpus() == ["300m"] + [AWAKE] * 3, what="changed by hand")
        learner.updates()
        eventually(lambda: kubelet.cpus() == ["300m"] + [ASLEEP] * 3, what="the others sleep")


def test_of_pods_that_go_while_others_work_the_sleepers_are_chosen(cluster: Cluster) -> None:
    scaling = {"scaler": "nitro", "minActors": 1, "hold": 0}
    with running(cluster, "shrinks", **scaling) as (learner, kubelet):
        learner.samples()
        eventually(lambda: len(actors(cluster, "shrinks")["addresses"]) == 4, what="all work")
        learner.says(needsNow=1, needsLater=[], requestedActors=1)
        eventually(lambda: cluster.scale("shrinks")[0] == "1", what="a smaller round")
        costs = {
            pod["status"]["podIP"]: (pod["metadata"].get("annotations") or {}).get(
                "controller.kubernetes.io/pod-deletion-cost"
            )
            for pod in kubelet.pods()
        }
        working = actors(cluster, "shrinks")["addresses"][:1]
        assert {address for address, cost in costs.items() if cost is None} == set(working)


def test_without_the_subresource_gaps_are_held_and_a_condition_says_why(
    apiserver: ApiServer, operator: OperatorProcess, tmp_path: Path
) -> None:
    operator.stop()
    try:
        with ApiServer(apiserver.assets, "--feature-gates=InPlacePodVerticalScaling=false") as server:
            server.apply_crd()
            install_knative(server)
            server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "old"}})
            cluster = Cluster(server, "old")
            with (
                OperatorProcess(server.kubeconfig, tmp_path / "log"),
                running(cluster, "awake") as (learner, kubelet),
            ):
                learner.samples()
                learner.updates(seconds=20)
                eventually(lambda: cluster.condition("awake", "ActorsReady")["reason"] == "ResizeMissing")
                assert kubelet.cpus() == [AWAKE] * 4
                eventually(lambda: "addresses" not in actors(cluster, "awake"), what="no addresses")
                assert cluster.scale("awake")[0] == "4", "held: the gap is short"
                events = eventually(lambda: cluster.kubectl("get", "events", "-o", "json"))
                assert events.count('"reason": "ResizeMissing"') == 1
    finally:
        operator.start()


def _cpu(pod: Object | None) -> str:
    assert pod is not None
    found: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return found


def test_actors_start_when_the_learners_pod_has_a_node(cluster: Cluster) -> None:
    cluster.apply(job("begins", scaling=SCALING))
    owner = eventually(lambda: cluster.get("job", "begins-learner"), what="the learner's Job")
    cluster.start_knative("begins")
    pod = cluster.add_learner(owner, node=NODE)
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    cluster.set_pod(pod, phase="Pending", containers={"redis": waiting, "learner": waiting})
    eventually(lambda: cluster.scale("begins")[0] == "4", what="all actors of the first round")
    with Kubelet(cluster, "begins") as kubelet:
        kubelet.start(2)
        kubelet.start(2, ready=False)
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="they sleep until it begins")
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    cluster.set_pod(pod, phase="Pending", containers={"redis": waiting, "learner": waiting})
    eventually(lambda: cluster.scale("begins")[0] == "0", what="a learner that cannot begin needs none")
