"""Code blocks of the documentation: commands and Python run, jobs and experiments are valid."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents_jobs import job as agents_job
from docs_blocks import NOT_RUN, Block, blocks, prepare, reason, small
from docs_support import PAGES, ROOT
from nitro_api import JobInvalid, load_job
from nitro_experiments.planning import spec as experiments
from nitro_experiments.search import trials
from nitro_learner import cli
from untrained_runs import untrained

RUNS = ("runs/hopper-20260101-120000", "runs/fixed-1", "runs/cartpole")
"""Runs that some pages name without a command that makes them."""
OTHERS = {"scrape_configs": "Prometheus' own settings", "networkPolicy": "values of the chart"}
"""YAML that is neither a job nor an experiment, by its first field -> what it is."""


def run_here(block: Block) -> list[list[str]]:
    """The commands of `nitro` in a block that are run."""
    return [words for words in block.lines if words[0] == "nitro" and reason(words) is None]


def runs(block: Block) -> bool:
    return block.language == "python" or bool(run_here(block))


def data_of(block: Block) -> dict[str, Any] | None:
    """The mapping of a block of YAML; None if it is none."""
    try:
        data = yaml.safe_load(block.text)
    except yaml.YAMLError:
        return None
    nested = isinstance(data, dict) and isinstance(next(iter(data.values())), dict | list)
    return data if isinstance(data, dict) and (nested or block.language == "yaml") else None


def check(block: Block) -> None:
    """Raise if a block of YAML is no valid job, part of a job, or experiment."""
    data = data_of(block) or {}
    if data.get("kind") == "NitroTrainingJob":
        load_job(block.text)
    elif "variants" in data or "search" in data:
        file = Path("experiments") / "of-a-page.yaml"
        file.write_text(yaml.safe_dump({"name": "page", "job": "../examples/cartpole.yaml", **data}))
        experiment = experiments.load(file)
        if experiment.search:
            trials.check(experiment)
    elif "spec" in data or "algorithm" in data:
        spec = data.get("spec", data)
        several = spec.get("algorithm", {}).get("name") in ("ippo", "mappo", "iql", "vdn", "qmix")
        environment = {"id": "mpe2/simple_adversary_v3" if several else "Hopper-v5"}
        load_job(job({**spec, "environment": environment | spec.get("environment", {})}))
    else:
        assert next(iter(data)) in OTHERS


def job(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "page"},
        "spec": spec,
    }


WITH_CODE = [path for path in PAGES if any(map(runs, blocks(path)))]
YAML = [
    pytest.param(block, id=f"{path.relative_to(ROOT)}-{number}")
    for path in PAGES
    for number, block in enumerate(blocks(path))
    if data_of(block) is not None
]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the commands find in the top folder of a clone."""
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job({"environment": {"id": "CartPole-v1"}})))
    assert cli.main(small(["nitro", "train", str(file), "--run-dir", str(folder / "run")])) == 0
    return folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_of_a_page_runs(path: Path, clone: Path, trained: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in RUNS:
        if not re.search(rf"(?:--run-dir |run_dir=\"){name}\b", text):
            shutil.copytree(trained, clone / name)
    if "runs/spread" in text:
        untrained(agents_job(), clone / "runs" / "spread")
    if "runs/memory" in text:
        pendulum = {"environment": {"id": "Pendulum-v1"}, "network": {"recurrent": {}}}
        untrained(job(pendulum), clone / "runs" / "memory")
    if "runs/doors" in text:
        doors = {"environment": {"id": "doors", "entryPoint": "masked_environments:Doors"}}
        untrained(job(doors), clone / "runs" / "doors")
    names: dict[str, Any] = {}
    for block in blocks(path):
        if (data := data_of(block)) and data.get("kind") == "NitroTrainingJob":
            (clone / f"{data['metadata']['name']}.yaml").write_text(block.text)
        if block.module:
            (clone / block.module).write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text, str(path), "exec"), names)
        for words in run_here(block):
            assert cli.main(small(words)) == 0, words


@pytest.fixture
def empty_experiments(clone: Path) -> None:
    """A place for the experiments of pages."""
    (clone / "experiments").unlink()
    (clone / "experiments").mkdir()


@pytest.mark.parametrize("block", YAML)
@pytest.mark.usefixtures("empty_experiments")
def test_yaml_of_a_page_is_valid(block: Block) -> None:
    check(block)


def test_every_command_runs_or_has_a_reason() -> None:
    reasons = [(words, reason(words)) for path in PAGES for block in blocks(path) for words in block.lines]
    assert [words for words, why in reasons if why is None and words[0] != "nitro"] == [], "see NOT_RUN"
    assert set(NOT_RUN) == {why for _, why in reasons} - {None}, "a reason that no command has any more"
    assert {words[1] for words, why in reasons if why is None} >= {
        "evaluate",
        "explain",
        "export",
        "plot",
        "report",
        "train",
        "validate",
    }
    assert len(YAML) >= 7
    assert {path.name for path in WITH_CODE} >= {"README.md", "python.md", "serving.md", "tutorial.md"}


@pytest.mark.parametrize(
    "text",
    [
        "spec:\n  environment: {idd: Hopper-v5}\n",
        "algorithm:\n  name: ippo\n  policies:\n    - {agents: 'adversary_*', name: ppo}\n",
        "kind: NitroTrainingJob\nspec: {environment: {id: Hopper-v5}}\n",
        "search: {space: {spec.algorithm.hyperparameters.epochs: {low: 0, high: 4}}}\n"
        "seeds: [0]\nbudget: {rounds: 1}\n",
    ],
)
@pytest.mark.usefixtures("empty_experiments")
def test_a_wrong_job_is_found(text: str) -> None:
    with pytest.raises(JobInvalid):
        check(Block("yaml", text))
