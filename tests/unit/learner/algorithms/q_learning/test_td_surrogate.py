"""The detector's view of a Q-learner's round: the negative temporal-difference loss, and its curvature."""

import numpy as np
import pytest
import torch

from agents_support import agent_class, agents_fragment, team
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.boosting.detector import Detector, curvature
from nitro_learner.boosting.surrogate import Function
from nitro_learner.data.batch import Fragment
from q_learning_support import doubled, hessian_products, targets_one_by_one
from recurrent_q_support import learner_of, remembering

CLASSES = (agent_class("adversary", 1, size=3), agent_class("agent", 2, size=4))


def _updated(algorithm: str, **fields: str) -> tuple[QLearner, list[Fragment], dict[str, UpdateResult]]:
    settings = {"normaliseRewards": False, "targetUpdateSteps": 10_000}
    learner = QLearner(
        team(*CLASSES, algorithm=algorithm, settings=settings, reward="team", hidden=(5, 5), **fields)
    )
    fragments = [agents_fragment(*CLASSES, slot=slot, length=10, envs=3, deaths=0.1) for slot in (0, 1)]
    return learner, fragments, learner.update(fragments, 1)


def _value(function: Function) -> float:
    return sum(term().item() for term in function.terms)


def test_policies_of_iql_have_objectives_of_their_own_and_those_of_a_team_share_one() -> None:
    assert len({id(result.surrogate) for result in _updated("iql")[2].values()}) == 3
    for algorithm in ("vdn", "qmix"):
        assert len({id(result.surrogate) for result in _updated(algorithm)[2].values()}) == 1


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_a_round_has_as_many_transitions_as_environment_steps(algorithm: str) -> None:
    assert all(result.surrogate.size == 60 for result in _updated(algorithm)[2].values())


def test_it_is_the_negative_mean_huber_loss_of_the_chosen_values() -> None:
    learner, _, results = _updated("iql")
    (played,) = results["agent_1"].surrogate.played
    rows = torch.tensor([3, 17, 18, 40, 59])
    q = played.network(played.parameters, played.steps)[0].detach().numpy()
    chosen = q[rows, played.steps.actions[0, rows].numpy()]
    surrogate = results["agent_1"].surrogate
    error = np.abs(chosen - surrogate.targets[0, rows].numpy())
    huber = np.where(error <= 1, 0.5 * error**2, error - 0.5)
    weights = surrogate.weights[0, rows].numpy()
    expected = -(huber * weights).sum() / weights.sum()
    assert np.isclose(_value(surrogate.function("clip", rows)), expected, rtol=1e-5)
    assert np.isclose(_value(surrogate.function("ratio1", rows)), expected, rtol=1e-5)
    assert np.isclose(_value(surrogate.function("total", rows)), -expected, rtol=1e-5)
    published = learner.weights()["agent_1"].tensors
    named = played.network.named(played.parameters)
    assert all(np.array_equal(named[name][0].detach().numpy(), array) for name, array in published.items())


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_trajectories_sum_to_the_whole_and_are_one_for_each_environment(algorithm: str) -> None:
    surrogate = _updated(algorithm)[2]["agent_0"].surrogate
    by_lane = surrogate.trajectories("clip").mean
    assert len(by_lane.terms) == 6
    assert np.isclose(_value(by_lane), _value(surrogate.function("clip", torch.arange(60))), rtol=1e-5)


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_hessian_products_are_differences_of_gradients(algorithm: str) -> None:
    function = doubled(_updated(algorithm)[2]["agent_0"].surrogate).function("clip", torch.arange(60))
    found, expected = hessian_products(function)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_its_curvature_has_a_convexity_ratio() -> None:
    surrogate = _updated("vdn")[2]["agent_0"].surrogate
    found = curvature(surrogate.function("clip", torch.arange(60)), np.random.default_rng(0))
    # The loss's Gauss-Newton part makes its negative mostly concave.
    assert found.smallest < 0
    assert abs(found.smallest) > abs(found.largest)


@pytest.mark.parametrize("algorithm", ["iql", "vdn"])
@pytest.mark.parametrize("recurrent", [False, True])
def test_the_detector_draws_transitions_in_which_somebody_acted(algorithm: str, recurrent: bool) -> None:
    """A policy whose agent did not act in the round has no measurement."""
    settings = {"normaliseRewards": False, "batchSize": 10}
    made = learner_of if recurrent else lambda *classes, **fields: QLearner(team(*classes, **fields))
    learner = made(*CLASSES, algorithm=algorithm, settings=settings, reward="team")
    for round in (1, 2):
        part = remembering(*CLASSES, length=10, envs=3, deaths=0.2, seed=round)
        if round == 2:
            for name in ("alive", "died"):
                part.by_class["adversary"][name][:] = False
        results = learner.update([part], round)
    joined = np.concatenate([one["alive"] for one in part.by_class.values()], axis=2)
    lives = {
        "adversary_0": joined[..., 0],
        "agent_0": joined[..., 1],
        "agent_1": joined[..., 2],
        "team": joined.any(2),
    }
    for policy, result in results.items():
        surrogate, alive = result.surrogate, int(lives[policy if algorithm == "iql" else "team"].sum())
        assert alive < surrogate.size == 30
        assert len(surrogate.drawable) == alive
        detector = Detector(GivenScaling(), 0, 8)
        assert len(detector.look(surrogate, 1)[0]) == min(alive, 8)
        assert (detector.measure(surrogate, 1).ratio is None) == (alive == 0)


@pytest.mark.parametrize(("group_batch", "lanes"), [("equal", 1), ("all", 2)])
def test_a_shared_policy_is_measured_on_what_it_learns_from(group_batch: str, lanes: int) -> None:
    settings = {"normaliseRewards": False}
    one = agent_class("agent", 2, size=4)
    built = team(one, algorithm="iql", settings=settings, group_batch=group_batch)
    learner = QLearner(built)
    learner.regroup({"agent_1": ["agent_0", "agent_1"]})
    target = learner.weights()
    fragments = [agents_fragment(one, length=10, envs=3)]
    results = learner.update(fragments, 1)
    surrogate = results["agent_1"].surrogate
    assert list(results) == ["agent_1"]
    assert surrogate.targets.shape == (lanes, 30)
    rewards, _ = targets_one_by_one(
        fragments, built, learner.agents, learner.weights(), target, gamma=built.settings.gamma
    )
    ended = fragments[0].tensors["terminated"].ravel()
    if lanes == 2:
        assert np.allclose(surrogate.targets[:, ended], rewards[:, ended], atol=1e-5)
    else:  # its agents by turns
        by_turns = rewards[np.arange(30) % 2, np.arange(30)]
        assert np.allclose(surrogate.targets[0, ended], by_turns[ended], atol=1e-5)
