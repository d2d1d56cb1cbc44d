"""The generated CRD and the documentation of the fields."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_api import crd
from nitro_api.explain import UnknownField, explain
from nitro_api.quantities import amount_of, at_most, seconds_of
from nitro_api.schema import INT_OR_STRING, fields, schema_at

ROOT = Path(__file__).parents[3]


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


def test_the_schema_is_structural() -> None:
    for path, node in SPEC + STATUS:
        assert not {"$ref", "anyOf", "oneOf", "allOf", "not", "title", "const"} & node.keys(), path
        assert ("type" in node) != (INT_OR_STRING in node), path


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


@pytest.mark.parametrize("path", [path for path, _ in fields()])
def test_every_field_can_be_explained(path: str) -> None:
    text = explain(path)
    assert text.startswith(f"{path}  (")


def test_explain_shows_default_limits_and_rules() -> None:
    text = explain("spec.scaling.minActors")
    assert "Default: paper 8, tuned " in text
    assert "Value: must be an integer from 1 to 4096." in text
    assert "Rule: must be at most maxActors; lower minActors or raise maxActors." in text
    assert explain("minActors") == text == explain("scaling.minActors")
    assert "Rule: cannot change after creation" in explain("spec.seed")
    assert "cannot change" not in explain("spec.stop")


def test_explain_without_a_path_lists_the_tree() -> None:
    lines = explain(None).splitlines()
    assert any(line.startswith("  scaling ") for line in lines)
    assert any(line.startswith("    decay ") for line in lines)
    assert max(map(len, lines)) <= 140


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("spec.scaling.decai", "spec.scaling.decay"),
        ("spec.scalin.decay", "spec.scaling.decay"),
        ("decai", "spec.scaling.decay"),
        ("spec.scaling.min_actors", "spec.scaling.minActors"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(typo: str, meant: str) -> None:
    with pytest.raises(UnknownField, match=f"did you mean {meant}"):
        explain(typo)


def test_an_unclear_name_is_answered_with_all_it_may_be() -> None:
    with pytest.raises(UnknownField, match=r"may be spec.backend.lambda.image, spec.actor.image"):
        explain("image")


def test_durations_and_quantities() -> None:
    assert [seconds_of(text) for text in ("45s", "90m", "2h30m", "1h1m1s")] == [45, 5400, 9000, 3661]
    amounts = [amount_of(text) for text in ("1Gi", "500m", "1.5", "2e3", 7, "100n")]
    assert amounts == pytest.approx([2**30, 0.5, 1.5, 2000, 7, 1e-7])
    assert at_most("1100m", "1.1")
    assert at_most("1.1", "1100m")
    assert not at_most("1025Mi", "1Gi")
    for wrong in ("", "1d", "h", "5", "2h 30m"):
        with pytest.raises(ValueError, match="is not a duration"):
            seconds_of(wrong)
    with pytest.raises(ValueError, match="is not a quantity"):
        amount_of("1 GB")
