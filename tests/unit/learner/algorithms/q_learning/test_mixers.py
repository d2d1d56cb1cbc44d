"""Mixers: sums, monotonicity, and QMIX's network recomputed in NumPy."""

import numpy as np
import torch

from nitro_learner.algorithms.q_learning.mixers import Independent, Monotonic, Sum


def _mixer() -> tuple[Monotonic, torch.Tensor]:
    mixer = Monotonic(3, 5, units=4, hypernetwork_units=6)
    return mixer, 3 * mixer.initial(torch.Generator().manual_seed(0))


def test_independent_values_stay_as_they_are_and_vdn_adds_them() -> None:
    values, none = torch.randn(3, 7, generator=torch.Generator().manual_seed(0)), torch.zeros(0)
    assert torch.equal(Independent()(none, values, None), values)
    assert torch.equal(Sum()(none, values, None), values.sum(0)[None])


def test_qmix_never_falls_with_a_value() -> None:
    mixer, parameters = _mixer()
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(3, 500, generator=generator).requires_grad_()
    state = torch.randn(500, 5, generator=generator)
    (slopes,) = torch.autograd.grad(mixer(parameters, values, state).sum(), values)
    assert (slopes >= 0).all()
    assert (slopes > 1e-3).float().mean() > 0.9


def test_qmix_weighs_values_by_the_state() -> None:
    mixer, parameters = _mixer()
    values = torch.ones(3, 2).requires_grad_()
    state = torch.tensor([[1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0]])
    (slopes,) = torch.autograd.grad(mixer(parameters, values, state).sum(), values)
    assert not torch.allclose(slopes[:, 0], slopes[:, 1])


def _linear(flat: np.ndarray, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weight, bias, and the rest of the parameters."""
    end = inputs * outputs
    return flat[:end].reshape(outputs, inputs), flat[end : end + outputs], flat[end + outputs :]


def test_qmix_is_the_network_of_the_paper() -> None:
    mixer, parameters = _mixer()
    rng = np.random.default_rng(2)
    values, state = rng.standard_normal((3, 8), np.float32), rng.standard_normal((8, 5), np.float32)
    rest = parameters.numpy()
    w1a, b1a, rest = _linear(rest, 5, 6)
    w1b, b1b, rest = _linear(rest, 6, 12)
    wb, bb, rest = _linear(rest, 5, 4)
    w2a, b2a, rest = _linear(rest, 5, 6)
    w2b, b2b, rest = _linear(rest, 6, 4)
    va, ca, rest = _linear(rest, 5, 4)
    vb, cb, rest = _linear(rest, 4, 1)
    assert len(rest) == 0
    expected = []
    for s, q in zip(state, values.T, strict=True):
        first = np.abs(w1b @ np.maximum(w1a @ s + b1a, 0) + b1b).reshape(4, 3)
        z = first @ q + wb @ s + bb
        hidden = np.where(z > 0, z, np.exp(z) - 1)
        second = np.abs(w2b @ np.maximum(w2a @ s + b2a, 0) + b2b)
        expected.append(second @ hidden + (vb @ np.maximum(va @ s + ca, 0) + cb)[0])
    mixed = mixer(parameters, torch.from_numpy(values), torch.from_numpy(state))
    assert np.allclose(mixed[0].numpy(), expected, rtol=1e-5, atol=1e-5)
