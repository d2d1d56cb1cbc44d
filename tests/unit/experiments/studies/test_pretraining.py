"""The pretraining of a scaling agent: its rewards, its costs, and the job that it goes on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from learner_support import job
from nitro_api import Ledger, ResolvedJob
from nitro_api.costs.prices import RoundCost
from nitro_experiments.studies import pretraining
from nitro_experiments.studies.pretraining import pretrain, rewards
from nitro_learner.run.folders import held_beside
from nitro_learner.scalers.agent import AgentError
from nitro_learner.training.round_report import Outcome


def test_each_decision_is_rewarded_by_the_next_round() -> None:
    """The first round was nobody's decision; the end counts only short of the target."""
    assert rewards([9.0, 2.0, 3.0], best=400.0, target=1000.0, beta=0.5) == [-1.0, -1.5 - 600.0]
    assert rewards([9.0, 2.0, 3.0], best=1000.0, target=1000.0, beta=0.5) == [-1.0, -1.5]
    assert rewards([9.0], best=1.0, target=1000.0, beta=0.5) == []


class Untrained:
    """In place of a Trainer: the run ends before its first round."""

    environment = None

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def interrupt(self) -> None:
        pass

    async def run(self) -> Outcome:
        return Outcome("RoundsDone", "", True, 0, RoundCost(0.0, 0.0), 0.0)


def test_an_episodes_steps_are_those_that_it_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds of eight actors end with four rollouts of 64 steps; a kill left the last one without a row."""
    monkeypatch.setattr(pretraining, "Trainer", Untrained)
    path = tmp_path / "agent.safetensors"
    attempt = tmp_path / "agent.safetensors.episode-1" / "attempt-1"
    attempt.mkdir(parents=True)
    with Ledger(attempt / "ledger.jsonl") as ledger:
        for number in (1, 2, 3, 0):
            ledger.append(number, RoundCost(0.5, 0.25), actors=8 if number else 0, seconds=2.0)
    (attempt / "metrics.csv").write_text("round,env_steps\n1,256\n2,512\n")
    found = pretrain(pretrained(path, environment__rolloutLength=64), 1, beta=1.0).spent
    assert (found.rounds, found.env_steps) == (3, 512 + 8 * 64)
    assert (found.seconds, found.dollars) == (8.0, 3.0)


def pretrained(path: Path, **changes: Any) -> ResolvedJob:
    """A job whose agent is pre-trained into the file."""
    scaling = {"scaling__scaler": "minionsrl", "scaling__agent": path, "scaling__maxActors": 11}
    aims = {"stop__targetReward": 500, "stop__budgetDollars": 0.08, "backend__type": "Local"}
    return job(**{**scaling, **aims, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm__hyperparameters__clip": 0.3}, r"spec.algorithm.hyperparameters.clip \(0.2, now 0.3\);"),
        ({"environment__kwargs__forward": 2.5}, r"spec.environment.kwargs.forward \(None, now 2.5\)"),
        ({"environment__id": "Walker2d-v5"}, r"environment \('Hopper-v5', now 'Walker2d-v5'\);"),
        ({"scaling__maxActors": 12}, r"maxActors \(11, now 12\);"),
    ],
)
def test_pretraining_goes_on_with_the_agent_of_the_same_job_alone(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = tmp_path / "agent.safetensors"
    pretrain(pretrained(path), 0, beta=1.0).save(path)
    moved = path.rename(tmp_path / "moved.safetensors")
    assert pretrain(pretrained(moved, stop__rounds=7), 0, beta=1.0).episodes == 0
    with pytest.raises(AgentError, match=f"holds the agent of another task: .*{message}"):
        pretrain(pretrained(moved, **changes), 0, beta=1.0)


def test_pretraining_removes_only_its_own_attempts(tmp_path: Path) -> None:
    for name, left in (("mixed", ["mine"]), ("own", None)):
        path = tmp_path / name / "agent.safetensors"
        folder = path.with_name("agent.safetensors.episode-0")
        (folder / "attempt-1").mkdir(parents=True)
        (folder / "attempt-1" / "ledger.jsonl").touch()
        if left:
            (folder / "mine").touch()
        pretrain(pretrained(path), 0, beta=1.0)
        assert ([one.name for one in folder.iterdir()] if folder.exists() else None) == left


def test_an_agent_is_pretrained_by_one_process_at_a_time(tmp_path: Path) -> None:
    """Two would play the same episode, and each remove the other's attempt."""
    path = tmp_path / "agents" / "agent.safetensors"
    scaled = pretrained(path)
    with (
        held_beside(path, AssertionError()),
        pytest.raises(AgentError, match=r"agent\.safetensors is being pre-trained by another nitro process"),
    ):
        pretrain(scaled, 0, beta=1.0)
    assert pretrain(scaled, 0, beta=1.0).episodes == 0
    assert list(path.parent.iterdir()) == []
