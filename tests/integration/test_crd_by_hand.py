"""The CRD as somebody applies it without Helm, on an API server that has none yet."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from apiserver import CRD_FILE, ApiServer

ROOT = Path(__file__).parents[2]
CRD = "nitrotrainingjobs.nitro.dev"


def fields(server: ApiServer) -> set[str]:
    (version,) = server.get("crd", CRD)["spec"]["versions"]
    return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


@pytest.mark.parametrize("page", ["charts/nitro/README.md", "charts/nitro/templates/NOTES.txt"])
def test_the_documented_command_replaces_a_crd_that_lacks_a_field(
    page: str, fresh_apiserver: ApiServer
) -> None:
    name = f"crds/{CRD_FILE.name}"
    older = yaml.safe_load(CRD_FILE.read_text())
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["cache"]
    spec.pop("x-kubernetes-validations")  # some are about that field
    fresh_apiserver.kubectl("apply", "-f", "-", input=json.dumps(older))
    assert "cache" not in fields(fresh_apiserver)
    (command,) = re.findall(rf"^ +kubectl (apply .*{name})$", (ROOT / page).read_text(), re.MULTILINE)
    fresh_apiserver.kubectl(*shlex.split(command.replace(name, str(CRD_FILE))))
    assert "cache" in fields(fresh_apiserver)


def test_the_crd_can_be_applied_by_those_who_keep_it_in_an_annotation(fresh_apiserver: ApiServer) -> None:
    """Argo CD does, and so does `kubectl apply` without --server-side."""
    for _ in range(2):
        fresh_apiserver.kubectl("apply", "-f", str(CRD_FILE))
    kept = fresh_apiserver.get("crd", CRD)["metadata"]["annotations"][
        "kubectl.kubernetes.io/last-applied-configuration"
    ]
    assert len(kept.encode()) > 200_000
    assert "cache" in fields(fresh_apiserver)
