"""The sampler of a script: real actors, on this machine, play a network and give batches."""

from __future__ import annotations

import copy
import threading
from pathlib import Path

import pytest
import torch

import nitro_learner as nitro
from nitro_api import JobInvalid
from nitro_learner.networks.own.skeleton import Unfit
from nitro_learner.training.failures import TrainingFailed
from own_networks import Net

SMALL = {"id": "CartPole-v1", "rolloutLength": 60, "envsPerActor": 3}
WRONG = """\
import gymnasium


class Wrong(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        raise ValueError("no way")  # RAISES
"""


def test_actors_play_the_network_as_it_is_and_go_on_with_their_episodes() -> None:
    batches = []
    for _ in range(2):
        with nitro.Sampler(SMALL, actors=2, processes=1, seed=3) as sampler:
            network = sampler.network()
            first = sampler.collect(network)
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.mul_(1.5)
            second = sampler.collect(network.policy, actors=1)
            seen = second.observations.flatten(0, 1)
            parameters = network.policy(seen)
            log_probs = sampler.distribution.log_prob(parameters, second.actions.flatten())
            batches.append((first, second))
    torch.testing.assert_close(second.log_probs.flatten(), log_probs.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(second.distribution.flatten(0, 1), parameters.detach(), rtol=1e-4, atol=1e-5)
    assert (first.actors, second.actors) == (2, 1)
    assert first.rewards.shape == (20, 6)
    assert second.rewards.shape == (20, 3)
    goes_on = ~(first.terminated | first.truncated)[-1, :3]
    assert goes_on.any()
    assert torch.equal(second.observations[0][goes_on], first.next_observations[-1, :3][goes_on])
    for one, other in zip(*batches, strict=True):
        for name in ("observations", "actions", "log_probs", "rewards", "terminated", "next_observations"):
            assert torch.equal(getattr(one, name), getattr(other, name)), "equal seeds, equal batches"
    with pytest.raises(RuntimeError, match="use it in a with block"):
        sampler.collect(network)
    assert "nitro-sampler" not in {thread.name for thread in threading.enumerate()}


def test_actors_play_a_module_of_ones_own() -> None:
    module = Net((4,), 2)
    with nitro.Sampler(SMALL, actors=1, processes=1) as sampler:
        for _ in range(2):
            batch = sampler.collect(module)
            expected = copy.deepcopy(module).eval()(batch.observations.flatten(0, 1)).detach()
            torch.testing.assert_close(batch.distribution.flatten(0, 1), expected, rtol=1e-3, atol=1e-4)
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.add_(0.1)


def test_a_mistake_has_its_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    line = next(n for n, text in enumerate(WRONG.splitlines(), 1) if "# RAISES" in text)
    with pytest.raises(JobInvalid, match="rolloutLength: 0"):
        nitro.Sampler({"id": "CartPole-v1", "rolloutLength": 0})
    environment = {"entryPoint": "wrong:Wrong", "rolloutLength": 8, "envsPerActor": 1}
    with nitro.Sampler(environment, actors=1, processes=1) as sampler:
        with pytest.raises(TypeError, match="collect got 3; give it a"):
            sampler.collect(3)  # type: ignore[arg-type]
        with pytest.raises(Unfit, match="forward gave float32"):
            sampler.collect(torch.nn.Linear(2, 3))
        with pytest.raises(TrainingFailed, match=rf"no way.*wrong.py:{line}"):
            sampler.collect(sampler.network())
