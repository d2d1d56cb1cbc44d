"""Nitro as a library: trained policies play what actors play, and training works in scripts and notebooks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from mpe2 import simple_spread_v3

import nitro_learner as nitro
from actor_support import Alone, Game, action_of
from agents_jobs import job as agents_job
from nitro_actor.actions import Continuous
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import WeightsContainer
from nitro_actor.rollout import best_actions
from nitro_api import JobInvalid, NitroTrainingJob
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.checkpoints.store import CheckpointError, CheckpointStore, NoCheckpointError
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.studies.video import VideoError
from nitro_learner.training.round_report import RoundReport
from train_support import job as small_job
from train_support import write_job
from untrained_runs import environment_of, resolved, untrained

ROOT = Path(__file__).parents[2]
COUNT = 3
CARTPOLE = {"environment": {"id": "CartPole-v1", "rolloutLength": 32, "envsPerActor": 2}}
STACK = {"environment": {**CARTPOLE["environment"], "frameStack": 3}}
LAYER = {"channels": 2, "kernel": 8, "stride": 8}
ATARI = {
    "environment": {"id": "ALE/SpaceInvaders-v5", "rolloutLength": 32, "envsPerActor": 2},
    "network": {"hiddenSizes": [8], "convLayers": [LAYER]},
}


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> tuple[nitro.Run, list[int]]:
    """A run of two rounds, and the rounds that `on_round` was told of."""
    rounds: list[int] = []
    run = nitro.train(
        small_job(stop={"rounds": 2}),
        on_round=lambda report: rounds.append(report.round),
        run_dir=tmp_path_factory.mktemp("hopper") / "run",
    )
    return run, rounds


def actors_policy(job: NitroTrainingJob, folder: Path, environment: Any) -> Any:
    """The policy as an actor has it, by way of the learner."""
    policies: PolicySet = registry.make_policies(
        job.spec, DescribedEnvironment.from_json(environment.spec.to_json())
    )
    checkpoint = CheckpointStore(RunDir(folder).checkpoints, keep_last=1).latest()
    assert checkpoint is not None
    policies.load_state_dict(checkpoint.state["policies"])
    return Game(environment).policy(WeightsContainer.decode(policies.encode("run")))


def check_against_an_actor(job: NitroTrainingJob, folder: Path, steps: int = 40) -> None:
    """Play as an actor plays, and compare every action to the bit; observations come as frames."""
    environment = Alone(environment_of(job, COUNT))
    try:
        actor, policy = actors_policy(job, folder, environment).classes["agent"], nitro.load(folder)
        space = action_of(environment.spec)
        environment.reset(range(COUNT))
        episodes, begins = policy.episode(), np.ones(COUNT, bool)
        for _ in range(steps):
            distribution = np.empty((COUNT, space.parameters), np.float32)
            actor.distribution(environment.observations, None, distribution)
            played = space.mode(distribution)
            chosen = policy.act(environment.observations)
            clipped = np.clip(played, space.low, space.high) if isinstance(space, Continuous) else played
            np.testing.assert_array_equal(chosen, clipped)
            np.testing.assert_array_equal(episodes.act(environment.frames, begins=begins), clipped)
            one = policy.act(environment.observations[0])
            np.testing.assert_allclose(one, chosen[0], rtol=1e-5, atol=1e-6)
            _, terminated, truncated = environment.step(played)
            begins = terminated | truncated
            for index in np.flatnonzero(begins):
                environment.reset_one(int(index))
    finally:
        environment.close()


def test_a_trained_policy_plays_as_an_actor_with_its_normalisation(
    hopper: tuple[nitro.Run, list[int]],
) -> None:
    run, _ = hopper
    check_against_an_actor(run.job, run.path)
    policy = run.policy()
    assert (policy.round, policy.agents) == (2, ("agent",))
    drawn = [nitro.load(run.path, seed=3).act(np.zeros((5, 11)), deterministic=False) for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    assert np.ptp(drawn[0], axis=0).min() > 0
    assert np.abs(drawn[0]).max() <= 1


@pytest.mark.parametrize("spec", [CARTPOLE, STACK, ATARI], ids=["discrete", "stack", "Atari"])
def test_a_policy_plays_as_an_actor(spec: dict[str, Any], tmp_path: Path) -> None:
    check_against_an_actor(untrained(small_job(**spec), tmp_path), tmp_path)


@pytest.mark.parametrize("algorithm", ["ippo", "iql"])
def test_several_agents_play_as_an_actors(algorithm: str, tmp_path: Path) -> None:
    job = untrained(agents_job(name=algorithm), tmp_path)
    environment = environment_of(job, COUNT)
    actor, policy = actors_policy(job, tmp_path, environment), nitro.load(tmp_path)
    environment.reset(range(COUNT))
    (one,) = environment.spec.classes
    assert policy.agents == one.agents
    for _ in range(10):
        played = best_actions(environment, actor, actor.memories(COUNT))
        rows = environment.observations[one.name].reshape(COUNT, len(one.agents), -1)
        seen = {agent: rows[:, i] for i, agent in enumerate(one.agents)}
        chosen = policy.act(seen)
        for index, agent in enumerate(one.agents):
            np.testing.assert_array_equal(chosen[agent], played[one.name][:, index])
            alone = policy.act({agent: seen[agent][0]})
            assert alone == {agent: chosen[agent][0]}
        environment.step(played)
    only = {agent: np.arange(5) == 3 for agent in one.agents}
    assert all((rows == 3).all() for rows in policy.act(seen, available=only).values())
    drawn = policy.act(seen, deterministic=False, available=only)
    assert all((rows == 3).all() for rows in drawn.values())
    environment.close()


def test_what_does_not_fit_is_refused_by_name(hopper: tuple[nitro.Run, list[int]], tmp_path: Path) -> None:
    policy = hopper[0].policy()
    for wrong in (np.zeros(10), np.zeros((2, 2, 11)), np.zeros((0, 11)), 1.0):
        with pytest.raises(ValueError, match=r"an observation has the shape \[11\], a batch \[B, 11\]"):
            policy.act(wrong)
    with pytest.raises(ValueError, match="of one agent"):
        policy.act({"agent": np.zeros(11)})
    with pytest.raises(ValueError, match="NaN"):
        policy.act(np.full(11, np.nan))
    with pytest.raises(ValueError, match=r"agent: observations must be at most 3\.4e\+38"):
        policy.act(np.full(11, 1e39))
    with pytest.raises(ValueError, match="agent: observations are numbers, not complex128"):
        policy.act(np.full(11, 1j))
    with pytest.raises(ValueError, match="x='foo': must be one of steps, round, dollars"):
        hopper[0].plot(x="foo")
    with pytest.raises(ValueError, match=r"a\.gif: must end in \.png, \.svg or \.pdf"):
        hopper[0].plot(tmp_path / "a.gif")
    with pytest.raises(CheckpointError, match="no checkpoint in it"):
        nitro.load(tmp_path)
    with pytest.raises(NoCheckpointError, match="nowhere does not exist"):
        nitro.load(tmp_path / "nowhere")
    with pytest.raises(NoCheckpointError, match="s3://BUCKET/PREFIX/RUN"):
        nitro.load("s3://bucket")
    with pytest.raises(NoCheckpointError, match="its bucket or prefix is wrong: must be lower-case letters"):
        nitro.load("s3://my bucket/run")
    with pytest.raises(RunDirError, match="no run folder"):
        nitro.Run(tmp_path)
    untrained(agents_job(), tmp_path / "team")
    team = nitro.load(tmp_path / "team")
    with pytest.raises(ValueError, match="there is no agent 'nobody'; the agents are"):
        team.act({"nobody": np.zeros(18)})
    with pytest.raises(ValueError, match="mapping from agents"):
        team.episode().act(np.zeros(18))
    with pytest.raises(ValueError, match="equally many"):
        team.act({})
    seen = {agent: np.zeros(18) for agent in team.agents}
    with pytest.raises(ValueError, match="available: agent_0 needs an action that is allowed in each row"):
        team.act(seen, available={"agent_0": np.zeros(5, bool)})


def test_loading_and_reading_need_no_torch(hopper: tuple[nitro.Run, list[int]]) -> None:
    run, rounds = hopper
    assert rounds == [1, 2]
    assert list(run.metrics["round"]) == rounds
    assert run.summary["finished"]
    assert run.cost == run.summary["cost"]["total"] > 0
    program = (
        "import sys; import numpy as np; import nitro_learner as nitro\n"
        "policy = nitro.load(sys.argv[1]); policy.act(np.zeros(11))\n"
        "run = nitro.Run(sys.argv[1]); run.metrics, run.cost, run.job, run.plot(sys.argv[2])\n"
        "assert 'torch' not in sys.modules"
    )
    picture = run.path / "again.png"
    words = [sys.executable, "-c", program, str(run.path), str(picture)]
    subprocess.run(words, check=True, timeout=120)
    assert picture.stat().st_size > 0


def test_training_works_where_an_event_loop_runs(tmp_path: Path) -> None:
    rounds: list[int] = []

    async def cell() -> nitro.Run:
        spec = {**CARTPOLE, "stop": {"rounds": 1}}
        return nitro.train(
            resolved(small_job(**spec)),
            on_round=lambda report: rounds.append(report.round),
            run_dir=tmp_path / "run",
        )

    run = asyncio.run(cell())
    assert rounds == [1]
    assert nitro.load(run.path).act(np.zeros(4)) in (0, 1)
    with pytest.raises(RunDirError, match="already holds a run"):
        nitro.train(small_job(), run_dir=run.path)
    assert run.summary["finished"], "the run is untouched"


def test_a_run_goes_on_to_the_result_of_a_run_that_was_never_stopped(tmp_path: Path) -> None:
    source = small_job(**CARTPOLE, stop={"rounds": 4})
    whole = nitro.train(source, run_dir=tmp_path / "whole")
    part = nitro.train(
        {**source, "spec": {**source["spec"], "stop": {"rounds": 2}}}, run_dir=tmp_path / "part"
    )
    rounds: list[int] = []
    told: list[tuple[dict[str, Any], float]] = []

    def on_round(report: RoundReport) -> None:
        rounds.append(report.round)
        told.append((part.summary, part.cost))

    again = nitro.resume(part, rounds=4, on_round=on_round)
    assert rounds == [3, 4]
    costs = again.metrics["cost_total"]
    assert told == [({}, costs[2]), ({}, costs[3])], "the end after two rounds is not this run's any more"
    assert again.summary["rounds"] == 4
    assert again.job.spec.stop.rounds == 4
    for name in ("reward_mean", "policy_loss", "actors"):
        np.testing.assert_array_equal(again.metrics[name], whole.metrics[name])
    observations = np.random.default_rng(1).standard_normal((9, 4))
    np.testing.assert_array_equal(again.policy().act(observations), whole.policy().act(observations))
    before = (whole.path / "metrics.csv").read_bytes()
    assert nitro.resume(whole.path).summary["finished"]
    assert (whole.path / "metrics.csv").read_bytes() == before, "a run that has ended stays as it is"
    with pytest.raises(JobInvalid, match="rounds"):
        nitro.resume(whole, rounds=0)
    with pytest.raises(RunDirError, match="no run folder"):
        nitro.resume(tmp_path)


def test_a_callback_that_returns_false_ends_the_run_as_a_stop_condition_does(tmp_path: Path) -> None:
    rounds: list[int] = []

    def on_round(report: RoundReport) -> Any:
        rounds.append(report.round)
        return np.float32(report.round) < 2  # numpy's False is one, too; None and 0 are not

    source = small_job(**CARTPOLE, stop={"rounds": 9})
    run = nitro.train(source, on_round=on_round, run_dir=tmp_path / "run")
    assert rounds == [1, 2]
    assert run.summary["finished"]
    assert run.summary["reason"] == "CallbackStopped"
    assert run.summary["message"] == "on_round returned False after round 2"
    assert run.summary["evaluation"]["episodes"] > 0
    assert (run.path / "result.png").stat().st_size > 0
    again = nitro.resume(run, rounds=3, on_round=lambda _: 0)
    assert again.summary["reason"] == "RoundsDone"
    whole = nitro.train(small_job(**CARTPOLE, stop={"rounds": 3}), run_dir=tmp_path / "whole")
    np.testing.assert_array_equal(again.metrics["policy_loss"], whole.metrics["policy_loss"])


def test_an_error_of_a_callback_ends_the_run_as_an_interruption_does_and_is_raised(tmp_path: Path) -> None:
    rounds: list[int] = []

    def on_round(report: RoundReport) -> None:
        rounds.append(report.round)
        if report.round == 2:
            raise LookupError("no such key")

    source = small_job(**CARTPOLE, stop={"rounds": 9})
    with pytest.raises(LookupError, match="no such key") as raised:
        nitro.train(source, on_round=on_round, run_dir=tmp_path / "run")
    assert raised.traceback[-1].name == "on_round", "it shows the user's line"
    assert rounds == [1, 2]
    run = nitro.Run(tmp_path / "run")
    assert not run.summary["finished"]
    assert run.summary["message"] == (
        "on_round raised LookupError: no such key; interrupted after round 2; its checkpoint is on disk"
    )
    assert (run.path / "result.png").stat().st_size > 0
    assert nitro.resume(run, rounds=3).summary["reason"] == "RoundsDone"


def test_a_job_file_of_the_user_is_not_taken_for_a_run(tmp_path: Path) -> None:
    path = write_job(tmp_path, **CARTPOLE)
    before = path.read_bytes()
    with pytest.raises(RunDirError) as refused:
        nitro.resume(tmp_path, rounds=1)
    assert str(refused.value) == (
        f"{tmp_path} holds no run to resume: nitro did not write its job.yaml. Nothing was changed. "
        f"To train that job: nitro.train('{path}')"
    )
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path], "the folder is marked as one of nitro's"


def test_a_policy_records_the_episode_that_it_plays(tmp_path: Path) -> None:
    untrained(small_job(**CARTPOLE), tmp_path / "run")
    policy = nitro.load(tmp_path / "run")
    environment = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    filmed = policy.record(environment, tmp_path / "videos" / "cartpole.mp4", seed=3)
    observation, _ = environment.reset(seed=3)
    steps, over = 0, False
    while not over:
        observation, _, terminated, truncated, _ = environment.step(policy.act(observation))
        steps, over = steps + 1, terminated or truncated
    assert (filmed.steps, filmed.total, filmed.ended) == (steps, float(steps), True)
    assert (tmp_path / "videos" / "cartpole.mp4").stat().st_size > 1000
    with pytest.raises(VideoError, match='draws nothing: make it with render_mode="rgb_array"'):
        policy.record(gymnasium.make("CartPole-v1", render_mode=None), tmp_path / "none.gif")


def test_a_team_records_the_episode_that_it_plays(tmp_path: Path) -> None:
    untrained(agents_job(), tmp_path / "run")
    environment = simple_spread_v3.parallel_env(render_mode="rgb_array")
    filmed = nitro.load(tmp_path / "run").record(environment, tmp_path / "spread.gif", seed=3)
    assert (filmed.steps, filmed.ended) == (25, True)
    assert (tmp_path / "spread.gif").stat().st_size > 1000
