"""The CustomResourceDefinition, rendered from the models: `python -m nitro_api.schema.crd >
crds/nitrotrainingjobs.yaml`."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any, cast

import yaml

from nitro_api.rules.update_rules import (
    IMMUTABLE_SENTENCE,
    MENDABLE,
    MENDABLE_SENTENCE,
    changeable,
    immutable_fields,
    mendable_fields,
)
from nitro_api.schema.openapi import Schema, job_schema, schema_at
from nitro_api.spec.free_json import PRESERVE
from nitro_api.spec.job import GROUP, KIND, PLURAL, VERSION

_HEADER = "# Generated from the models in crds/nitro_api by `make generate`; change those, not this file.\n"
_COLUMNS: tuple[tuple[str, str, str, str, int], ...] = (
    # name, type, path, description, priority (1 = only with -o wide)
    ("Phase", "string", ".status.phase", "State of the job.", 0),
    ("Round", "integer", ".status.training.round", "Last finished round.", 0),
    ("Progress", "number", ".status.progress.percent", "Percent of the stop condition that ends it.", 0),
    ("ETA", "integer", ".status.progress.etaSeconds", "Seconds until it ends.", 0),
    ("Reward", "number", ".status.training.rewardMean", "Mean return of the last 20 training episodes.", 0),
    (
        "Score",
        "number",
        ".status.training.boostingScore",
        "How much the round calls for more actors.",
        0,
    ),
    ("Actors", "integer", ".status.actors.ready", "Actors that are ready.", 0),
    ("Cost", "number", ".status.cost.total", "Cost so far, in US dollars.", 0),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the job was created.", 0),
    ("Scaler", "string", ".status.scaler", "Who decides the number of actors.", 1),
    ("Backend", "string", ".spec.backend.type", "Where the actors run.", 1),
    # The API server shows the first of the two that is there; no job has both.
    ("Env", "string", ".spec.environment['id','entryPoint']", "Environment, by its id or entry point.", 1),
    ("Steps", "integer", ".status.training.envSteps", "Environment steps so far.", 1),
    (
        "Idle%",
        "integer",
        ".status.actors.idlePercent",
        "Share of the actors' paid time in which they did not work.",
        1,
    ),
)


def render() -> str:
    """The CRD as YAML text."""
    text = yaml.dump(definition(), Dumper=_CrdDumper, sort_keys=False, allow_unicode=True, width=110)
    return _HEADER + text


UNWRITTEN = ("scaling.hold", "scaling.sleep", "actor.perPod", "learner.device")
"""Fields whose default the API server does not write into jobs, so that a new CRD changes no stored job."""


def definition() -> dict[str, Any]:
    """The CRD as an object."""
    columns = []
    for name, kind, path, description, priority in _COLUMNS:
        column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": description}
        columns.append({**column, "priority": priority} if priority else column)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["ntj"],
                "categories": ["all"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _root()},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


def _root() -> Schema:
    root: Schema = copy.deepcopy(job_schema())
    properties = root["properties"]
    # Kubernetes checks these itself; of metadata a CRD may describe no more than the name.
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object", "properties": {"name": {"type": "string"}}}
    for path in UNWRITTEN:
        parent, _, name = path.partition(".")
        section = properties["spec"]["properties"][parent]
        del section["properties"][name]["default"], section["default"][name]
    properties["spec"]["x-kubernetes-validations"] = [
        *properties["spec"].get("x-kubernetes-validations", []),
        *(_immutable(name) for name in immutable_fields()),
        *(_mendable(name) for name in mendable_fields()),
    ]
    root["required"] = ["spec"]
    _drop_spare_messages(root)
    return root


def _drop_spare_messages(node: Any) -> None:
    """Drop the message of every rule that has a messageExpression too: the API server takes the expression.

    `kubectl apply` and others keep the whole CRD in an annotation, and an object's annotations have at most
    256 KiB.
    """
    if isinstance(node, dict):
        if "messageExpression" in node:
            node.pop("message", None)
        node = list(node.values())
    if isinstance(node, list):
        for below in node:
            _drop_spare_messages(below)


def _immutable(name: str) -> dict[str, str]:
    changing = changeable(name)
    if changing:
        fields = job_schema()["properties"]["spec"]["properties"][name]["properties"]
        same = _all_same(name, [field for field in fields if field not in changing])
    else:
        same = _same(name)
    return {"rule": same, "message": IMMUTABLE_SENTENCE, "fieldPath": f".{name}"}


def _mendable(name: str) -> dict[str, str]:
    fields = changeable(name, MENDABLE)
    same = _all_same(name, fields) if fields else _same(name)
    return {"rule": f"oldSelf.suspend || ({same})", "message": MENDABLE_SENTENCE, "fieldPath": f".{name}"}


def _all_same(name: str, fields: list[str]) -> str:
    return " && ".join(_same(f"{name}.{field}") for field in fields)


def _same(path: str) -> str:
    """The rule that a field has not changed. Its parent needs a default, so that the parent always exists."""
    *parents, name = path.split(".")
    holder = cast("Schema", schema_at(("spec", *parents)))
    if path in UNWRITTEN:
        default = json.dumps(holder["properties"][name]["default"])
        new, old = (f"(has({spec}.{path}) ? {spec}.{path} : {default})" for spec in ("self", "oldSelf"))
        return f"{new} == {old}"
    if "default" in holder["properties"][name] or name in holder.get("required", ()):
        return f"self.{path} == oldSelf.{path}"  # the API server has it in every job
    new, old = (".".join((spec, *parents)) for spec in ("self", "oldSelf"))
    if PRESERVE in holder["properties"][name].get("additionalProperties", {}):
        new, old = f"dyn({new})", f"dyn({old})"  # CEL has no type for arbitrary JSON
    new, old = f"{new}.{name}", f"{old}.{name}"
    # Lists of one or none are shorter than two conditions, and the CRD has to fit into an annotation.
    return f"(has({new}) ? [{new}] : []) == (has({old}) ? [{old}] : [])"


class _CrdDumper(yaml.SafeDumper):
    """Dumper of the CRD. It writes no anchors, because some tools do not read them. Lists are indented below
    their key. The many levels of a field that takes any JSON are written in few lines."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        return super().represent_mapping(tag, mapping, flow_style or PRESERVE in mapping)


if __name__ == "__main__":
    sys.stdout.write(render())
