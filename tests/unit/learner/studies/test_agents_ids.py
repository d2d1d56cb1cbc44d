"""What `nitro validate` says of environments of several agents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from nitro_api import load_job
from nitro_learner.cli import main
from nitro_learner.studies.environment_ids import doubts, mistakes


def job(id: str, **algorithm: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "spread"},
        "spec": {"environment": {"id": id}, "algorithm": {"name": "ippo", **algorithm}},
    }


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package `fields` with two environments."""
    (tmp_path / "fields").mkdir()
    for name in ("__init__", "harvest_v0", "drought_v1"):
        (tmp_path / "fields" / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("id", ["mpe2/simple_spread_v3", "mpe2/simple_tag_v3", "fields/harvest_v0"])
@pytest.mark.usefixtures("packages")
def test_a_known_environment_is_accepted_without_a_word(id: str) -> None:
    spec = load_job(job(id)).spec
    assert (mistakes(spec), doubts(spec)) == ([], [])


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("mpe2/simple_spred_v3", "must be a module of mpe2; did you mean mpe2/simple_spread_v3?"),
        ("fields/harvest_v1", "must be a module of fields; did you mean fields/harvest_v0?"),
        ("smax/5m", "must be smax/3s5z or smax/8m; correct it"),
        ("fields/chess_v6", "must be a module of fields, which has no chess_v6; correct it"),
    ],
)
@pytest.mark.usefixtures("packages")
def test_a_module_that_does_not_exist_is_a_mistake(id: str, message: str) -> None:
    (error,) = mistakes(load_job(job(id)).spec)
    assert (error.path, error.value, error.message) == ("spec.environment.id", id, message)


@pytest.mark.parametrize("id", ["not_here/harvest_v0", "smax/8m"])
def test_a_package_that_is_not_here_is_doubtful(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    spec = load_job(job(id)).spec
    assert mistakes(spec) == []
    assert doubts(spec) == [
        f"spec.environment.id: the package of {id} is not installed here, so the actors' image must have it"
    ]


def validated(path: Path, source: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    path.write_text(json.dumps(source))
    main(["validate", "--json", str(path)])
    errors: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["errors"]
    return errors


def test_validate_finds_patterns_that_match_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"agents": "wolf_*", "name": "mappo"}
    (error,) = validated(tmp_path / "job.yaml", job("mpe2/simple_tag_v3", policies=[entry]), capsys)
    assert error["path"] == "spec.algorithm.policies[0].agents"
    assert error["message"] == (
        "must name an agent of the environment, which has adversary_0, adversary_1, adversary_2, agent_0; "
        "correct it"
    )
    entry["agents"] = "adversary_*"
    assert validated(tmp_path / "job.yaml", job("mpe2/simple_tag_v3", policies=[entry]), capsys) == []
