"""A job whose actors sleep in each update, and what their kubelet has set aside for them."""

from __future__ import annotations

from harness import Cluster, Object, of_component
from jobs import hopper

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


def is_asked_to_wake(pod: Object) -> bool:
    """Whether the operator asks for an actor's whole CPU; its kubelet grants it later."""
    (actor,) = (one for one in pod["spec"]["containers"] if one["name"] == "actor")
    return str(actor["resources"]["requests"]["cpu"]) == AWAKE


def until_cpus(cluster: Cluster, namespace: str, name: str, expected: list[str], what: str) -> list[Object]:
    """The pods of a job's actors, as soon as they have these CPUs."""
    return cluster.until(
        cluster.kind("v1", "Pod"),
        lambda pods: pods if cpus(pods) == sorted(expected) else None,
        namespace=namespace,
        selector=of_component(name, "actor"),
        what=what,
    )
