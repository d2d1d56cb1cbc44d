"""The description of the job's fields that `nitro explain` prints."""

from __future__ import annotations

import pytest

from nitro_api.schema.explain import UnknownField, explain
from nitro_api.schema.openapi import fields


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


def test_explain_cuts_no_text_and_wraps_to_the_width() -> None:
    whole = explain("spec.scaling.agent") + explain()
    first = "File of the scaling agent that `nitro pretrain-scaler` made, absolute or relative to where the"
    assert first in whole
    assert "..." not in whole.replace("1, 2, ...", "")
    for width in (60, 80, 120):
        for path in (None, "spec.scaling", "spec.scaling.agent"):
            text = explain(path, width)
            assert max(map(len, text.splitlines())) <= width
            assert sorted(text.split()) == sorted(explain(path).split())


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
