"""The chart's objects on a real API server: all are accepted, and the operator's rights are what it needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from apiserver import ApiServer
from chart_support import VALUES, Document, Helm, find_helm
from nitro_operator.kube import kinds

OPERATOR = "system:serviceaccount:nitro-system:nitro-operator"
NAMESPACES = ("nitro-system", "team-a", "team-b")
FOREIGN = "monitoring.coreos.com"


@pytest.fixture(scope="session")
def helm() -> Helm:
    return find_helm()


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> Iterator[ApiServer]:
    """The API server with the chart's namespaces, which admit only restricted pods and warn of others."""
    for name in NAMESPACES:
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        apply(
            apiserver, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        )
    yield apiserver
    apiserver.kubectl("delete", "namespace", "--wait=false", *NAMESPACES)


def apply(server: ApiServer, *documents: Document, dry_run: bool = False) -> None:
    server.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--validate=strict",
        "--warnings-as-errors",
        f"--dry-run={'server' if dry_run else 'none'}",
        "--filename=-",
        input=yaml.safe_dump_all(documents),
    )


@pytest.mark.parametrize("values", [None, *VALUES], ids=lambda file: file.stem if file else "defaults")
def test_the_api_server_accepts_every_object_without_a_warning(
    server: ApiServer, helm: Helm, values: Path | None
) -> None:
    documents = helm.render(*([values] if values else []))
    known = [document for document in documents if not document["apiVersion"].startswith(FOREIGN)]
    if values is None:
        assert known == documents
    pods = [document for document in known if document["kind"] == "Pod"]
    if values and "hand-made" in values.stem:  # the account must be there before a pod names it
        meta = {"name": "nitro", "namespace": "nitro-system"}
        apply(server, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    for pod in pods:
        name = pod["spec"]["serviceAccountName"]
        account = next(
            d for d in documents if d["kind"] == "ServiceAccount" and d["metadata"]["name"] == name
        )
        apply(server, account)  # a dry run stores nothing, and admission looks it up
    apply(server, *known, dry_run=True)


@pytest.fixture(scope="module")
def rights(server: ApiServer, helm: Helm) -> ApiServer:
    """The server with the default chart's accounts and roles."""
    kinds_ = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    apply(server, *(document for document in helm.render() if document["kind"] in kinds_))
    return server


def resource_name(kind: kinds.Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


@pytest.mark.parametrize(
    "kind", [kinds.TRAINING_JOB, *kinds.WATCHED_CHILDREN], ids=lambda kind: resource_name(kind)
)
def test_the_operators_role_allows_all_its_watches(rights: ApiServer, kind: kinds.Kind) -> None:
    for verb in ("list", "watch"):
        assert review(rights, verb, kind), f"{verb} {resource_name(kind)}"


def review(
    server: ApiServer, verb: str, kind: kinds.Kind, subresource: str = "", namespace: str = "team-a"
) -> bool:
    """Whether the operator may do `verb`, as the API server's own authoriser says."""
    attributes = {
        "group": kind.group,
        "resource": kind.plural,
        "subresource": subresource,
        "verb": verb,
        "namespace": namespace,
    }
    body = {"spec": {"user": OPERATOR, "resourceAttributes": attributes}}
    answer = server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    allowed: bool = answer["status"]["allowed"]
    return allowed


@pytest.mark.parametrize(
    ("verb", "kind", "subresource"),
    [
        ("list", kinds.SECRET, ""),
        ("watch", kinds.SECRET, ""),
        ("create", kinds.POD, ""),
        ("create", kinds.POD, "exec"),
        ("create", kinds.POD, "eviction"),
        ("deletecollection", kinds.POD, ""),
        ("create", kinds.TRAINING_JOB, ""),
        ("create", kinds.SERVICE_ACCOUNT, "token"),
        ("update", kinds.ROLE, ""),
        ("escalate", kinds.ROLE, ""),
        ("bind", kinds.ROLE, ""),
        ("patch", kinds.DEFINITION, ""),
        ("list", kinds.DEFINITION, ""),
        ("watch", kinds.NAMESPACE, ""),
    ],
    ids=str,
)
def test_the_operators_role_allows_nothing_else(
    rights: ApiServer, verb: str, kind: kinds.Kind, subresource: str
) -> None:
    assert not review(rights, verb, kind, subresource)


def test_the_operator_can_grant_exactly_the_rights_of_a_learner(rights: ApiServer) -> None:
    def role(*verbs: str, resource: str = "nitrotrainingjobs") -> str:
        rule = {
            "apiGroups": ["nitro.dev"],
            "resources": [resource],
            "resourceNames": ["hopper"],
            "verbs": verbs,
        }
        return json.dumps(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "hopper-learner", "namespace": "team-a"},
                "rules": [rule | {"verbs": list(verbs)}],
            }
        )

    create = ("create", "--dry-run=server", "-f", "-", f"--as={OPERATOR}")
    rights.kubectl(*create, input=role("get", "watch"))
    rights.kubectl(*create, input=role("patch", resource="nitrotrainingjobs/status"))
    refused = rights.kubectl(*create, input=role("update"), check=False)
    assert "attempting to grant RBAC permissions not currently held" in refused
