"""The surrogate of each of several policies: what the detector and the noise meter differentiate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from agents_support import agent_class, agents_fragment, team
from nitro_api.spec.network import Recurrent
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.boosting.detector import Detector
from nitro_learner.boosting.gradient_noise import GradientNoise, gradient_noise
from nitro_learner.boosting.surrogate import Function, Objective, Surrogate
from recurrent_q_support import SIZE, remembering

ROWS = 3 * 12 * 2


def team_of(algorithm: str = "ippo", *, masked: bool = False) -> Team:
    settings = {"epochs": 3, "learningRate": 0.01}
    return team(agent_class(masked=masked), algorithm=algorithm, preset="paper", settings=settings)


def surrogates(algorithm: str = "ippo", *, masked: bool = False) -> tuple[Ppo, dict[str, Surrogate]]:
    """A learner after a round in which agents died, and its policies' surrogates."""
    made = team_of(algorithm, masked=masked)
    learner = Ppo(made)
    results = learner.update([agents_fragment(*made.classes, slot=slot, deaths=0.1) for slot in range(3)], 1)
    return learner, {name: result.surrogate for name, result in results.items()}


def value(function: Function) -> float:
    return sum(term().item() for term in function.terms)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_the_objective_of_all_rows_is_what_the_update_reports(algorithm: str, masked: bool) -> None:
    made = team_of(algorithm, masked=masked)
    learner = Ppo(made)
    fragments = [agents_fragment(*made.classes, slot=slot, deaths=0.1) for slot in range(3)]
    for name, result in learner.update(fragments, 1).items():
        stats, rows = result.stats, torch.arange(ROWS)
        assert result.surrogate.size == ROWS, name
        assert value(result.surrogate.function("clip", rows)) == pytest.approx(
            -stats["policy_loss"], abs=1e-5
        )
        total = stats["policy_loss"] + 0.2 * stats["kl"] + stats["value_loss"]
        assert value(result.surrogate.function("total", rows)) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("objective", ["clip", "ratio1", "total"])
def test_trajectories_are_of_the_policy_that_sampled_and_add_up_to_all_rows(objective: Objective) -> None:
    _, found = surrogates()
    before = Ppo(team_of()).state_dict()["policies"]
    for name, surrogate in found.items():
        found = surrogate.trajectories(objective)
        function = found.mean
        assert len(function.terms) == len(found.sizes) == 3 * 2
        assert sum(found.sizes) == len(surrogate.drawable) < found.transitions == ROWS
        start = torch.cat(
            [v.flatten() for k, v in before[name]["parameters"].items() if k.startswith("policy")]
        )
        theta = torch.cat([parameter.flatten() for parameter in function.parameters])
        assert torch.equal(theta[: len(start)], start)
        if objective == "ratio1":
            # E[A] of standardised advantages, over agents that acted.
            assert value(function) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("recurrent", [False, True])
def test_agents_of_one_environment_are_one_trajectory(recurrent: bool) -> None:
    """They share returns. All agents here live the same lives: they measure what one of them measures."""

    def noise(agents: int) -> GradientNoise:
        one = agent_class(agents=agents)
        made = team(one, algorithm="ippo", preset="paper", group_batch="all")
        if recurrent:
            made.network.recurrent = Recurrent(hidden_size=SIZE)
        parts = []
        for slot in range(3):
            part = remembering(agent_class(agents=1), slot=slot)
            fields = part.by_class["agent"]
            of_steps = fields["alive"].shape[:2]
            alike = {
                name: np.repeat(each, agents, 2 if each.shape[:2] == of_steps else 1)
                for name, each in fields.items()
            }
            parts.append(replace(part, by_class={"agent": alike}))
        learner = Ppo(made)
        learner.regroup({"agent_0": list(one.agents)})
        surrogate = learner.update(parts, 1)["agent_0"].surrogate
        assert surrogate.size == agents * ROWS
        found = gradient_noise(surrogate.trajectories("clip"))
        assert found is not None
        return found

    alone = noise(1)
    assert alone.noise > 0
    assert noise(3) == GradientNoise(
        signal=pytest.approx(alone.signal, rel=1e-3), noise=pytest.approx(alone.noise, rel=1e-3)
    )


def test_rows_of_dead_agents_do_not_count() -> None:
    _, found = surrogates()
    surrogate = found["agent_1"]
    weights: Tensor = surrogate.samples.weights  # type: ignore[attr-defined]
    alive, dead = weights.nonzero()[:, 0], (weights == 0).nonzero()[:, 0]
    assert len(dead) > 0
    both = torch.cat([alive, dead])
    assert value(surrogate.function("clip", both)) == pytest.approx(
        value(surrogate.function("clip", alive)), rel=1e-5
    )
    assert value(surrogate.function("clip", dead)) == 0


@pytest.mark.parametrize("recurrent", [False, True])
def test_the_detector_draws_transitions_of_living_agents(recurrent: bool) -> None:
    """As many whatever their share. A policy whose agent did not act in the round has no measurement."""
    one = agent_class()
    made = team(one, algorithm="ippo", preset="paper")
    if recurrent:
        made.network.recurrent = Recurrent(hidden_size=SIZE)
    parts = [remembering(one, slot=slot, deaths=0.1) for slot in range(3)]
    for part in parts:
        for name in ("alive", "died"):
            part.by_class["agent"][name][..., 0] = False
    results = Ppo(made).update(parts, 1)
    for index, name in enumerate(("agent_0", "agent_1", "agent_2")):
        surrogate: Any = results[name].surrogate
        alive = int(sum(part.by_class["agent"]["alive"][..., index].sum() for part in parts))
        assert alive < surrogate.size == ROWS
        assert len(surrogate.drawable) == alive
        assert surrogate.samples.samples.weights[surrogate.drawable].all()
        detector = Detector(GivenScaling(), 0, 20)
        assert len(detector.look(surrogate, 1)[0]) == min(alive, 20)
        assert (detector.measure(surrogate, 1).ratio is None) == (alive == 0)


def test_the_detector_measures_each_policy_at_its_new_parameters() -> None:
    learner, found = surrogates("mappo", masked=True)
    measured = {name: Detector(GivenScaling(), 0, 40).measure(one, 1) for name, one in found.items()}
    assert len({m.lambda_max for m in measured.values()}) == 3
    assert all(m.ratio is not None and m.lambda_max > m.lambda_min for m in measured.values())
    after = learner.state_dict()["policies"]
    for name, one in found.items():
        parameters = one.function("clip", torch.arange(40)).parameters
        policy = torch.cat([parameter.flatten() for parameter in parameters])
        trained = torch.cat(
            [v.flatten() for k, v in after[name]["parameters"].items() if k.startswith("policy")]
        )
        assert torch.equal(policy, trained)
