"""The paper's scalers in real runs: what they decide follows from the run's files, also after a kill."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest

from nitro_learner.scalers import RoundOutcome
from nitro_learner.scalers.agent import ScalingAgent, features
from nitro_learner.scalers.growth import rise
from train_support import nitro, rows_of, start, write_job

TARGET_AND_BUDGET = {"targetReward": 1e6, "budgetDollars": 100.0}


def test_kungfu_follows_the_recorded_noise_and_resumes_to_the_bit(tmp_path: Path) -> None:
    scaling = {"scaler": "kungfu", "minActors": 2, "maxActors": 6}
    job = write_job(tmp_path, stop={"rounds": 5}, scaling=scaling, pricing={"model": "vm"})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = nitro("train", job, "--run-dir", whole)
    assert done.returncode == 0, done.stderr
    recorded = rows_of(whole)
    signal = noise = None
    reference: tuple[float, int] | None = None
    seconds = 0.0
    for row in recorded:
        seconds += float(row["seconds_total"])
        assert float(row["cost_actors"]) == pytest.approx(seconds * 0.68 / 3600), "one machine, used or not"
        g, s, actors = float(row["gradient_signal"]), float(row["gradient_noise"]), int(row["actors"])
        assert float(row["gradient_snr"]) == pytest.approx(2 * 64 * g / s, rel=1e-9)
        assert row["convexity_ratio"] == "", "nobody asked for it"
        signal = g if signal is None else 0.9 * signal + (1 - 0.9) * g
        noise = s if noise is None else 0.9 * noise + (1 - 0.9) * s
        if signal > 0:
            reference = reference or (noise / signal, actors)
            wanted = reference[1] * (noise / signal / reference[0])
            actors = max(actors, math.floor(min(wanted, 6)))
        assert int(row["next_actors"]) == actors

    assert nitro("train", job, "--run-dir", killed, kill="4:update").returncode == -9
    again = nitro("train", "--resume", killed)
    assert again.returncode == 0, again.stderr
    exact = (
        "actors",
        "next_actors",
        "gradient_signal",
        "gradient_noise",
        "gradient_snr",
        "advantage_std",
        "kl",
    )
    assert [[row[name] for name in exact] for row in rows_of(killed)] == [
        [row[name] for name in exact] for row in recorded
    ]


def test_growth_follows_the_recorded_returns_and_resumes_to_the_bit(tmp_path: Path) -> None:
    scaling = {"scaler": "growth", "minActors": 1, "maxActors": 4, "initialActors": 1, "window": 4}
    job = write_job(tmp_path, stop={"rounds": 10}, scaling=scaling)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = nitro("train", job, "--run-dir", whole)
    assert done.returncode == 0, done.stderr
    recorded = rows_of(whole)
    returns: list[float] = []
    for row in recorded:
        if row["reward_round"]:
            returns.append(float(row["reward_round"]))
        found, actors = math.nan, int(row["actors"])
        if len(returns) == 4:
            found, returns = rise(returns), []
        wanted = 2 * actors if found < 2 else actors // 2 if found >= 2 * 2**1.5 else actors
        assert int(row["next_actors"]) == min(max(wanted, 1), 4)
    assert len({row["actors"] for row in recorded}) > 1, "nothing to see"

    assert nitro("train", job, "--run-dir", killed, kill="6:update").returncode == -9
    again = nitro("train", "--resume", killed)
    assert again.returncode == 0, again.stderr
    exact = ("actors", "next_actors", "reward_round", "advantage_std", "kl")
    assert [[row[name] for name in exact] for row in rows_of(killed)] == [
        [row[name] for name in exact] for row in recorded
    ]


def _job(directory: Path, agent: Path, rounds: int = 3) -> Path:
    scaling = {"scaler": "minionsrl", "agent": str(agent), "minActors": 2, "maxActors": 5}
    return write_job(directory, scaling=scaling, stop={"rounds": rounds, **TARGET_AND_BUDGET})


def _wait_for_a_paid_round(folder: Path, process: Any) -> int:
    """Rounds in the ledger of an episode's first attempt, once there is one."""
    ledger, end = folder / "attempt-1" / "ledger.jsonl", time.monotonic() + 280
    while not ledger.exists() or not ledger.read_bytes().count(b"\n"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no progress"
        time.sleep(0.02)
    process.kill()
    process.communicate()
    return ledger.read_bytes().count(b"\n")


def test_an_agent_is_pretrained_through_a_kill_and_then_decides(tmp_path: Path) -> None:
    path = tmp_path / "agents" / "hopper.safetensors"
    done = nitro("pretrain-scaler", _job(tmp_path, path), "--episodes", "1")
    assert done.returncode == 0, done.stderr
    assert "episode 1/1: 3 rounds, best evaluation" in done.stdout
    assert "counted apart from the runs that use it" in done.stdout
    first = ScalingAgent.load(path)
    assert (first.episodes, first.spent.episodes, first.spent.rounds) == (1, 1, 3)

    # Killed within the second episode: the agent stays as it was, and what was paid is not forgotten.
    process = start("pretrain-scaler", _job(tmp_path, path, rounds=2000), "--episodes", "2")
    lost = _wait_for_a_paid_round(path.with_name(f"{path.name}.episode-2"), process)
    assert ScalingAgent.load(path).spent == first.spent
    done = nitro("pretrain-scaler", _job(tmp_path, path), "--episodes", "2")
    assert done.returncode == 0, done.stderr
    agent = ScalingAgent.load(path)
    assert agent.episodes == 2
    assert first.spent.rounds + lost + 3 <= agent.spent.rounds <= first.spent.rounds + lost + 4
    assert agent.spent.dollars > first.spent.dollars
    assert [each.name for each in path.parent.iterdir()] == [path.name]

    run = tmp_path / "run"
    done = nitro("train", _job(tmp_path, path, rounds=4), "--run-dir", run)
    assert done.returncode == 0, done.stderr
    assert "its scaling agent took 2 training runs before" in done.stdout
    summary = json.loads((run / "summary.json").read_text())
    assert summary["pretraining"]["actors"] == agent.spent.actors
    recorded = rows_of(run)
    assert recorded[0]["actors"] == "4", "the preset's initialActors"
    for row in recorded:
        outcome = RoundOutcome(
            round=int(row["round"]),
            actors=int(row["actors"]),
            statistics={name: float(row[name]) for name in ("policy_loss", "kl")},
            reward_mean=float(row["reward_mean"]) if row["reward_mean"] else None,
            reward_round=float(row["reward_round"]) if row["reward_round"] else None,
            seconds=float(row["seconds_total"]),
            learner_seconds=float(row["seconds_update"]),
            actor_seconds=float(row["seconds_actor"]),
            cost=float(row["cost_total"]),
        )
        assert int(row["next_actors"]) == agent.best(features(outcome, TARGET_AND_BUDGET["budgetDollars"]))

    path.unlink()
    more = f"spec.stop.rounds={len(recorded) + 1}"
    done = nitro("train", "--resume", run, "--set", more)
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "summary.json").read_text())["pretraining"] == summary["pretraining"]


def test_mistakes_are_reported_before_training_starts(tmp_path: Path) -> None:
    missing = _job(tmp_path, tmp_path / "none.safetensors")
    run = nitro("train", missing, "--run-dir", tmp_path / "run")
    assert run.returncode == 2
    assert "none.safetensors does not exist; make it with `nitro pretrain-scaler`" in run.stderr
    assert "Traceback" not in run.stderr
    path = tmp_path / "other.safetensors"
    ScalingAgent(2, 5, task={"environment": "Walker2d-v5"}, seed=7).save(path)
    other = nitro("pretrain-scaler", _job(tmp_path, path))
    assert other.returncode == 2
    assert "environment ('Walker2d-v5', now 'Hopper-v5')" in other.stderr
    plain = nitro("pretrain-scaler", write_job(tmp_path))
    assert plain.returncode == 2
    assert "spec.scaling.scaler is nitro; only minionsrl has an agent to pre-train" in plain.stderr
