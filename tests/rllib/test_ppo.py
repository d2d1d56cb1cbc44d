"""RLlib's PPO behind our fragments: it learns, by the bit the same again, and its detector is ours."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData

import actor_support
from actor_support import environment
from learner_support import HOPPER, fragment, job, learner_of, lone_fragment, plain, train
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.boosting.detector import Detector
from nitro_learner.boosting.gradient_noise import gradient_noise
from nitro_learner.boosting.surrogate import Objective
from nitro_learner.checkpoints.store import load, pack
from nitro_learner.data.batch import Fragment
from nitro_rllib.episodes import episodes
from rllib_support import SMALL, algorithm, rllib_job

QUICK = {"num_epochs": 2, "minibatch_size": 64, "lr": 1e-3}


def _round(number: int) -> list[Fragment]:
    return [fragment(slot, length=64, seed=number) for slot in range(4)]


def _reloaded(learner: Any, directory: Path) -> dict[str, Any]:
    """Its state, through a checkpoint file."""
    path = directory / "state.safetensors"
    path.write_bytes(pack(1, learner.state_dict()))
    return load(path).state


@pytest.mark.parametrize(
    ("entry_point", "rounds", "least"),
    [("TwoState", 10, 19.0), ("Identity", 40, -1.0)],
)
def test_it_solves_small_environments(entry_point: str, rounds: int, least: float) -> None:
    """Through the actors' own rollout, whole batches included; Identity has continuous actions.

    In Identity no action at all has -6.7. Five seeds had -0.07 to -1.3 after 25 rounds, -0.004 to -0.3 after
    40.
    """
    environments = [environment("test", 4, f"learner_environments:{entry_point}") for _ in range(2)]
    spec = rllib_job(
        settings={"lr": 5e-3},
        network__hiddenSizes=[32],
        environment__rolloutLength=256,
        environment__envsPerActor=4,
        stop__rounds=rounds,
    )
    _, policy = train(spec, environments, rounds)
    result = actor_support.evaluate(environments[0], policy, seed=1, episodes=20, max_steps=100)
    assert float(result["episode_returns"].mean()) >= least


def _both() -> tuple[Any, Any]:
    """RLlib's PPO and ours, with the same start, loss and optimiser: one epoch over the whole batch."""
    ours = job(
        "paper",
        **SMALL,
        algorithm__hyperparameters__epochs=1,
        algorithm__hyperparameters__learningRate=1e-3,
    )
    theirs = algorithm(settings={"num_epochs": 1, "minibatch_size": 0, "lr": 1e-3})
    return theirs, learner_of(ours.spec, HOPPER)


def test_it_moves_as_our_own_ppo_does() -> None:
    """Equal rounds differ by arithmetic alone.

    (RLlib's advantages are standardised with its meaningless rows, so they are scaled by a few per cent.)
    """
    theirs, ours = _both()
    before = theirs.weights()[DEFAULT_POLICY].tensors
    for name, value in ours.weights()[DEFAULT_POLICY].tensors.items():
        assert (value == before[name]).all()
    fragments = [fragment(slot, length=512, ends=0.0) for slot in range(4)]
    theirs.update(fragments, 1)
    ours.update(fragments, 1)
    after = theirs.weights()[DEFAULT_POLICY].tensors
    for name, value in ours.weights()[DEFAULT_POLICY].tensors.items():
        moved = value - before[name]
        np.testing.assert_allclose(after[name] - before[name], moved, atol=0.05 * np.abs(moved).max())


@pytest.mark.parametrize("objective", ["total", "clip"])
def test_its_gradient_noise_is_our_own_ppo_s(objective: Objective) -> None:
    """What KungFu's scaler and the mode `noise` go by: one gradient for each trajectory, at the weights that
    sampled it."""
    fragments = [fragment(slot, envs=4) for slot in range(3)]
    theirs, ours = (
        gradient_noise(surrogate.trajectories(objective))
        for surrogate in (learner.update(fragments, 1)[DEFAULT_POLICY].surrogate for learner in _both())
    )
    assert theirs is not None
    assert ours is not None
    assert (theirs.signal, theirs.noise) == pytest.approx((ours.signal, ours.noise), rel=1e-4)


def test_equal_rounds_give_equal_weights_whatever_was_drawn_before() -> None:
    first, second = algorithm(settings=QUICK), algorithm(settings=QUICK)
    first.update(_round(1), 1)
    np.random.seed(3)
    torch.manual_seed(3)
    kept = np.random.get_state()[1].copy()
    second.update(_round(1), 1)
    assert (np.random.get_state()[1] == kept).all()
    assert pack(1, first.state_dict()) == pack(1, second.state_dict())


@pytest.mark.parametrize(
    "settings",
    [
        QUICK,
        QUICK | {"entropy_coeff": 0.01, "grad_clip": 0.5, "kl_target": 1e-4},
        QUICK | {"lr": [[0, 1e-3], [2000, 1e-4]], "minibatch_size": 0},
    ],
)
def test_a_restored_learner_goes_on_to_the_bit(tmp_path: Path, settings: dict[str, Any]) -> None:
    first = algorithm(settings=settings)
    first.update(_round(1), 1)
    first.update(_round(2), 2)
    second = algorithm(settings=settings)
    second.load_state_dict(_reloaded(first, tmp_path))
    for number in (3, 4):
        assert (
            first.update(_round(number), number)[DEFAULT_POLICY].stats
            == second.update(_round(number), number)[DEFAULT_POLICY].stats
        )
    assert pack(4, first.state_dict()) == pack(4, second.state_dict())


def test_an_earlier_state_is_restored_over_a_later_one(tmp_path: Path) -> None:
    """RLlib's own `set_state` would keep the later weights."""
    learner = algorithm(settings=QUICK)
    learner.update(_round(1), 1)
    earlier = _reloaded(learner, tmp_path)
    learner.update(_round(2), 2)
    once = pack(2, learner.state_dict())
    learner.load_state_dict(earlier)
    learner.update(_round(2), 2)
    assert pack(2, learner.state_dict()) == once


def test_the_adapted_kl_coefficient_is_restored(tmp_path: Path) -> None:
    first = algorithm(settings=QUICK | {"kl_target": 1e-5})
    first.update(_round(1), 1)
    second = algorithm(settings=QUICK | {"kl_target": 1e-5})
    second.load_state_dict(_reloaded(first, tmp_path))
    assert second.kl_coefficient == first.kl_coefficient == pytest.approx(0.3)


def test_a_new_run_takes_the_weights_and_moments_of_another_one(tmp_path: Path) -> None:
    """Its learning rate, its KL penalty and its counters are its own."""
    first = algorithm(settings=QUICK | {"kl_target": 1e-5})
    first.update(_round(1), 1)
    second = algorithm(settings=QUICK | {"kl_target": 1e-5, "lr": 5e-4})
    fresh = second.state_dict()
    second.adopt(_reloaded(first, tmp_path))
    saved, begun = first.state_dict(), second.state_dict()
    assert pack(1, saved["learner"]["rl_module"]) == pack(1, begun["learner"]["rl_module"])
    (there,), (here,), (own,) = (one["learner"]["optimizer"].values() for one in (saved, begun, fresh))
    assert pack(1, there["state"]["state"]) == pack(1, here["state"]["state"])
    assert here["state"]["param_groups"] == own["state"]["param_groups"]
    for name in ("kl_coefficient", "steps", "updates"):
        assert saved[name] != begun[name] == fresh[name]
    second.update(_round(1), 1)


def test_the_state_of_another_network_is_refused(tmp_path: Path) -> None:
    state = _reloaded(algorithm(), tmp_path)
    with pytest.raises(ValueError, match=r"the state is of the network .*16, 16.* this job's is .*8"):
        algorithm(network__hiddenSizes=[8]).load_state_dict(state)


def test_an_empty_round_and_weights_that_are_not_finite_end_in_a_sentence() -> None:
    learner = algorithm(settings=QUICK)
    with pytest.raises(ValueError, match="without fragments there is nothing to learn from"):
        learner.update([], 1)
    with torch.no_grad():
        learner.network.policy.head.bias.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match=r"round 1: .* NaN; lower spec.algorithm.rllib.lr"):
        learner.update(_round(1), 1)


def test_a_minibatch_above_the_batch_is_the_batch() -> None:
    """RLlib would fill it up with rows that it repeats."""
    learners = [algorithm(settings=QUICK | {"minibatch_size": size}) for size in (0, 100_000)]
    for learner in learners:
        learner.update(_round(1), 1)
    assert pack(1, learners[0].state_dict()) == pack(1, learners[1].state_dict())


def test_the_detector_s_objective_is_rllib_s_own_on_its_real_rows() -> None:
    """Computed a second time from RLlib's batch by RLlib's distributions."""
    learner = algorithm(settings=QUICK | {"clip_param": 0.05})
    fragments = _round(1)
    data = TrainingData(episodes=episodes(fragments))
    rows = learner.learner._make_batch_if_necessary(training_data=data).policy_batches[DEFAULT_MODULE_ID]
    surrogate = learner.update(fragments, 1)[DEFAULT_POLICY].surrogate
    mask = rows["loss_mask"]
    advantages = rows["advantages"][mask]
    advantages = (advantages - advantages.mean()) / advantages.std(correction=0)
    module = learner.learner.module[DEFAULT_MODULE_ID].unwrapped()
    outputs = module.forward_train({"obs": rows["obs"][mask]})["action_dist_inputs"]
    distribution = module.get_train_action_dist_cls().from_logits(outputs)
    ratio = torch.exp(distribution.logp(rows["actions"][mask]) - rows["action_logp"][mask])
    theirs = torch.min(ratio * advantages, ratio.clamp(0.95, 1.05) * advantages).mean()
    function = surrogate.function("clip", torch.arange(surrogate.size))
    ours = sum(term() for term in function.terms)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_images_stay_bytes_and_discrete_actions_work() -> None:
    image = {"channels": 4, "kernel": 4, "stride": 2}
    spec = rllib_job(
        settings=QUICK,
        network__type="conv",
        network__convLayers=json.dumps([image]),
        network__hiddenSizes=[8],
    ).spec
    place = {"observation": {"shape": [10, 10, 2], "dtype": "uint8"}, "action": {"kind": "discrete", "n": 3}}
    learner: Any = learner_of(spec, DescribedEnvironment.from_json(place))
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (65, 1, 10, 10, 2), np.uint8)
    logits = rng.standard_normal((64, 1, 3), np.float32)
    actions = rng.integers(0, 3, (64, 1))
    chosen = np.take_along_axis(logits, actions[..., None], -1)[..., 0] - np.log(np.exp(logits).sum(-1))
    images = {
        "observations": pixels[:-1],
        "last_observations": pixels[-1],
        "final_observations": pixels[:0, 0],
        "actions": actions,
        "distribution": logits,
        "log_probs": chosen.astype(np.float32),
    }
    made = fragment(length=64, ends=0.0)
    one = lone_fragment(made.meta, plain(made) | images)
    data = TrainingData(episodes=episodes([one]))
    rows = learner.learner._make_batch_if_necessary(training_data=data).policy_batches[DEFAULT_MODULE_ID]
    assert rows["obs"].dtype == torch.uint8
    before = learner.weights()[DEFAULT_POLICY].tensors
    result = learner.update([one], 1)[DEFAULT_POLICY]
    assert 0 < result.stats["entropy"] <= np.log(3) + 1e-6
    after = learner.weights()[DEFAULT_POLICY].tensors
    assert any("convolutions" in name for name in after)
    assert all((after[name] != before[name]).any() for name in after)


def test_bytes_that_are_no_image_are_numbers() -> None:
    """As for the actors, and for our own algorithms."""
    place = {**HOPPER.json, "observation": {"shape": [11], "dtype": "uint8"}}
    names = ("observations", "last_observations", "final_observations")
    states = []
    for dtype in (np.uint8, np.float32):
        learner: Any = learner_of(rllib_job(settings=QUICK).spec, DescribedEnvironment.from_json(place))
        fragments = [
            lone_fragment(
                one.meta,
                plain(one)
                | {name: np.abs(plain(one)[name]).astype(np.uint8).astype(dtype) for name in names},
            )
            for one in _round(1)
        ]
        learner.update(fragments, 1)
        states.append(pack(1, learner.state_dict()))
    assert states[0] == states[1]


def test_the_detector_measures_and_leaves_the_learner_as_it_was() -> None:
    learner = algorithm(settings=QUICK)
    result = learner.update(_round(1), 1)[DEFAULT_POLICY]
    before = pack(1, learner.state_dict())
    spec = rllib_job(settings=QUICK).spec
    for mode in ("paper", "artifact"):
        spec.scaling.mode = mode  # type: ignore[assignment]
        measured = Detector(spec.scaling, spec.seed, 128).measure(result.surrogate, 1)
        assert measured.ratio is not None
        assert measured.converged
        assert measured.lambda_min < 0 < measured.lambda_max
    assert pack(1, learner.state_dict()) == before
