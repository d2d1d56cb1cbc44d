"""A CRD that somebody applied by hand becomes the release's by the documented commands."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver import ApiServer
from chart_support import CHART, Helm, find_helm
from cluster_support import Cluster
from operator_support import job

ROOT = Path(__file__).parents[2]
CRD = "nitrotrainingjobs.nitro.dev"
ADOPT = ("kubectl label --overwrite crd", "kubectl annotate --overwrite crd")


@pytest.fixture(scope="module")
def helm() -> Helm:
    return find_helm()


@pytest.fixture
def release(apiserver: ApiServer, helm: Helm) -> Iterator[tuple[str, ...]]:
    """Helm's arguments for a release of its own; afterwards it is gone and nobody owns the CRD."""
    name = f"adopt-{uuid.uuid4().hex[:8]}"
    yield (name, "--namespace", name, "--kubeconfig", str(apiserver.kubeconfig))
    helm.run(
        "uninstall",
        name,
        "--namespace",
        name,
        "--kubeconfig",
        str(apiserver.kubeconfig),
        "--ignore-not-found",
    )
    apiserver.kubectl("label", "crd", CRD, "app.kubernetes.io/managed-by-")
    apiserver.kubectl("annotate", "crd", CRD, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")


def documented(text: str, release: str) -> list[list[str]]:
    """The commands of a text, for a release of this name in a namespace of the same name."""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith(ADOPT)]
    own = [
        line.replace("=nitro-system", f"={release}").replace("name=nitro ", f"name={release} ")
        for line in lines
    ]
    return [shlex.split(line)[1:] for line in own]


def install(helm: Helm, release: tuple[str, ...], *flags: str) -> str:
    return helm.run(
        "upgrade", "--install", release[0], str(CHART), *release[1:], "--create-namespace", *flags
    )


def test_the_documented_commands_let_a_release_adopt_a_crd_with_its_jobs(
    apiserver: ApiServer, namespace: str, helm: Helm, release: tuple[str, ...]
) -> None:
    cluster = Cluster(apiserver, namespace)
    cluster.apply(job("kept", suspend=True))
    with pytest.raises(AssertionError, match="invalid ownership metadata"):
        install(helm, release)
    commands = documented((CHART / "README.md").read_text(), release[0])
    assert len(commands) == len(ADOPT)
    for command in commands:
        apiserver.kubectl(*command)
    install(helm, release)
    meta = apiserver.get("crd", CRD)["metadata"]
    assert meta["annotations"]["meta.helm.sh/release-name"] == release[0]
    assert meta["annotations"]["helm.sh/resource-policy"] == "keep"
    assert cluster.get("ntj", "kept") is not None
    helm.run("uninstall", release[0], *release[1:])
    assert cluster.get("ntj", "kept") is not None, "the CRD outlives the release"


def test_the_notes_of_a_release_without_the_crd_say_how_it_adopts_it_later(
    apiserver: ApiServer, helm: Helm, release: tuple[str, ...]
) -> None:
    told = install(helm, release, "--set", "crds.install=false")
    commands = documented(told, release[0])
    assert len(commands) == len(ADOPT)
    for command in commands:
        apiserver.kubectl(*command)
    assert "managed-by=Helm" not in install(helm, release, "--set", "crds.install=true")
    assert apiserver.get("crd", CRD)["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_two_releases_are_installed_by_the_documented_commands(
    fresh_apiserver: ApiServer, helm: Helm
) -> None:
    page = (ROOT / "docs/operations.md").read_text().replace("\\\n", "")  # continued lines
    installs = re.findall(r"^    helm (install .*watchNamespaces.*)$", page, re.MULTILINE)
    for namespace in ("team-a", "team-b"):
        fresh_apiserver.kubectl("create", "namespace", namespace)
    server = ("--kubeconfig", str(fresh_apiserver.kubeconfig))
    for command in installs:
        helm.run(*shlex.split(command.replace("charts/nitro", str(CHART))), *server)
    assert len(json.loads(helm.run("list", "--all-namespaces", "--output", "json", *server))) == 2
    for namespace, operator in (("team-a", "nitro-operator"), ("team-b", "nitro-b-operator")):
        assert fresh_apiserver.get("role", operator, "-n", namespace)["rules"]


def test_take_ownership_does_the_same(apiserver: ApiServer, helm: Helm, release: tuple[str, ...]) -> None:
    if "--take-ownership" not in helm.run("install", "--help"):
        pytest.skip("this helm is older than 3.17 and does not know --take-ownership")
    install(helm, release, "--take-ownership")
    found = apiserver.get("crd", CRD)["metadata"]["annotations"]
    assert found["meta.helm.sh/release-namespace"] == release[0]
