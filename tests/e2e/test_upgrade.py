"""From the former release to the present one and back, with Helm. Its chart and its code are git's history.

Two jobs run and one is suspended. Nothing of them is lost, replaced or restarted. The actors of a fourth one
sleep when the present operator ends.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import run_outcome
import yaml
from harness import API_VERSION, KIND, PATIENCE_SECONDS, Cluster, Object, is_ready, of_component, round_of
from helm_release import TAG, Helm
from jobs import hopper, merged
from namespaces import Start
from napping import ACTORS as NAPPING
from napping import ASLEEP, is_asked_to_wake, napping, until_cpus

import former_release

DOCKERFILE = Path(__file__).with_name("former.Dockerfile")
ROOT = Path(__file__).parents[2]
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
ACTORS = 3
REFERENCE_ROUNDS = 8
LASTING = (
    ("v1", "Pod"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("batch/v1", "Job"),
    ("serving.knative.dev/v1", "Service"),
    ("serving.knative.dev/v1", "Revision"),
)

Identities = dict[str, tuple[object, ...]]


@pytest.fixture(scope="module")
def former_images(cluster: Cluster) -> None:
    """The three images of the former release."""
    build = shlex.split(os.environ.get("IMAGE_COMMAND", "docker build --tag"))
    for name, packages in former_release.PACKAGES.items():
        image = cluster.images[name]
        of_former = f"{image.rpartition(':')[0]}:{TAG}"
        base = cluster.images.get(f"{name}-cpu", image)
        arguments = {"IMAGE": base, "PACKAGES": " ".join(f"./{one}" for one in packages)}
        given = [part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")]
        command = [*build, of_former, str(former_release.tree()), "--file", str(DOCKERFILE), *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr


def identities(cluster: Cluster, namespace: str) -> Identities:
    """What a restart would replace or change: identity, version of the spec, and restarts of each object. A
    pod has no version here: where updates take long, it sleeps and wakes, which changes its requests."""
    found: Identities = {}
    for version, kind in LASTING:
        for one in cluster.kind(version, kind).get(namespace=namespace).items:
            meta, containers = one.metadata, (one.to_dict().get("status") or {}).get("containerStatuses", [])
            restarts = [container.get("restartCount") for container in containers]
            generation = None if kind == "Pod" else meta.generation
            found[f"{kind} of {version}: {meta.name}"] = (meta.uid, generation, *restarts)
    return found


def until_asked_to_wake(cluster: Cluster, namespace: str, uids: set[str]) -> None:
    """Wait until each of these pods was asked to wake. The operator that ends asks them; the one after it may
    soon put some to sleep again, or replace them."""
    seen: set[str] = set()

    def all_asked(pods: list[Object]) -> bool:
        seen.update(pod["metadata"]["uid"] for pod in pods if is_asked_to_wake(pod))
        return uids <= seen

    cluster.until(
        cluster.kind("v1", "Pod"),
        all_asked,
        namespace=namespace,
        selector=of_component("naps", "actor"),
        what="the operator that ends has asked all to wake",
    )


def until_actors(cluster: Cluster, namespace: str, name: str) -> None:
    def all_ready(pods: list[Object]) -> bool:
        return len(pods) == ACTORS and all(map(is_ready, pods))

    pods, selector = cluster.kind("v1", "Pod"), of_component(name, "actor")
    cluster.until(pods, all_ready, namespace=namespace, what=f"actors of {name}", selector=selector)


def go_on(cluster: Cluster, namespace: str) -> None:
    """Both running jobs end more rounds."""
    for name in ("first", "second"):
        done = round_of(cluster.job(namespace, name))
        cluster.until_round(namespace, name, done + 2)


def is_former(cluster: Cluster) -> bool:
    """Whether the former release is installed: its CRD and its operator; otherwise the present one is."""
    deployments = cluster.kind("apps/v1", "Deployment")
    (operator,) = deployments.get(namespace=cluster.namespace, label_selector=cluster.operator).items
    former: bool = operator.spec.template.spec.containers[0].image.endswith(f":{TAG}")
    definition = cluster.kind(*CRD).get(name="nitrotrainingjobs.nitro.dev").to_dict()
    tree = former_release.tree() if former else ROOT
    assert fields(definition) == fields(
        yaml.safe_load((tree / "crds" / "nitrotrainingjobs.yaml").read_text())
    )
    return former


def fields(definition: Object) -> set[str]:
    """The fields of spec in a CRD."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])


@pytest.mark.usefixtures("former_images")
def test_an_upgrade_and_a_rollback_lose_nothing(
    cluster: Cluster, helm: Helm, namespace: str, start: Start, tmp_path: Path
) -> None:
    present = cluster.images["learner-cpu"]
    spec = hopper(rounds=1000, actors=(ACTORS, ACTORS, ACTORS), scaling={"scaler": "fixed"})
    helm.install_former()
    assert is_former(cluster)
    start("paused", spec)
    start("first", spec)
    cluster.until_round(namespace, "paused", 2)
    start("second", spec)
    cluster.patch_job(namespace, "paused", {"suspend": True})
    cluster.until_phase(namespace, "paused", "Suspended")
    for component in ("learner", "actor"):
        cluster.until_no_pods(namespace, "paused", component)
    paused_at = round_of(cluster.job(namespace, "paused"))
    for name in ("first", "second"):
        until_actors(cluster, namespace, name)
        cluster.until_round(namespace, name, 2)
    before = identities(cluster, namespace)

    helm.upgrade()
    assert not is_former(cluster)
    go_on(cluster, namespace)
    assert identities(cluster, namespace) == before
    slow = {"hyperparameters": {"epochs": 1000}}  # it sleeps longer than the rollback takes
    start("naps", merged(napping(), {"algorithm": slow}))
    asleep = until_cpus(cluster, namespace, "naps", [ASLEEP] * NAPPING, "all sleep before the rollback")
    with ThreadPoolExecutor(1) as beside:
        rollback = beside.submit(helm.rollback)
        until_asked_to_wake(cluster, namespace, {pod["metadata"]["uid"] for pod in asleep})
        rollback.result()
    assert is_former(cluster)
    cluster.delete(API_VERSION, KIND, namespace, "naps")
    go_on(cluster, namespace)
    helm.upgrade()
    go_on(cluster, namespace)
    assert identities(cluster, namespace).items() >= before.items()
    assert round_of(cluster.job(namespace, "paused")) == paused_at

    former = former_release.packages(*former_release.PACKAGES["learner"])
    reference = spec | {"stop": {"rounds": REFERENCE_ROUNDS}}
    with run_outcome.local(reference, tmp_path, PYTHONPATH=former) as run:
        cluster.kill(namespace, of_component("first", "learner"))  # as a lost node does: it starts again
        go_on(cluster, namespace)
        last = max(round_of(cluster.job(namespace, name)) for name in ("first", "second")) + 5
        for name in ("first", "second"):
            cluster.patch_job(namespace, name, {"stop": {"rounds": last}})
        for name in ("first", "second"):
            cluster.until_phase(namespace, name, "Succeeded")
        cluster.patch_job(namespace, "paused", {"suspend": False, "stop": {"rounds": paused_at + 3}})
        cluster.until_round(namespace, "paused", paused_at + 1)
        (learner,) = cluster.pods(namespace, "paused", "learner")
        assert {one["image"] for one in learner["spec"]["containers"]} == {present}
        cluster.until_phase(namespace, "paused", "Succeeded")
        local = run.outcome.rounds[:-1]
    first, second, paused = (
        run_outcome.on_cluster(cluster, namespace, name).rounds for name in ("first", "second", "paused")
    )
    for rounds in (first, second, paused):
        assert [int(row["round"]) for row in rounds] == list(range(1, len(rounds) + 1)), "each is there once"
    assert len(first) >= last
    assert first[: len(local)] == local
    common = min(len(first), len(second)) - 1  # a run's last round may have an evaluation
    assert first[:common] == second[:common], "the upgrade came in another round of each"
    assert len(paused) == paused_at + 3
    assert [shared(row, first[0]) for row in paused[:paused_at]] == first[:paused_at]


def shared(row: dict[str, str], former: dict[str, str]) -> dict[str, str]:
    """The columns that the former release has, too."""
    return {name: row[name] for name in former}
