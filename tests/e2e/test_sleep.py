"""Actors sleep in place while the learner learns, on a real kubelet."""

from __future__ import annotations

from harness import Cluster, Object, of_component, round_of
from jobs import merged
from namespaces import Start
from napping import ACTORS, ASLEEP, AWAKE, napping, until_cpus

from nitro_api.quantities import amount_of

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def cpu_asleep(pod: Object) -> float:
    """What a pod's lasting containers request while its actor sleeps, whatever it does now. Unit: vCPU."""
    lasting = [one for one in pod["spec"].get("initContainers") or [] if one.get("restartPolicy") == "Always"]
    requests = {
        one["name"]: one.get("resources", {}).get("requests", {}).get("cpu", "0")
        for one in [*lasting, *pod["spec"]["containers"]]
    }
    requests |= dict.fromkeys(requests.keys() & {"actor", "queue-proxy"}, ASLEEP)
    return sum(map(amount_of, requests.values()))


def allocated(container: str, pods: list[Object]) -> set[str | None]:
    """What the kubelet has set aside for the containers of that name; their spec may already ask for more."""
    every = [one for pod in pods for one in pod["status"]["containerStatuses"] if one["name"] == container]
    return {(one.get("allocatedResources") or {}).get("cpu") for one in every}


def test_actors_sleep_and_wake_without_a_restart_also_under_the_next_operator(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    start("naps", napping())
    cluster.until_round(namespace, "naps", 1)
    asleep = until_cpus(cluster, namespace, "naps", [ASLEEP] * ACTORS, "all sleep in an update")
    awake = until_cpus(cluster, namespace, "naps", [AWAKE] * ACTORS, "all are awake in a round")
    assert {pod["metadata"]["uid"] for pod in asleep} == {pod["metadata"]["uid"] for pod in awake}
    assert allocated("queue-proxy", asleep) == {ASLEEP}
    assert allocated("queue-proxy", awake).isdisjoint({ASLEEP, None})
    for state in ([ASLEEP] * ACTORS, [AWAKE] * ACTORS):
        until_cpus(cluster, namespace, "naps", state, "the state in which the operator is killed")
        cluster.kill(cluster.namespace, cluster.operator)
        before = round_of(cluster.job(namespace, "naps"))
        cluster.until_round(namespace, "naps", before + 2)
    pods = until_cpus(cluster, namespace, "naps", [AWAKE] * ACTORS, "all are awake again")
    assert sum(one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"]) == 0
    found = cluster.job(namespace, "naps")["status"]["actors"]
    assert 0 < found["wakeSeconds"] < 30
    assert found["started"] <= 2 * ACTORS
    until_cpus(cluster, namespace, "naps", [ASLEEP] * ACTORS, "all sleep")
    cluster.patch_job(namespace, "naps", {"suspend": True})
    cluster.until_no_pods(namespace, "naps", "actor")


def test_the_replicaset_deletes_the_pods_that_the_operator_chose(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    few = ACTORS // 2
    schedule = {"scaler": "schedule", "schedule": [ACTORS, ACTORS, few], "minActors": few, "hold": 0}
    start("fewer", merged(napping(), {"scaling": schedule}))
    chosen, seen = set(), set()

    def others_are_gone(pods: list[Object]) -> list[Object] | None:
        seen.update(pod["metadata"]["uid"] for pod in pods)
        annotated = [pod for pod in pods if DELETION_COST in (pod["metadata"].get("annotations") or {})]
        chosen.update(pod["metadata"]["uid"] for pod in annotated)
        return pods if len(seen) == ACTORS and len(pods) == few else None

    left = cluster.until(
        cluster.kind("v1", "Pod"),
        others_are_gone,
        namespace=namespace,
        selector=of_component("fewer", "actor"),
        what="the others are gone",
    )
    assert len(chosen) == ACTORS - few
    assert seen - {pod["metadata"]["uid"] for pod in left} == chosen
    cluster.until_round(namespace, "fewer", round_of(cluster.job(namespace, "fewer")) + 1)


def test_a_wake_without_room_is_deferred_and_the_others_work(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    start("quota", napping())
    until_cpus(cluster, namespace, "quota", [ASLEEP] * ACTORS, "all sleep")
    pods = cluster.pods(namespace, "quota", "actor") + cluster.pods(namespace, "quota", "learner")
    # They may wake while this is read: the quota goes by what they request when they sleep.
    asleep = sum(map(cpu_asleep, pods))
    quota = {"requests.cpu": f"{round(1000 * (asleep + 2.5 * amount_of(AWAKE)))}m"}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few", "namespace": namespace},
            "spec": {"hard": quota},
        }
    )

    def waits(job: Object) -> bool:
        actors = job.get("status", {}).get("actors") or {}
        return actors.get("deferred", 0) > 0 and actors.get("awake", 0) > 0

    cluster.until_job(namespace, "quota", waits, what="some are deferred and others are awake")
    condition = cluster.until_says(namespace, "quota", "WakeDeferred", "exceeded quota")
    assert condition["status"] == "True"
    before = round_of(cluster.job(namespace, "quota"))
    cluster.until_round(namespace, "quota", before + 1)
    cluster.delete("v1", "ResourceQuota", namespace, "few")
    until_cpus(cluster, namespace, "quota", [AWAKE] * ACTORS, "all are awake")
