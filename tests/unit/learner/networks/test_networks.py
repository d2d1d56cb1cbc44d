"""Networks: the actors' policy, and gradients by hand against autograd."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from actor_support import action_of, policy_of, spec_of
from learner_support import fragment, job, learner_of, module, module_of, parts_of, plain
from nitro_actor.actions import Continuous, Discrete, MultiBinary, MultiDiscrete, WholeNumbers
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.spec.network import Network
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.networks import kernels
from nitro_learner.networks.actor_critic import ActorCritic

ONES = np.ones(3, np.float32)
CONTINUOUS = spec_of("test", (11,), "float32", Continuous(-ONES, ONES))
DISCRETE = spec_of("test", (11,), "float32", Discrete(4))
PARTS = spec_of("test", (11,), "float32", MultiDiscrete((4, 2, 5), (3,), (0, 0, 0), "int64"))
BITS = spec_of("test", (11,), "float32", MultiBinary((4,)))
SPECS = pytest.mark.parametrize(
    "spec", [CONTINUOUS, DISCRETE, PARTS, BITS], ids=lambda spec: action_of(spec).head
)


CONTINUOUS = {"kind": "continuous", "size": 3, "low": [-1.0] * 3, "high": [1.0] * 3}
DISCRETE = {"kind": "discrete", "n": 3}


def network(**options: Any) -> Any:
    return module(11, [32, 32], CONTINUOUS, **options)


@SPECS
@pytest.mark.parametrize("log_std", ["state", "parameter"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("normalise", [True, False])
def test_policy_equals_the_actors_policy(
    spec: EnvironmentSpec, log_std: str, activation: str, normalise: bool
) -> None:
    algorithm = learner_of(
        job(
            network__logStd=log_std,
            network__activation=activation,
            algorithm__hyperparameters__normaliseObservations=str(normalise).lower(),
        ).spec,
        DescribedEnvironment.from_json(spec.to_json()),
    )
    assert isinstance(algorithm, Ppo)
    shifted = fragment(length=200)
    plain(shifted)["observations"][:] = 3 + 20 * plain(shifted)["observations"]  # some are clipped at 10
    shape, parameters = parts_of(algorithm)
    observations = algorithm.learned[AGENT].observations
    if observations is not None:
        observations.merge(plain(shifted)["observations"])
    parameters += 0.3 * torch.randn(parameters.shape, generator=torch.Generator().manual_seed(0))
    raw = 60 * plain(shifted)["observations"][:, 0]
    inputs = observations(raw) if observations is not None else raw
    expected = module_of(algorithm).policy(torch.from_numpy(inputs)).detach().numpy()

    actor = policy_of(algorithm.weights()[DEFAULT_POLICY], spec)
    actual = np.empty((len(raw), actor.actions.parameters), np.float32)
    actor.distribution(raw, None, actual)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())

    rng, space = np.random.default_rng(0), action_of(spec)
    if isinstance(space, WholeNumbers):
        actions = rng.integers(space.counts, size=(len(raw), *space.shape))
    else:
        actions = expected[:, :3] + 0.5
    log_probs = shape.family.log_prob(torch.from_numpy(expected), torch.from_numpy(actions)).numpy()
    np.testing.assert_allclose(
        actor.actions.log_probabilities(expected, actions), log_probs, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("rows", [5, 700], ids=["small products", "large products"])
@pytest.mark.parametrize("head", ["gaussian", "categorical"])
@pytest.mark.parametrize("log_std", ["state", "parameter"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_gradients_by_hand_equal_autograds(rows: int, head: str, log_std: str, activation: str) -> None:
    action = CONTINUOUS if head == "gaussian" else DISCRETE
    net: Any = module(11, [64, 64], action, log_std=log_std, activation=activation, seed=1)
    sums = copy.deepcopy(net).requires_grad_(False)
    for p in sums.parameters():
        p.zero_()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 11, generator=generator)
    if head == "gaussian":  # some log-stds beyond both bounds, where the clamp's gradient is zero
        with torch.no_grad():
            if hasattr(net.policy, "log_std"):
                net.policy.log_std.copy_(torch.tensor([-21.0, 0.0, 2.5]))
            else:
                net.policy.head.bias[3:] = torch.tensor([-20.0, 0.0, 2.0])
    theta, shape = net.bound(), net.shape
    trace = shape.trace(theta, x, x, None)
    params = trace.distribution
    by_params = torch.randn(params.shape, generator=generator)
    torch.testing.assert_close(net.policy(x).detach(), params, rtol=1e-5, atol=1e-6)

    expected = torch.autograd.grad(net.policy(x), list(net.policy.parameters()), by_params)
    shape.backpropagate(theta, trace, by_params.clone(), torch.zeros(rows), sums.bound())
    for (name, p), e in zip(sums.policy.named_parameters(), expected, strict=True):
        scale = float(e.abs().max()) + 1e-6
        torch.testing.assert_close(p, e, rtol=0, atol=2e-6 * scale, msg=lambda m, n=name: f"{n}: {m}")
    assert not any(p.any() for p in sums.critic.parameters())


@pytest.mark.parametrize("alone", [True, False])
def test_a_row_has_each_parameter_once(alone: bool) -> None:
    settings = Network(type="mlp", hidden_sizes=[5], activation="tanh", log_std="parameter")
    shape = ActorCritic(11, 11, settings, CONTINUOUS, alone=alone)
    row = torch.zeros(1, shape.size)
    for index, tensor in enumerate(shape.bind(row).tensors(critic=True)):
        assert not tensor.any()
        tensor.fill_(index + 1)
    assert row.all()
    assert row.unique().tolist() == row.unique_consecutive().tolist(), "in the order of the row"


def test_parameter_names_equal_those_of_the_wire_format() -> None:
    names = {n for n, _ in network(log_std="parameter").named_parameters() if n.startswith("policy.")}
    layers = {f"policy.layers.{i}.{kind}" for i in range(2) for kind in ("weight", "bias")}
    assert names == layers | {"policy.head.weight", "policy.head.bias", "policy.log_std"}


def test_initialisation_is_seeded_and_leaves_global_randomness_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = network(seed=1), network(seed=1), network(seed=2)
    vectors = [nn.utils.parameters_to_vector(one.parameters()) for one in (first, again, other)]
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])
    assert torch.equal(before, torch.get_rng_state())


def test_orthogonal_initialisation() -> None:
    net = network(orthogonal=True)
    weight = net.policy.layers.get_submodule("1").weight
    torch.testing.assert_close(weight @ weight.t(), 2 * torch.eye(32), rtol=0, atol=1e-5)
    head = net.policy.head.weight
    torch.testing.assert_close(head @ head.t(), 1e-4 * torch.eye(6), rtol=0, atol=1e-8)
    assert not net.policy.head.bias.any()


def test_kernels_are_twice_differentiable() -> None:
    generator = torch.Generator().manual_seed(0)

    def double(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)

    inputs = (double(5, 3), double(4, 3), double(4))
    for function in (kernels.linear, lambda x, w, b: kernels.tanh(kernels.linear(x, w, b))):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.slow
@pytest.mark.parametrize(("stride", "padding"), [(1, [0, 0]), (2, [1, 0])])
def test_convolutions_equal_pytorchs_and_are_twice_differentiable(stride: int, padding: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    # With a stride of 2 the last row of 6 is seen by no filter.
    inputs = [
        torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((2, 2, 6, 5), (3, 2, 3, 3), (3,))
    ]

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return kernels.convolution(x, w, b, stride, padding)

    torch.testing.assert_close(function(*inputs), torch.conv2d(*inputs, stride, padding))
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize(("n", "i", "o"), [(3, 5, 7), (1024, 256, 256), (2048, 11, 256)])
def test_product_equals_pytorchs(
    n: int, i: int, o: int, onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_TAKES_ONEDNN", onednn)
    x, w, b = torch.randn(n, i), torch.randn(o, i), torch.randn(o)
    torch.testing.assert_close(kernels.matmul(x, w, b), x @ w.t() + b, rtol=1e-4, atol=1e-4)
    g = torch.randn(n, o)
    torch.testing.assert_close(kernels.matmul(g.t(), x.t()), g.t() @ x, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(kernels.matmul(g, w.t()), g @ w, rtol=1e-4, atol=1e-3)
