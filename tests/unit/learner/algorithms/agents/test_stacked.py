"""Stacked networks: equal to separate ones, gradients by hand equal to autograd's, Adam row by row."""

import pytest
import torch
from torch import Tensor

from learner_support import module
from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.gradient import clip_rows
from nitro_learner.networks.images import Activation
from nitro_learner.networks.stacked import StackedPerceptron

POLICIES, ROWS, INPUTS, ACTIONS = 3, 17, 6, 5
TWO_HEADS = {"head": ACTIONS, "value": 1}


def _stack(
    activation: Activation = "tanh", *, heads: dict[str, int] | None = None
) -> tuple[StackedPerceptron, Tensor, Tensor]:
    network = StackedPerceptron(INPUTS, [8, 7], heads or {"head": ACTIONS}, activation)
    generator = torch.Generator().manual_seed(0)
    rows = [network.initial(generator, orthogonal=False, head_gains={}) for _ in range(POLICIES)]
    return network, torch.stack(rows), torch.randn(POLICIES, ROWS, INPUTS, generator=generator)


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _separately(network: StackedPerceptron, parameters: Tensor, x: Tensor, policy: int) -> Tensor:
    """One policy's outputs by plain torch, from the named parameters."""
    named = {name: value[policy] for name, value in network.views(parameters).items()}
    f = torch.tanh if network.activation == "tanh" else torch.relu
    h = x[policy]
    for layer in range(2):
        h = f(h @ named[f"layers.{layer}.weight"].T + named[f"layers.{layer}.bias"])
    heads = [name.removesuffix(".weight") for name in named if name.endswith("weight")][2:]
    return torch.cat([h @ named[f"{head}.weight"].T + named[f"{head}.bias"] for head in heads], dim=1)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("heads", [{"head": ACTIONS}, TWO_HEADS])
def test_a_stack_computes_what_its_policies_compute_separately(
    activation: Activation, heads: dict[str, int]
) -> None:
    network, parameters, x = _stack(activation, heads=heads)
    expected = torch.stack([_separately(network, parameters, x, p) for p in range(POLICIES)])
    torch.testing.assert_close(network(parameters, x), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(network.trace(parameters, x)[-1], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_a_policy_starts_as_in_a_run_of_one_agent(orthogonal: bool) -> None:
    single = module(INPUTS, [8, 7], {"kind": "discrete", "n": ACTIONS}, orthogonal=orthogonal, seed=3)
    network = StackedPerceptron(INPUTS, [8, 7], {"head": ACTIONS}, "tanh")
    generator = torch.Generator().manual_seed(3)
    row = network.initial(generator, orthogonal=orthogonal, head_gains={"head": 0.01})
    expected = dict(single.policy.named_parameters())
    views = network.views(row[None])
    assert views.keys() == expected.keys()
    for name, value in views.items():
        assert torch.equal(value[0], expected[name]), name


def test_views_share_memory_with_the_parameters() -> None:
    network, parameters, _ = _stack()
    network.views(parameters)["head.bias"][1] = 7.0
    assert (parameters[1] == 7.0).sum() == ACTIONS
    assert (parameters[[0, 2]] == 7.0).sum() == 0


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("heads", [{"head": ACTIONS}, TWO_HEADS])
def test_gradients_by_hand_equal_autograd_on_separate_networks(
    activation: Activation, heads: dict[str, int]
) -> None:
    network, parameters, x = _stack(activation, heads=heads)
    by_output = _normal(POLICIES, ROWS, network.outputs)
    found = torch.full_like(parameters, 0.5)
    network.backpropagate(parameters, network.trace(parameters, x), by_output.clone(), found)
    leaf = parameters.clone().requires_grad_()
    outputs = torch.stack([_separately(network, leaf, x, p) for p in range(POLICIES)])
    (expected,) = torch.autograd.grad((outputs * by_output).sum(), leaf)
    torch.testing.assert_close(found, expected + 0.5, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_stack_is_twice_differentiable(activation: Activation) -> None:
    network, parameters, x = _stack(activation)
    direction = _normal(*parameters.shape)

    def product(outputs: Tensor, leaf: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(outputs.pow(3).mean(), leaf, create_graph=True)
        (result,) = torch.autograd.grad((gradient * direction).sum(), leaf)
        return result

    leaf = parameters.clone().requires_grad_()
    separate = torch.stack([_separately(network, leaf, x, p) for p in range(POLICIES)])
    expected = product(separate, leaf)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(product(network(leaf, x), leaf), expected, rtol=1e-4, atol=1e-6)


def test_adam_steps_each_row_as_torch_steps_it_alone() -> None:
    rows = _normal(POLICIES, 11)
    alone = [row.clone().requires_grad_() for row in rows]
    theirs = [torch.optim.Adam([row], lr=0.01, eps=1e-5) for row in alone]
    states = [AdamState.fresh(11) for _ in range(POLICIES)]

    def step(which: list[int]) -> None:
        """A step of some of the rows, as when groups have unequal amounts of data."""
        gradient = _normal(len(which), 11)
        stacked = rows[which]
        adam = Adam(stacked, [states[p] for p in which], epsilon=1e-5)
        adam.step(gradient, 0.01)
        for p, row, state, g in zip(which, stacked, adam.states(), gradient, strict=True):
            rows[p], states[p] = row, AdamState.of(state.state_dict())
            alone[p].grad = g
            theirs[p].step()

    for which in ([0, 1, 2], [1], [0, 1], [0, 1, 2], [2, 0]):
        step(which)
    torch.testing.assert_close(rows, torch.stack(alone).detach(), rtol=1e-5, atol=1e-6)
    assert [int(state.steps) for state in states] == [4, 4, 3]


def test_clipping_scales_only_the_rows_that_are_too_long() -> None:
    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    clip_rows(gradient, 1.0)
    torch.testing.assert_close(gradient, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))
    unclipped = gradient.clone()
    clip_rows(gradient, 0)
    assert torch.equal(gradient, unclipped)
