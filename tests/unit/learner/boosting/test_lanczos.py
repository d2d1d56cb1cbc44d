"""Lanczos and Hessian-vector products against dense Hessians, SciPy, finite differences and known spectra."""

import gc
import math
import weakref
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn

from learner_support import module
from nitro_learner.boosting.hvp import Hessian
from nitro_learner.boosting.lanczos import extremes
from nitro_learner.boosting.surrogate import Function
from nitro_learner.networks.steps import Graphs
from recorded_steps import Recorded, by_torch

M = 64


class Objective:
    """A clipped surrogate on a small policy, and the same in plain PyTorch as a function of one flat
    vector."""

    def __init__(self, dtype: torch.dtype, sign: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(0)
        action = {"kind": "continuous", "size": 2, "low": [-1.0] * 2, "high": [1.0] * 2}
        self.network = module(4, [16, 16], action, seed=3).to(dtype)
        self.parameters = list(self.network.policy.parameters())
        self.x = torch.randn(M, 4, generator=generator).to(dtype)
        self.actions = torch.randn(M, 2, generator=generator).to(dtype)
        self.advantages = torch.randn(M, generator=generator).to(dtype)
        self.sign = sign
        old = self._log_prob(self.network.policy(self.x)).detach()
        self.old = old + 0.2 * torch.randn(M, generator=generator).to(dtype)

    def _log_prob(self, params: Tensor) -> Tensor:
        mean, log_std = params.chunk(2, -1)
        z = (self.actions - mean) * torch.exp(-log_std)
        return -(0.5 * z * z + log_std).sum(-1) - math.log(2 * math.pi)

    def _objective(self, params: Tensor, rows: slice) -> Tensor:
        ratio = torch.exp(self._log_prob(params)[rows] - self.old[rows])
        a = self.advantages[rows]
        return self.sign * torch.min(ratio * a, ratio.clamp(0.7, 1.3) * a).sum() / M

    def function(self, parts: int = 1) -> Function:
        bounds = np.linspace(0, M, parts + 1, dtype=int)
        slices = [slice(a, b) for a, b in pairwise(bounds)]
        return Function(
            [lambda s=s: self._objective(self.network.policy(self.x), s) for s in slices],
            self.parameters,
        )

    def flat(self) -> Tensor:
        return nn.utils.parameters_to_vector(self.parameters).detach()

    def plain(self, flat: Tensor) -> Tensor:
        parts = flat.split([p.numel() for p in self.parameters])
        w1, b1, w2, b2, w3, b3 = (v.view_as(p) for v, p in zip(parts, self.parameters, strict=True))
        params = torch.tanh(torch.tanh(self.x @ w1.t() + b1) @ w2.t() + b2) @ w3.t() + b3
        return self._objective(params, slice(None))

    def dense(self) -> Tensor:
        return torch.func.hessian(self.plain)(self.flat())


def start(n: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 3])
def test_products_and_extremes_equal_the_dense_hessians(parts: int) -> None:
    objective = Objective(torch.float64)
    dense = objective.dense()
    assert 400 < len(dense) < 600
    with Hessian(objective.function(parts)) as operator:
        v = start(operator.size)
        torch.testing.assert_close(operator(v), dense @ v, rtol=1e-9, atol=1e-12)
        found = extremes(operator, v)
    spectrum = torch.linalg.eigvalsh(dense)
    assert found.converged
    assert found.smallest == pytest.approx(spectrum[0].item(), rel=2e-3)
    assert found.largest == pytest.approx(spectrum[-1].item(), rel=2e-3)
    # A residual bounds the distance to an eigenvalue.
    assert (spectrum - found.smallest).abs().min() <= found.residuals[0] + 1e-12
    assert (spectrum - found.largest).abs().min() <= found.residuals[1] + 1e-12


def test_eigenvectors_are_those_of_the_extremes() -> None:
    objective = Objective(torch.float64)
    with Hessian(objective.function()) as operator:
        found = extremes(operator, start(operator.size), max_iterations=60, vectors=True)
        assert found.vectors is not None
        for theta, vector, residual in zip(
            (found.smallest, found.largest), found.vectors, found.residuals, strict=True
        ):
            assert vector.norm().item() == pytest.approx(1)
            assert (operator(vector) - theta * vector).norm().item() == pytest.approx(residual, abs=1e-9)
        assert extremes(operator, start(operator.size)).vectors is None


def test_equals_scipys_eigsh() -> None:
    objective = Objective(torch.float64)
    with Hessian(objective.function()) as operator:

        def matvec(v: np.ndarray) -> np.ndarray:
            return operator(torch.from_numpy(v.ravel().copy())).numpy()

        linear = LinearOperator((operator.size, operator.size), matvec=matvec, dtype=np.float64)
        low, high = np.sort(eigsh(linear, k=2, which="BE", return_eigenvectors=False))
        found = extremes(operator, start(operator.size), max_iterations=40)
    assert found.smallest == pytest.approx(low, rel=2e-3)
    assert found.largest == pytest.approx(high, rel=2e-3)


def test_float32_equals_float64() -> None:
    results = []
    for dtype in (torch.float32, torch.float64):
        with Hessian(Objective(dtype).function()) as operator:
            results.append(extremes(operator, start(operator.size).to(dtype)))
    assert results[0].smallest == pytest.approx(results[1].smallest, rel=1e-4)
    assert results[0].largest == pytest.approx(results[1].largest, rel=1e-4)


@pytest.mark.parametrize("parts", [1, 2])
def test_replayed_products_are_computed_ones(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    by_torch(monkeypatch)
    objective, recorder = Objective(torch.float32), Recorded()
    function = objective.function(parts)
    with Hessian(function) as computed, Hessian(function, Graphs(recorder, "A product")) as replayed:
        vectors = [start(computed.size, torch.float32, seed) for seed in range(4)]
        for vector in vectors:
            assert torch.equal(replayed(vector), computed(vector))
        assert (recorder.captures, recorder.replays) == (1, 3)
        assert extremes(replayed, vectors[0]) == extremes(computed, vectors[0])


def test_is_symmetric() -> None:
    with Hessian(Objective(torch.float64).function()) as operator:
        for seed in range(5):
            u, v = start(operator.size, seed=seed), start(operator.size, seed=seed + 100)
            assert torch.dot(u, operator(v)).item() == pytest.approx(
                torch.dot(v, operator(u)).item(), rel=1e-9
            )


def test_equals_finite_differences_of_the_gradient() -> None:
    objective = Objective(torch.float64)
    gradient = torch.func.grad(objective.plain)
    flat, h = objective.flat(), 1e-6
    with Hessian(objective.function()) as operator:
        for seed in range(3):
            v = start(operator.size, seed=seed)
            v /= v.norm()
            difference = (gradient(flat + h * v) - gradient(flat - h * v)) / (2 * h)
            torch.testing.assert_close(operator(v), difference, rtol=1e-5, atol=1e-8)


def test_ratio_of_the_loss_is_the_inverse_of_the_objectives() -> None:
    found = []
    for sign in (1.0, -1.0):
        with Hessian(Objective(torch.float64, sign).function()) as operator:
            found.append(extremes(operator, start(operator.size)))
    objective, loss = (-f.largest / f.smallest for f in found)
    assert objective * loss == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(
    "spectrum",
    [
        pytest.param(np.linspace(0.5, 3, 50), id="positive"),
        pytest.param(-np.linspace(0.5, 3, 50), id="negative"),
        pytest.param(np.linspace(-1, 2, 50), id="indefinite"),
        pytest.param(np.r_[[-3] * 20, np.linspace(-1, 1, 40), [5] * 20], id="duplicated extremes"),
        pytest.param(np.r_[np.zeros(90), [-2, 7]], id="rank two"),
        pytest.param(np.ones(30), id="multiple of the identity"),
        pytest.param(np.array([-4.0]), id="one parameter"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quadratics_of_known_spectrum(spectrum: np.ndarray, dtype: torch.dtype) -> None:
    diagonal = torch.tensor(spectrum, dtype=dtype)
    theta = torch.ones(len(spectrum), dtype=dtype, requires_grad=True)
    with Hessian(Function([lambda: 0.5 * (diagonal * theta**2).sum()], [theta])) as operator:
        found = extremes(operator, start(len(spectrum)).to(dtype), max_iterations=40)
    assert found.converged
    assert found.smallest == pytest.approx(spectrum.min(), rel=2e-3, abs=1e-5)
    assert found.largest == pytest.approx(spectrum.max(), rel=2e-3, abs=1e-5)


def test_a_flat_function_has_a_zero_spectrum() -> None:
    theta = torch.ones(10, requires_grad=True)
    with Hessian(Function([lambda: (2 * theta).sum()], [theta])) as operator:
        found = extremes(operator, start(10, torch.float32))
    assert (found.smallest, found.largest, found.iterations) == (0.0, 0.0, 1)


def test_a_product_that_is_not_finite_gives_nan() -> None:
    found = extremes(lambda v: v * math.nan, start(10))
    assert math.isnan(found.smallest)
    assert math.isnan(found.largest)
    assert not found.converged


def test_the_iteration_limit_ends_lanczos_and_is_reported() -> None:
    diagonal = torch.linspace(-1, 1, 5000, dtype=torch.float64)
    found = extremes(lambda v: diagonal * v, start(5000))
    assert found.iterations == 20
    assert not found.converged
    assert max(found.residuals) > 1e-3
    assert found.largest == pytest.approx(1, abs=0.1)


def test_leaves_no_trace() -> None:
    objective = Objective(torch.float32)
    network = objective.network
    for p in network.parameters():
        p.grad = torch.full_like(p, 7.0)
    network.train()
    before = objective.flat().clone(), torch.get_rng_state(), np.random.get_state()[1].copy()
    with Hessian(objective.function(parts=2)) as operator:
        extremes(operator, start(operator.size, torch.float32))
    assert torch.equal(objective.flat(), before[0])
    assert all(bool((p.grad == 7).all()) for p in network.parameters() if p.grad is not None)
    assert torch.equal(torch.get_rng_state(), before[1])
    assert np.array_equal(np.random.get_state()[1], before[2])
    assert network.training


def test_frees_the_graph_without_the_garbage_collector() -> None:
    intermediate: list[weakref.ref[Tensor]] = []
    objective = Objective(torch.float32)

    def value() -> Tensor:
        x = objective.x.clone()
        intermediate.append(weakref.ref(x))
        return objective.network.policy(x).square().mean()

    gc.disable()
    try:
        with Hessian(Function([value], objective.parameters)) as operator:
            operator(start(operator.size, torch.float32))
            assert intermediate[0]() is not None
        assert intermediate[0]() is None
    finally:
        gc.enable()
