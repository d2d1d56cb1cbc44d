"""`nitro train` with IMPACT: off-policy rounds with real actors, killed and resumed, and repeated from the
feed that a run has recorded.
"""

import json
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actor_support import environment, policies_of, rollout
from learner_support import learner_of, lone_fragment
from nitro_actor.policy import Policies
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import load_job, resolve
from nitro_learner.algorithms.impact.learning import Impact
from nitro_learner.checkpoints.store import load
from nitro_learner.sampling.seeds import slot_seed
from train_support import nitro, rows_of, start, wait_for_rows, write_job

SETTINGS = {"batchSize": 128, "bufferBatches": 2, "bufferUses": 3, "minibatchSize": 64}
ROUNDS = 6


def write(directory: Path, **spec: Any) -> Path:
    algorithm = {"name": "impact", "hyperparameters": SETTINGS}
    scaling = {"scaler": "nitro", "minActors": 2, "maxActors": 6, "initialActors": 5}
    return write_job(
        directory, **{"algorithm": algorithm, "scaling": scaling, "stop": {"rounds": ROUNDS}} | spec
    )


def entries(run: Path, message: str) -> list[dict[str, Any]]:
    log = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [entry for entry in log if entry["message"] == message]


def relearned(run: Path) -> Impact:
    """The algorithm after the run, from nothing but its job and the feed in its log: every fragment is
    sampled anew in this process, and fed in the recorded order with the recorded replays."""
    spec = resolve(load_job(run / "job.yaml")).spec
    actor = environment(spec.environment.id, spec.environment.envs_per_actor)
    feeds = {entry["round"]: entry["feed"] for entry in entries(run, "fed")}
    resumed_after = {entry["round"] for entry in entries(run, "run started")} - {0}

    def make() -> Impact:
        made = learner_of(spec, DescribedEnvironment.from_json(actor.spec.to_json()))
        assert isinstance(made, Impact)
        return made

    algorithm = make()
    policies: list[Policies] = []
    states: dict[int, dict[str, np.ndarray]] = {}
    for number in range(1, ROUNDS + 1):
        policies.append(policies_of(algorithm.weights()[DEFAULT_POLICY], actor.spec))
        if number - 1 in resumed_after:
            state, algorithm = algorithm.state_dict(), make()
            algorithm.load_state_dict(state)
        for event in feeds[number]:
            if isinstance(event, int):
                assert all(algorithm.replay() for _ in range(event))
                continue
            round, slot = event
            state = states.get(slot, {})
            tensors = rollout(
                actor,
                policies[round - 1],
                seed=slot_seed(spec.seed, round, slot),
                steps=spec.environment.rollout_length,
                state=state,
            )
            algorithm.take([lone_fragment({"slot": slot, "resumed": bool(state)}, tensors)])
            states[slot] = {n.removeprefix("state/"): a for n, a in tensors.items() if n.startswith("state/")}
        algorithm.end_round(number)
    return algorithm


def test_the_recorded_feed_gives_the_weights_of_the_run_to_the_bit(tmp_path: Path) -> None:
    """Killed in its fourth round and resumed: the feed alone gives its weights again, to the bit."""
    run = tmp_path / "run"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        killed = nitro("train", write(tmp_path), "--run-dir", run, kill="4:sample")
        assert killed.returncode == -9, killed.stderr
        done = nitro("train", "--resume", run)
        assert done.returncode == 0, done.stderr
        expected = relearned(run).state_dict()
    finally:
        torch.set_num_threads(threads)
    table = rows_of(run)
    assert [row["round"] for row in table] == [str(number) for number in range(1, ROUNDS + 1)]
    steps = [int(row["env_steps"]) for row in table]
    for (before, after), row in zip(pairwise([0, *steps]), table, strict=True):
        wanted = max(2, -(-int(row["actors"]) // 2))
        assert after - before >= 64 * wanted
    learned = load(run / "checkpoints" / f"round-{ROUNDS:06d}.safetensors").state["policies"]["learners"][0][
        "state"
    ]
    assert learned["passes"] == expected["passes"] > 0
    for part in ("parameters", "target"):
        for name, tensor in expected[part].items():
            assert torch.equal(torch.as_tensor(learned[part][name]), tensor), f"{part} {name}"


@pytest.mark.parametrize("moment", ["1:sample", "2:checkpoint"])
def test_a_run_that_was_killed_at_any_moment_can_be_resumed(tmp_path: Path, moment: str) -> None:
    run = tmp_path / "run"
    killed = nitro("train", write(tmp_path), "--run-dir", run, kill=moment)
    assert killed.returncode == -9, killed.stderr
    done = nitro("train", "--resume", run)
    assert done.returncode == 0, done.stderr
    table = rows_of(run)
    assert [row["round"] for row in table] == [str(number) for number in range(1, ROUNDS + 1)]
    for before, row in pairwise(table):
        assert row["actors"] == before["next_actors"]
        assert int(row["env_steps"]) > int(before["env_steps"])


def test_an_interrupted_run_keeps_its_weights(tmp_path: Path) -> None:
    """With 64 actors on two processes it ends in mid-round, with less than the detector wants to measure."""
    run = tmp_path / "run"
    scaling = {"scaler": "nitro", "minActors": 32, "maxActors": 64, "initialActors": 64}
    job = write(tmp_path, stop={"rounds": 1000}, scaling=scaling)
    process = start("train", job, "--run-dir", run)
    wait_for_rows(run, 2, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=280)
    assert process.returncode == 75, err
    table = rows_of(run)
    rounds = len(table)
    assert f"interrupted after round {rounds}" in out + err
    newest = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    assert load(newest).round == rounds
    again = nitro("train", "--resume", run, "--set", f"spec.stop.rounds={rounds + 1}")
    assert again.returncode == 0, again.stderr
    assert len(rows_of(run)) == rounds + 1
    # Where the signal came in time to cut a round short, nothing was measured of it.
    steps = [int(row["env_steps"]) for row in table]
    short = [row for (a, b), row in zip(pairwise([0, *steps]), table, strict=True) if b - a < 64 * 32]
    assert all(row["convexity_ratio"] == "" for row in short)
