"""The operator's rights, as the chart grants them, against the requests that its code makes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import nitro_operator
from chart_support import CHART, Document, Helm, find_helm
from nitro_operator.kube import kinds
from nitro_operator.kube.kinds import (
    DEPLOYMENT,
    EVENT,
    KNATIVE_SERVICE,
    LEARNER_JOB,
    LEASE,
    POD,
    REPLICA_SET,
    REVISION,
    SECRET,
    TRAINING_JOB,
    WATCHED_CHILDREN,
    Kind,
)

Right = tuple[str, str, str]
"""API group, resource (with its subresource) and verb."""

PACKAGE = Path(nitro_operator.__file__).parent
VERBS = {
    "get": "get",
    "list": "list",
    "watch": "watch",
    "create": "create",
    "apply": "patch",  # nothing is applied before it was created
    "merge": "patch",
    "delete": "delete",
}
"""Methods of kube/client.py."""
BUILT = tuple(kind for kind in WATCHED_CHILDREN if kind not in (POD, REVISION))
ANY_KIND: dict[tuple[str, str], tuple[Kind, ...]] = {
    ("controller", "_list_in"): (TRAINING_JOB, *WATCHED_CHILDREN),
    ("kube.watch", "_follow"): (TRAINING_JOB, *WATCHED_CHILDREN),
    ("kube.lease", "_write"): (LEASE,),
    ("kube.secrets", "get_or_create"): (SECRET,),
    ("status.events", "run"): (EVENT,),
    ("sleeping.owners", "_read"): (REPLICA_SET, DEPLOYMENT),
    ("reconcile.apply", "_apply"): BUILT,
    ("reconcile.apply", "_existing"): BUILT,
    ("reconcile.apply", "_disown"): BUILT,
    ("reconcile.publish", "_write"): (TRAINING_JOB,),
    ("reconcile.start", "_remove_orphans"): (LEARNER_JOB, KNATIVE_SERVICE, REVISION, POD),
    ("reconcile.start", "_renew"): (KNATIVE_SERVICE,),
    ("reconcile.job", "_scale"): (REVISION,),
}
"""Module and function of each request whose kind is a variable, and the kinds that it may be."""
SUBRESOURCES: dict[tuple[str, str], tuple[str, ...]] = {("sleeping.resizer", "_patch"): ("", "/resize")}


class Requests(ast.NodeVisitor):
    """The rights that the requests of one module need."""

    def __init__(self, module: str) -> None:
        self._place = (module, "")
        self.rights: set[Right] = set()
        self.variable: set[tuple[str, str]] = set()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._place = (self._place[0], node.name)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        call = node.func
        if not (
            isinstance(call, ast.Attribute) and ast.unparse(call.value).rpartition(".")[2].endswith("kube")
        ):
            return
        if call.attr not in VERBS:
            return
        first = node.args[0]
        named = getattr(kinds, first.id, None) if isinstance(first, ast.Name) else None
        if not isinstance(named, Kind):
            self.variable.add(self._place)
        for kind, part in product(
            [named] if isinstance(named, Kind) else ANY_KIND.get(self._place, ()), self._parts(node)
        ):
            self.rights.add((kind.group, kind.plural + part, VERBS[call.attr]))

    def _parts(self, node: ast.Call) -> tuple[str, ...]:
        texts = [*node.args[3:], *(word.value for word in node.keywords if word.arg == "subresource")]
        named = [
            f"/{one.value}" for one in texts if isinstance(one, ast.Constant) and isinstance(one.value, str)
        ]
        return tuple(named) or SUBRESOURCES.get(self._place, ("",))


def requests() -> Iterator[Requests]:
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found = Requests(module)
        found.visit(ast.parse(path.read_text(encoding="utf-8")))
        yield found


def granted(documents: list[Document]) -> set[Right]:
    """The rights in the operator's own roles."""
    roles = [
        document
        for document in documents
        if document["kind"] in ("Role", "ClusterRole")
        and document["metadata"]["name"] in ("nitro-operator", "nitro-lease")
    ]
    return {
        right
        for role in roles
        for rule in role["rules"]
        for right in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


@pytest.fixture(scope="module")
def render() -> Callable[..., list[Document]]:
    helm: Helm = find_helm()
    return helm.render


def test_the_table_has_exactly_the_requests_whose_kind_is_a_variable() -> None:
    assert set().union(*(found.variable for found in requests())) == set(ANY_KIND)


def test_each_right_is_used_and_each_request_allowed(render: Callable[..., list[Document]]) -> None:
    used = set().union(*(found.rights for found in requests()))
    assert granted(render(CHART / "ci" / "namespaced-values.yaml")) == used
    everywhere = {right for right in used if right[1] != "namespaces"}
    assert granted(render()) == everywhere, "who sees the whole cluster need not look for a namespace"


def test_of_all_definitions_only_knatives_can_be_read(render: Callable[..., list[Document]]) -> None:
    rules: list[dict[str, Any]] = [
        rule
        for document in render()
        if document["kind"] == "ClusterRole"
        for rule in document["rules"]
        if "customresourcedefinitions" in rule["resources"]
    ]
    assert [rule["resourceNames"] for rule in rules] == [["services.serving.knative.dev"]]
