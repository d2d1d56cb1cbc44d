"""Actors sleep in place while the learner learns, on a real kubelet."""

from __future__ import annotations

from harness import Cluster, Object, round_of
from jobs import hopper
from namespaces import Start

from nitro_api.spec.quantities import amount_of

ACTORS = 4
AWAKE, ASLEEP = "100m", "1m"


def napping() -> Object:
    """A job whose updates last many times as long as a wake."""
    scaling = {"scaler": "fixed", "minActors": ACTORS, "initialActors": ACTORS, "maxActors": ACTORS}
    actor = {"resources": {"requests": {"cpu": AWAKE}}}
    slow = {"name": "ppo", "hyperparameters": {"epochs": 60, "minibatchSize": 8}}
    spec = hopper(rounds=1000, actor=actor, algorithm=slow)
    return spec | {"scaling": scaling}


def cpus(pods: list[Object]) -> list[str]:
    """What the kubelet has set aside for each ready actor, the smallest first."""
    statuses = [one for pod in pods for one in pod["status"].get("containerStatuses") or []]
    actors = [one for one in statuses if one["name"] == "actor" and one["ready"]]
    return sorted(str((one.get("allocatedResources") or {}).get("cpu")) for one in actors)


def requesting(pod: Object) -> list[Object]:
    """The containers of a pod that request CPU as long as it runs."""
    lasting = [one for one in pod["spec"].get("initContainers") or [] if one.get("restartPolicy") == "Always"]
    every = [*lasting, *pod["spec"]["containers"]]
    return [one for one in every if "cpu" in (one.get("resources", {}).get("requests") or {})]


def until(cluster: Cluster, namespace: str, expected: list[str], what: str) -> list[Object]:
    """The actors' pods, as soon as they have these CPUs."""
    return cluster.until(
        cluster.kind("v1", "Pod"),
        lambda pods: pods if cpus(pods) == sorted(expected) else None,
        namespace=namespace,
        selector="app.kubernetes.io/component=actor",
        what=what,
    )


def test_actors_sleep_and_wake_without_a_restart_also_under_the_next_operator(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    start("naps", napping())
    cluster.until_round(namespace, "naps", 1)
    asleep = until(cluster, namespace, [ASLEEP] * ACTORS, "all sleep in an update")
    awake = until(cluster, namespace, [AWAKE] * ACTORS, "all are awake in a round")
    assert {pod["metadata"]["uid"] for pod in asleep} == {pod["metadata"]["uid"] for pod in awake}
    for state in ([ASLEEP] * ACTORS, [AWAKE] * ACTORS):
        until(cluster, namespace, state, "the state in which the operator is killed")
        cluster.kill(cluster.namespace, cluster.operator)
        before = round_of(cluster.job(namespace, "naps"))
        cluster.until_round(namespace, "naps", before + 2)
    pods = until(cluster, namespace, [AWAKE] * ACTORS, "all are awake again")
    assert sum(one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"]) == 0
    found = cluster.job(namespace, "naps")["status"]["actors"]
    assert 0 < found["wakeSeconds"] < 30
    assert found["started"] <= 2 * ACTORS
    until(cluster, namespace, [ASLEEP] * ACTORS, "all sleep")
    cluster.patch_job(namespace, "naps", {"suspend": True})
    cluster.until_no_pods(namespace, "naps", "actor")


def test_a_wake_without_room_is_deferred_and_the_others_work(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    start("quota", napping())
    until(cluster, namespace, [ASLEEP] * ACTORS, "all sleep")
    pods = cluster.pods(namespace, "quota", "actor") + cluster.pods(namespace, "quota", "learner")
    taken = sum(amount_of(one["resources"]["requests"]["cpu"]) for pod in pods for one in requesting(pod))
    quota = {"requests.cpu": f"{round(1000 * (taken + 2.5 * amount_of(AWAKE)))}m"}
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
    until(cluster, namespace, [AWAKE] * ACTORS, "all are awake")
