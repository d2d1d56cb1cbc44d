"""Recurrent layers against torch.nn.GRU and against the actors'."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nitro_actor.memory import Gru
from nitro_learner.algorithms.agents.gru import scan, unroll

NETWORKS, SEQUENCES, LENGTH, INPUTS, SIZE = 2, 3, 7, 5, 4


def made(dtype: torch.dtype) -> tuple[list[torch.nn.GRU], Tensor, Tensor, Tensor]:
    """GRUs, their inputs [P, S, L, I], memories before the first step, and which steps keep the memory."""
    torch.manual_seed(0)
    layers = [torch.nn.GRU(INPUTS, SIZE, batch_first=True).to(dtype) for _ in range(NETWORKS)]
    x = torch.randn(NETWORKS, SEQUENCES, LENGTH, INPUTS, dtype=dtype)
    memory = torch.randn(NETWORKS, SEQUENCES, SIZE, dtype=dtype)
    keep = (torch.rand(LENGTH, NETWORKS, SEQUENCES, 1) > 0.3).to(dtype)
    keep[0] = 1
    return layers, x, memory, keep


def inputs(layers: list[torch.nn.GRU], x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What `unroll` takes of them besides memories: what gates see, weights and biases of the memory."""
    seen = torch.stack(
        [x[i] @ one.weight_ih_l0.t() + one.bias_ih_l0 for i, one in enumerate(layers)]
    ).permute(2, 0, 1, 3)
    weight = torch.stack([one.weight_hh_l0 for one in layers])
    return seen, weight, torch.stack([one.bias_hh_l0 for one in layers])


def by_torch(layers: list[torch.nn.GRU], x: Tensor, memory: Tensor, keep: Tensor) -> Tensor:
    """The memories after each step [L, P, S, H], by a call of torch.nn.GRU for each step of each sequence."""
    after = torch.empty(LENGTH, NETWORKS, SEQUENCES, SIZE, dtype=x.dtype)
    for i, layer in enumerate(layers):
        for s in range(SEQUENCES):
            h = memory[i, s]
            for t in range(LENGTH):
                h = h * keep[t, i, s]
                h = layer(x[i, s, t][None, None], h[None, None])[0][0, 0]
                after[t, i, s] = h
    return after


@pytest.mark.parametrize("run", [scan, unroll])
@pytest.mark.parametrize(("dtype", "exact"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_equals_pytorchs_and_its_gradients(run: object, dtype: torch.dtype, exact: float) -> None:
    layers, x, memory, keep = made(dtype)
    weights = torch.randn(LENGTH, NETWORKS, SEQUENCES, SIZE, dtype=dtype)
    parameters = [p for one in layers for p in one.parameters()]
    expected = by_torch(layers, x, memory, keep)
    wanted = torch.autograd.grad((expected * weights).sum(), parameters)
    seen, weight, bias = inputs(layers, x)
    found = run(seen, memory, keep, weight, bias)  # type: ignore[operator]
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=exact, check_dtype=True)
    got = torch.autograd.grad((found * weights).sum(), parameters)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=30 * exact)


def test_can_be_differentiated_twice() -> None:
    layers, x, memory, keep = made(torch.float64)
    seen, weight, bias = (part[:, :1] if part.dim() == 4 else part[:1] for part in inputs(layers, x))
    leaves = [part.detach().requires_grad_() for part in (seen[:3], weight, bias)]

    def output(seen: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return unroll(seen, memory[:1], keep[:3, :1], weight, bias)

    assert torch.autograd.gradgradcheck(output, leaves)


def test_equals_the_actors() -> None:
    layers, x, memory, keep = made(torch.float32)
    tensors = [
        {f"policy.gru.{name.removesuffix('_l0')}": p.detach().numpy() for name, p in one.named_parameters()}
        for one in layers
    ]
    actors, h = Gru({name: np.stack([one[name] for one in tensors]) for name in tensors[0]}), memory.numpy()
    expected = scan(*[part.detach() for part in (inputs(layers, x)[0], memory, keep)], *inputs(layers, x)[1:])
    for t in range(LENGTH):
        h = actors(x[:, :, t].numpy(), h * keep[t].numpy())
        np.testing.assert_allclose(h, expected[t].detach().numpy(), rtol=0, atol=1e-6)
