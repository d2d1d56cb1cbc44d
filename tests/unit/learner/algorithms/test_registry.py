"""The learner's registry, and what it takes to add an algorithm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from learner_support import HOPPER, job
from nitro_api.algorithms.registry import RECORDS, listed, owners_of
from nitro_learner.algorithms import registry

ROOT = Path(__file__).parents[4]

RECORD = '''
from nitro_api.algorithms.record import AlgorithmRecord, Hyperparameters, presets
from nitro_api.base import Rule, resolved


class ToyHyperparameters(Hyperparameters):
    gamma: float = resolved(ge=0, le=1)
    """Discount per step. Default: the preset's."""

    exploration: float = resolved(ge=0, le=1)
    """Share of random actions. Default: the preset's."""


RECORD = AlgorithmRecord(
    name="toy",
    summary="plays with blocks",
    hyperparameters=ToyHyperparameters,
    feeding="rounds",
    presets=presets(
        [("gamma", 0.5, 0.6), ("exploration", 0.1, 0.2), ("scaling.maxActors", 3, 5)],
        atari=[("exploration", 0.3, 0.4)],
    ),
    curvature="td-loss",
    rules=(
        Rule(
            path="hyperparameters.exploration",
            cel="!has(self.hyperparameters) || !has(self.hyperparameters.exploration) "
            "|| self.hyperparameters.exploration < 1.0",
            sentence="must be below 1; lower it",
        ),
    ),
)
'''
LEARNING = """
from nitro_learner.algorithms.base import SINGLE_AGENT

class Toy:
    policies, agents = ("default",), SINGLE_AGENT

    def __init__(self, team, device="cpu"):
        self.settings = team.settings

    def weights(self): ...
    def begin_round(self, round, rounds): ...
    def state_dict(self): ...
    def load_state_dict(self, state): ...
    def adopt(self, state): ...
    def copy_slots(self, sources): ...
    def update(self, fragments, round): ...
"""
SCRIPT = """
import asyncio, json
import nitro_api, nitro_learner
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobInvalid, load_job, resolve, warnings
from nitro_api.schema import crd
from nitro_api.schema.explain import explain
from nitro_learner.algorithms import registry
from nitro_learner.training import rounds

def job(environment="Hopper-v5", scaling={}, **algorithm):
    spec = {"environment": {"id": environment}, "algorithm": algorithm, "scaling": scaling}
    metadata = {"name": "job"}
    return load_job(
        {"apiVersion": "nitro.dev/v1alpha1", "kind": "NitroTrainingJob", "metadata": metadata, "spec": spec}
    )

def refusal(**algorithm):
    try:
        return str(job(**algorithm))
    except JobInvalid as invalid:
        return str(invalid)

spec = resolve(job(name="toy")).spec
spaces = {"observation": {"shape": [3]}, "action": {"kind": "discrete", "n": 2}}
policies = registry.make_policies(spec, DescribedEnvironment.from_json(spaces))
schema = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
algorithms = schema["properties"]["spec"]["properties"]["algorithm"]
print(json.dumps({
    "from": [nitro_api.__file__, nitro_learner.__file__],
    "resolved": spec.algorithm.to_dict(),
    "maxActors": spec.scaling.max_actors,
    "atari": resolve(job("ALE/Pong-v5", name="toy")).spec.algorithm.to_dict()["hyperparameters"],
    "foreign": refusal(name="toy", hyperparameters={"clip": 0.1}),
    "theirs": refusal(name="ppo", hyperparameters={"exploration": 0.1}),
    "shared": refusal(name="toy", hyperparameters={"gamma": 2}),
    "own rule": refusal(name="toy", hyperparameters={"exploration": 1}),
    "artifact": refusal(name="toy", preset="artifact"),
    "warnings": warnings(job(name="toy", scaling={"scaler": "nitro", "surrogate": "ratio1"})),
    "explained": explain("exploration"),
    "gamma": explain("gamma"),
    "enumeration": algorithms["properties"]["name"]["enum"],
    "schema": algorithms["properties"]["hyperparameters"]["properties"]["exploration"],
    "rules": [
        rule
        for rule in algorithms["x-kubernetes-validations"]
        if rule["fieldPath"] == ".hyperparameters.exploration"
    ],
    "class": type(policies.learners[0]).__name__,
    "feed": type(rounds.make(policies, None, None, None, None, asyncio.Event())).__name__,
}))
"""


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_an_algorithm_is_added_by_its_folder_its_record_and_a_line_in_either_registry(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "crds/nitro_api", tmp_path / "nitro_api")
    shutil.copytree(ROOT / "learner-image/nitro_learner", tmp_path / "nitro_learner")
    (tmp_path / "nitro_api/algorithms/toy.py").write_text(RECORD)
    records = tmp_path / "nitro_api/algorithms/registry.py"
    replace(records, ", rllib\nfrom", ", rllib, toy\nfrom")
    replace(records, "    *rllib.RECORDS,\n", "    toy.RECORD,\n    *rllib.RECORDS,\n")
    (tmp_path / "nitro_learner/algorithms/toy").mkdir()
    (tmp_path / "nitro_learner/algorithms/toy/__init__.py").write_text("")
    (tmp_path / "nitro_learner/algorithms/toy/learning.py").write_text(LEARNING)
    last = '    "impact": "impact.learning:Impact",\n'
    classes = tmp_path / "nitro_learner/algorithms/registry.py"
    replace(classes, last, last + '    "toy": "toy.learning:Toy",\n')
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)

    assert all(place.startswith(str(tmp_path)) for place in found["from"])
    assert found["resolved"] == {
        "name": "toy",
        "preset": "tuned",
        "hyperparameters": {"gamma": 0.6, "exploration": 0.2},
    }
    assert found["maxActors"] == 5
    assert found["atari"] == {"gamma": 0.6, "exploration": 0.4}
    hyper, clipping = "spec.algorithm.hyperparameters", owners_of("clip", RECORDS)
    assert found["foreign"] == (
        f"{hyper}.clip: 0.1; is a setting of {listed(clipping, 'and')}, not of toy; "
        f"remove it or set name: {listed(clipping, 'or')}"
    )
    assert found["theirs"] == (
        f"{hyper}.exploration: 0.1; is a setting of toy, not of ppo; remove it or set name: toy"
    )
    assert found["shared"].startswith(f"{hyper}.gamma: 2; must be a number from 0 to 1")
    assert found["own rule"] == f"{hyper}.exploration: 1; must be below 1; lower it"
    assert found["artifact"].endswith("as artifact is for impact; choose one or set name: impact")
    assert "spec.scaling.surrogate: has no effect with name: toy; remove it" in found["warnings"]
    assert "Algorithms: toy. Default: paper 0.1, tuned 0.2 (for Atari games" in found["explained"]
    assert "Rule: must be below 1; lower it." in found["explained"]
    assert f"Algorithms: {', '.join(owners_of('gamma', RECORDS))}, toy." in " ".join(found["gamma"].split())
    assert "toy paper 0.5, tuned 0.6" in " ".join(found["gamma"].split())
    ours = [name for name, record in RECORDS.items() if record.settings != "rllib"]
    assert found["enumeration"] == [*ours, "toy", *(name for name in RECORDS if name not in ours)]
    assert (found["schema"]["minimum"], found["schema"]["maximum"]) == (0, 1)
    own, below_one = found["rules"]
    said = own["messageExpression"]
    assert said == "'is a setting of toy, not of ' + self.name + '; remove it or set name: toy'"
    assert below_one["message"] == "must be below 1; lower it"
    assert (found["class"], found["feed"]) == ("Toy", "SyncRounds")


def test_every_algorithm_of_the_api_has_a_class() -> None:
    rllib = tomllib.loads((ROOT / "rllib" / "pyproject.toml").read_text())["project"]["entry-points"]
    theirs = rllib["nitro.algorithms"]
    assert {*registry.ALGORITHMS, *theirs} == set(RECORDS)
    for place in theirs.values():
        module, _, attribute = place.partition(":")
        source = ROOT / "rllib" / f"{module.replace('.', '/')}.py"
        assert f"\nclass {attribute}(" in source.read_text(encoding="utf-8")
    for place in registry.ALGORITHMS.values():
        module, _, attribute = place.partition(":")
        assert isinstance(getattr(import_module(f"nitro_learner.algorithms.{module}"), attribute), type)


def test_a_class_that_cannot_be_fed_as_its_record_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.ALGORITHMS, "ppo", "impact.learning:Impact")
    spec = job(algorithm__name="impact").spec
    spec.algorithm.name = "ppo"
    with pytest.raises(TypeError, match="Impact cannot be fed by rounds"):
        registry.make_policies(spec, HOPPER)
