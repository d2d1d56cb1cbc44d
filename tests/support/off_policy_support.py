"""An off-policy run learned again from the feed that its log has recorded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from actor_support import environment, policies_of, rollout
from learner_support import learner_of, lone_fragment
from nitro_actor.policy import Policies
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import load_job, resolve
from nitro_learner.algorithms.base import OffPolicyLearner
from nitro_learner.checkpoints.store import load, pack
from nitro_learner.sampling.seeds import slot_seed
from train_support import nitro, rows_of


def killed_resumed_and_relearned(job: Path, run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The learner's state at the end of a run that was killed in its fourth round and resumed, and the state
    that the run's feed alone gives. One thread computes both."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        killed = nitro("train", job, "--run-dir", run, kill="4:sample")
        assert killed.returncode == -9, killed.stderr
        done = nitro("train", "--resume", run)
        assert done.returncode == 0, done.stderr
        expected = relearned(run).state_dict()
    finally:
        torch.set_num_threads(threads)
    newest = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    learned: dict[str, Any] = load(newest).state["policies"]["learners"][0]["state"]
    return learned, expected


def check_killed_and_relearned(job: Path, run: Path, rounds: int) -> None:
    """A learner of values goes on after a kill, and its feed alone gives what it has learned, to the bit."""
    learned, expected = killed_resumed_and_relearned(job, run)
    table = rows_of(run)
    assert [row["round"] for row in table] == [str(number) for number in range(1, rounds + 1)]
    assert all(float(row["convexity_ratio"]) >= 0 for row in table)
    assert learned["steps"] == expected["steps"] > 0
    assert pack(1, {"learned": learned["learned"]}) == pack(1, {"learned": expected["learned"]})


def entries(run: Path, message: str) -> list[dict[str, Any]]:
    log = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [entry for entry in log if entry["message"] == message]


def relearned(run: Path) -> OffPolicyLearner:
    """The learner after an off-policy run, from nothing but its job and the feed in its log: every fragment
    is sampled anew in this process, and fed in the recorded order with the recorded replays."""
    spec = resolve(load_job(run / "job.yaml")).spec
    actor = environment(spec.environment.id, spec.environment.envs_per_actor)
    feeds = {entry["round"]: entry["feed"] for entry in entries(run, "fed")}
    resumed_after = {entry["round"] for entry in entries(run, "run started")} - {0}

    def make() -> OffPolicyLearner:
        made = learner_of(spec, DescribedEnvironment.from_json(actor.spec.to_json()))
        assert isinstance(made, OffPolicyLearner)
        return made

    algorithm = make()
    policies: list[Policies] = []
    states: dict[int, dict[str, np.ndarray]] = {}
    for number in range(1, spec.stop.rounds + 1):
        policies.append(policies_of(algorithm.weights()[DEFAULT_POLICY], actor.spec))
        if number - 1 in resumed_after:
            state, algorithm = algorithm.state_dict(), make()
            algorithm.load_state_dict(state)
        algorithm.begin_round(number, spec.stop.rounds)
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
                optional_tensors=spec.algorithm.record.tensors,
            )
            algorithm.take([lone_fragment({"slot": slot, "resumed": bool(state)}, tensors)])
            states[slot] = {n.removeprefix("state/"): a for n, a in tensors.items() if n.startswith("state/")}
        algorithm.end_round(number)
    return algorithm
