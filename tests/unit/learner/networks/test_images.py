"""Images in the learner: stacks made again, networks like the actors', gradients, and what does not fit."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from actor_support import environment, policy_of, rollout, spec_of
from learner_support import job, learner_of, lone_fragment, module, module_of, plain
from nitro_actor.actions import Discrete
from nitro_actor.config import AtariConfig, EnvironmentConfig
from nitro_actor.environment import Environment
from nitro_actor.make_env import make_env
from nitro_actor.policy import Policies
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY, WeightsContainer
from nitro_api.spec.network import ConvLayer, ImageTooSmall, image_sizes
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.base import OnPolicyLearner
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.boosting.detector import Detector
from nitro_learner.networks.architecture import NetworkMisfit
from nitro_learner.networks.images import Image

LAYERS = [
    ConvLayer(channels=3, kernel=4, stride=2, padding="same"),
    ConvLayer(channels=4, kernel=3, stride=1, padding="valid"),
]


class Watched(Policies):
    """A policy that keeps what it saw."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[np.ndarray] = []
        own = self.classes[AGENT]
        answer = own.distribution

        def distribution(observations: np.ndarray, *more: Any) -> None:
            self.seen.append(observations.copy())
            answer(observations, *more)

        own.distribution = distribution  # type: ignore[method-assign]


def colours(stack: int, count: int = 3) -> Environment:
    """Episodes of 7 steps at most, some cut and some ended, of coloured pictures."""
    return make_env(
        EnvironmentConfig("colours", count, {}, "learner_environments:Colours", frame_stack=stack)
    )


def watched(env: Environment, preset: str = "tuned", **settings: Any) -> tuple[OnPolicyLearner, Watched]:
    algorithm = learner_of(job(preset, **settings).spec, DescribedEnvironment.from_json(env.spec.to_json()))
    return algorithm, Watched(
        WeightsContainer.of_one_agent("run", 1, algorithm.weights()[DEFAULT_POLICY]), env.spec.classes
    )


@pytest.mark.parametrize("stack", [1, 2, 4])
def test_frame_stacks_equal_those_that_the_policy_saw(stack: int) -> None:
    """Over ends of episodes, cuts, the begin of a fragment and episodes that go on from the last one."""
    env = colours(stack)
    _, policy = watched(env, network__hiddenSizes=[4])
    state: dict[str, np.ndarray] = {}
    finals = 0
    for seed in range(3):
        policy.seen.clear()
        tensors = rollout(env, policy, seed=seed, steps=3 * 20, state=state)
        state = {n.removeprefix("state/"): a for n, a in tensors.items() if n.startswith("state/")}
        whole = plain(lone_fragment({}, tensors))
        assert "earlier_observations" not in whole
        np.testing.assert_array_equal(whole["observations"], np.stack(policy.seen))
        np.testing.assert_array_equal(whole["last_observations"], env.observations[AGENT])
        assert tensors["observations"].nbytes * stack == whole["observations"].nbytes
        # The true last observation of a cut episode: what the policy saw, moved on by the final frame.
        cuts = np.argwhere(tensors["truncated"] & ~tensors["terminated"])
        finals += len(cuts)
        for row, (t, e) in enumerate(cuts):
            frames = [*np.split(policy.seen[t][e], stack, axis=-1)[1:], tensors["final_observations"][row]]
            np.testing.assert_array_equal(whole["final_observations"][row], np.concatenate(frames, -1))
    assert finals > 3


def test_an_atari_fragment_carries_each_frame_once_and_signs_of_rewards() -> None:
    config = {"id": "ALE/SpaceInvaders-v5", "frame_stack": 4, "atari": AtariConfig()}
    env = make_env(EnvironmentConfig(count=2, clip_rewards=True, **config))  # type: ignore[arg-type]
    layers = [{"channels": 2, "kernel": 8, "stride": 8}]
    _, policy = watched(env, "paper", environment__id="ALE/SpaceInvaders-v5", network__convLayers=layers)
    tensors = rollout(env, policy, seed=1, steps=400, state={})
    assert tensors["observations"].shape == (200, 2, 84, 84)
    assert tensors["earlier_observations"].shape == (2, 3, 84, 84)
    np.testing.assert_array_equal(plain(lone_fragment({}, tensors))["observations"], np.stack(policy.seen))
    assert set(np.unique(tensors["rewards"])) == {0.0, 1.0}
    # Returns stay what the game pays: its smallest reward is 5.
    running = tensors["state/returns"].sum() + tensors["episode_returns"].sum()
    assert running >= 5 * tensors["rewards"].sum()


@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_policy_equals_the_actors_policy(preset: str) -> None:
    spec = spec_of("ALE/SpaceInvaders-v5", (84, 84), "uint8", Discrete(6), 4)
    algorithm = learner_of(
        job(preset, environment__id=spec.id).spec, DescribedEnvironment.from_json(spec.to_json())
    )
    assert isinstance(algorithm, Ppo)
    with torch.no_grad():
        module_of(algorithm).policy.head.weight *= 100 if preset == "tuned" else 10
    observations = np.random.default_rng(0).integers(0, 256, (5, 84, 84, 4), np.uint8)
    expected = module_of(algorithm).policy(torch.from_numpy(observations)).detach().numpy()
    assert np.abs(expected).max() > 0.1
    actual = np.empty((5, 6), np.float32)
    policy_of(algorithm.weights()[DEFAULT_POLICY], spec).distribution(observations, None, actual)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def network(hidden: Sequence[int] = (5,), **options: Any) -> Any:
    action = {"kind": "discrete", "n": 3}
    return module(Image(9, 10, 2), list(hidden), action, type="conv", conv_layers=LAYERS, **options)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [[], [5]])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_gradients_by_hand_equal_autograds(activation: str, hidden: list[int], dtype: torch.dtype) -> None:
    net = network(hidden, activation=activation, seed=1)
    sums = copy.deepcopy(net).requires_grad_(False)
    for p in sums.parameters():
        p.zero_()
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (6, 9, 10, 2), generator=generator).to(dtype) / (
        1 if dtype == torch.uint8 else 255
    )
    x = x.to(dtype)
    theta, shape = net.bound(), net.shape
    trace = shape.trace(theta, x, x, None)
    by_params = torch.randn(6, 3, generator=generator)
    torch.testing.assert_close(net.policy(x).detach(), trace.distribution, rtol=1e-5, atol=1e-6)
    expected = torch.autograd.grad(net.policy(x), list(net.policy.parameters()), by_params)
    shape.backpropagate(theta, trace, by_params.clone(), torch.zeros(6), sums.bound())
    for (name, p), e in zip(sums.policy.named_parameters(), expected, strict=True):
        scale = float(e.abs().max()) + 1e-6
        torch.testing.assert_close(p, e, rtol=0, atol=5e-6 * scale, msg=lambda m, n=name: f"{n}: {m}")
    assert not any(p.any() for p in sums.critic.parameters())


def test_initialisation_is_seeded_and_orthogonal_where_asked() -> None:
    first, again, other = (nn.utils.parameters_to_vector(network(seed=s).parameters()) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    weight = network(orthogonal=True).policy.get_submodule("convolutions.layers.0").weight.flatten(1)
    torch.testing.assert_close(weight @ weight.t(), 2 * torch.eye(3), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_ratio_of_a_round_is_that_of_the_dense_hessian() -> None:
    """PPO learns from images, and the detector's extremes are those of the dense Hessian."""
    env = colours(2)
    layers = [{"channels": 2, "kernel": 3, "stride": 2}]
    algorithm, policy = watched(
        env,
        "paper",
        network__convLayers=layers,
        network__activation="tanh",
        algorithm__hyperparameters__epochs=2,
    )
    before = {name: array.copy() for name, array in algorithm.weights()[DEFAULT_POLICY].tensors.items()}
    fragments = [
        lone_fragment({"slot": slot, "resumed": False}, rollout(env, policy, seed=slot, steps=48, state={}))
        for slot in range(2)
    ]
    result = algorithm.update(fragments, 1)[DEFAULT_POLICY]
    assert all(
        not np.array_equal(before[name], array)
        for name, array in algorithm.weights()[DEFAULT_POLICY].tensors.items()
    )
    function = result.surrogate.function("clip", torch.arange(96))
    value = sum(term() for term in function.terms)
    assert isinstance(value, torch.Tensor)
    grads = torch.autograd.grad(value, list(function.parameters), create_graph=True)
    rows = [
        torch.cat([r.flatten() for r in torch.autograd.grad(g, list(function.parameters), retain_graph=True)])
        for g in torch.cat([g.flatten() for g in grads])
    ]
    spectrum = torch.linalg.eigvalsh(torch.stack(rows).double())
    measurement = Detector(GivenScaling(), 0, 96).measure(result.surrogate, 1)
    assert measurement.lambda_min == pytest.approx(spectrum[0].item(), rel=1e-2)
    assert measurement.lambda_max == pytest.approx(spectrum[-1].item(), rel=1e-2)


@pytest.mark.parametrize(
    ("shape", "layers", "message"),
    [
        ([11], None, r"needs images .* of Hopper-v5 have \[11\]. Set it to mlp"),
        (
            [3, 84, 84],
            [{"channels": 4, "kernel": 8}],
            r"convLayers\[0\] has filters of 8 x 8, .* channels last",
        ),
        (
            [9, 9],
            [{"channels": 4, "kernel": 8}, {"channels": 4, "kernel": 3}],
            r"convLayers\[1\] has filters",
        ),
    ],
)
def test_layers_that_do_not_fit_the_image_are_named(shape: list[int], layers: Any, message: str) -> None:
    spec = job(network__type="conv", **({"network__convLayers": layers} if layers else {})).spec
    environment_spec = environment("Hopper-v5", 1).spec.to_json()
    environment_spec["observation"] = {"shape": shape, "dtype": "float32", "frame": shape, "stack": 1}
    with pytest.raises(NetworkMisfit, match=message):
        learner_of(spec, DescribedEnvironment.from_json(environment_spec))


def test_image_sizes() -> None:
    paper = [
        ConvLayer(channels=16, kernel=8, stride=4, padding="same"),
        ConvLayer(channels=32, kernel=4, stride=2, padding="same"),
        ConvLayer(channels=256, kernel=11),
    ]
    assert image_sizes(84, 84, paper) == [(21, 21), (11, 11), (1, 1)]
    with pytest.raises(ImageTooSmall, match="11 x 11, but the image that reaches it is 8 x 8") as caught:
        image_sizes(64, 64, paper)
    assert caught.value.layer == 2
