"""The description of the job's fields that `nitro explain` prints."""

from __future__ import annotations

import pytest

from nitro_api import JobInvalid, load_job
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


def test_explain_shows_a_scaler_of_ones_own() -> None:
    text = explain("scaling.entryPoint")
    assert "a subclass of nitro_learner.scalers.Scaler" in text
    assert "Rule: must be module:Class; write it as my_package.scalers:Plateau." in text
    assert "Keyword arguments of the class that entryPoint names" in explain("scaling.settings")


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
        ("spec.actor.env.nam", r"spec\.actor\.env\[\]\.name"),
        ("spec.lerner.image", "spec.learner.image"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(typo: str, meant: str) -> None:
    with pytest.raises(UnknownField, match=rf"did you mean {meant}\?"):
        explain(typo)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("spec.environment.maxActors", "spec.scaling.maxActors"),
        ("spec.rounds", "spec.stop.rounds"),
        ("spec.algorithm.learningRate", "spec.algorithm.hyperparameters.learningRate"),
    ],
)
def test_a_field_in_the_wrong_object_is_found_as_nitro_validate_finds_it(path: str, meant: str) -> None:
    with pytest.raises(UnknownField, match=f"did you mean {meant}"):
        explain(path)
    with pytest.raises(JobInvalid, match=f"did you mean {meant}"):
        load_job(
            "apiVersion: nitro.dev/v1alpha1\nkind: NitroTrainingJob\nmetadata: {name: one}\n"
            "spec: {environment: {id: Hopper-v5}}\n",
            [f"{path}=3"],
        )


@pytest.mark.parametrize("path", ["spec.environment.zzz", "spec.environment.image"])
def test_no_far_field_is_suggested(path: str) -> None:
    with pytest.raises(UnknownField) as caught:
        explain(path)
    assert str(caught.value) == f"{path} is not a field; see `nitro explain spec.environment`"


@pytest.mark.parametrize("path", [".", " ", "..", ""])
def test_a_path_without_a_name_is_the_root(path: str) -> None:
    assert explain(path) == explain()


def test_an_unclear_name_is_answered_with_all_it_may_be() -> None:
    with pytest.raises(UnknownField, match=r"may be spec.backend.lambda.image, spec.actor.image"):
        explain("image")
