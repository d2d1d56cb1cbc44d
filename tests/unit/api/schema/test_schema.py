"""The generated CRD and the schema of the fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from nitro_api.schema import crd
from nitro_api.schema.openapi import INT_OR_STRING, fields, schema_at
from nitro_api.spec.free_json import PRESERVE

ROOT = Path(__file__).parents[4]


def nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


SCHEMA = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


SPEC = list(nodes(SCHEMA["properties"]["spec"], "spec"))


STATUS = list(nodes(SCHEMA["properties"]["status"], "status"))


def test_the_committed_crd_is_current() -> None:
    committed = (ROOT / "crds" / "nitrotrainingjobs.yaml").read_text()
    assert committed == crd.render(), "run `make generate`"
    assert yaml.safe_load(committed) == crd.definition()


def test_the_crd_fits_into_an_annotation() -> None:
    """`kubectl apply` and Argo CD keep it in one, as JSON in which Go writes < as \\u003c. All annotations of
    an object have at most 256 KiB together."""
    text = json.dumps(crd.definition(), separators=(",", ":"), ensure_ascii=False)
    stored = re.sub("[<>&]", r"\\u003c", text).encode()
    others = 4 * 2**10
    assert len(stored) < 256 * 2**10 - others


def test_a_rule_has_one_message() -> None:
    for path, node in SPEC:
        for rule in node.get("x-kubernetes-validations", ()):
            assert ("message" in rule) != ("messageExpression" in rule), path


def test_the_schema_is_structural() -> None:
    for path, node in SPEC + STATUS:
        assert not {"$ref", "anyOf", "oneOf", "allOf", "not", "title", "const"} & node.keys(), path
        assert ("type" in node) != (INT_OR_STRING in node or PRESERVE in node), path


def test_everything_that_a_rule_reads_is_limited() -> None:
    for path, node in SPEC:
        kind = node.get("type")
        if kind == "string" and "enum" not in node:
            assert "maxLength" in node, path
        if kind == "array":
            assert "maxItems" in node, path
        if kind == "object" and "properties" not in node and path != "spec.backend.knative":
            assert "maxProperties" in node, path
        if kind in ("integer", "number") and path != "spec.stop.targetReward":
            assert {"minimum", "maximum"} <= node.keys(), path


def required(path: str) -> bool:
    """Whether the object that the field is in cannot be without it."""
    *parents, name = path.split(".")
    # An item of a list is written `list[]`; all of them have one schema.
    place = [part for one in parents for part in ((one[:-2], 0) if one.endswith("[]") else (one,))]
    return name in (schema_at(tuple(place)) or {}).get("required", [])


def test_every_field_is_described_with_its_default() -> None:
    for path, node in fields():
        assert node.get("description", "").endswith("."), path
        assert "\n" not in node["description"], path
        leaf = path.startswith("spec.") and "properties" not in node.get("items", node)
        if leaf and not required(path) and path != "spec.backend.knative":
            assert "Default: " in node["description"], path
