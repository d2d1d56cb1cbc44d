"""Actors that sleep in place between rounds, on a real API server whose kubelet is a stand-in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apiserver import ApiServer
from cluster_support import Cluster
from kubelet_support import ASLEEP, AWAKE, NODE, Kubelet, cpu_of
from operator_support import OperatorProcess, eventually, install_knative, job
from sleep_support import SCALING, actors, addresses, exhaust_quota, running, sleeping, states


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
        exhaust_quota(cluster, "300m", "4m")
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
        eventually(lambda: [cpu_of(pod) for pod in kubelet.pods()] == [AWAKE] * 4, what="they wake")
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
        assert cpu_of(cluster.get("pod", "strange")) == AWAKE


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


@pytest.mark.parametrize("needed", [1, 0], ids=["in a round", "between rounds"])
def test_of_pods_that_go_those_are_chosen_that_do_not_work(cluster: Cluster, needed: int) -> None:
    """Between rounds, too: the next one may begin before they are gone."""
    name = f"shrinks-{needed}"
    with running(cluster, name, scaler="nitro", minActors=1, hold=0) as (learner, kubelet):
        learner.samples()
        eventually(lambda: len(actors(cluster, name)["addresses"]) == 4, what="all work")
        first = actors(cluster, name)["addresses"][:1]
        learner.says(needsNow=needed, needsLater=[], requestedActors=1)
        eventually(lambda: cluster.scale(name)[0] == "1", what="a smaller round")
        costs = {
            pod["status"]["podIP"]: (pod["metadata"].get("annotations") or {}).get(
                "controller.kubernetes.io/pod-deletion-cost"
            )
            for pod in kubelet.pods()
        }
        stay = {address for address, cost in costs.items() if cost is None}
        assert stay == set(first) if needed else len(stay) == 1


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
