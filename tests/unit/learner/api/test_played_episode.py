"""An episode that is told frame by frame: policies see the stacks of frames that they see in training."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nitro_actor.environment import Environment
from nitro_learner.api.policy import PlayedEpisode, TrainedPolicy
from parallel_environments import arena, container

STACK = 3


class Recorded:
    """An episode of Arena's policies, and the observations that they were given last."""

    def __init__(self, environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        weights = container(environment.spec)
        policies = {
            name: {"meta": one.meta, "tensors": one.tensors} for name, one in weights.policies.items()
        }
        spec = environment.spec.to_json()
        policy = TrainedPolicy(
            {"environment": spec, "version": 1, "agents": weights.agents, "policies": policies}, 1, 0
        )
        choose = policy.act
        self.seen: dict[str, NDArray[Any]] = {}
        self.episode: PlayedEpisode = policy.episode()

        def recorded(observation: Any, **arguments: Any) -> Any:
            self.seen = dict(observation)
            return choose(observation, **arguments)

        monkeypatch.setattr(policy, "act", recorded)


def test_agents_that_come_back_have_the_frames_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Arena an agent dies in step 2 and is back from step 4; a new episode begins after step 6."""
    environment = arena(1, frame_stack=STACK)
    environment.reset([0])
    run = Recorded(environment, monkeypatch)
    classes, begins, came_back = environment.spec.classes, True, 0
    actions = {
        one.name: np.zeros((1, len(one.agents), *([] if one.action["kind"] == "discrete" else [2])), np.int64)
        for one in classes
    }
    before: set[str] = set()
    for _ in range(9):
        places = [(one, place, agent) for one in classes for place, agent in enumerate(one.agents)]
        playing = [each for each in places if environment.alive[each[0].name][0, each[1]]]
        frames = {agent: environment.frames[one.name][0, place].copy() for one, place, agent in playing}
        run.episode.act(frames, begins=begins)
        assert set(run.seen) == set(frames)
        for one, place, agent in playing:
            np.testing.assert_array_equal(run.seen[agent], environment.observations[one.name][place])
        came_back += not begins and bool(set(frames) - before)
        before = set(frames)
        step = environment.step(actions)
        begins = bool((step.terminated | step.truncated).any())
        if begins:
            environment.reset_one(0)
    assert came_back, "otherwise nothing was tested"


def test_an_agent_that_joins_late_has_seen_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Recorded(arena(1, frame_stack=STACK), monkeypatch)
    frames = {"hunter_0": np.full(4, 5.0), "hunter_1": np.full(4, 7.0), "runner_0": np.full((2, 2), 9.0)}
    late = frames.pop("hunter_1")
    run.episode.act(frames, begins=True)
    run.episode.act(frames | {"hunter_1": late})
    np.testing.assert_array_equal(run.seen["hunter_1"], [0.0] * 8 + [7.0] * 4)
    np.testing.assert_array_equal(run.seen["hunter_0"], [5.0] * 12)
    run.episode.act(frames, begins=True)
    run.episode.act(frames | {"hunter_1": late})
    np.testing.assert_array_equal(run.seen["hunter_1"], [0.0] * 8 + [7.0] * 4)
