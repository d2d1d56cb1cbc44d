"""Extreme eigenvalues of a symmetric operator by Lanczos with full reorthogonalisation (Golub and Van Loan,
section 10.1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

TOLERANCE = 1e-3
"""An extreme theta has converged at a residual of TOLERANCE * max(|theta|, 1e-3 s), s the largest
magnitude."""

FIRST_TEST = 8
MAX_ITERATIONS = 20


@dataclass(frozen=True, slots=True)
class Extremes:
    """Smallest and largest eigenvalue.

    Attributes:
        smallest: lambda_min; NaN if a product was not finite.
        largest: lambda_max; NaN likewise.
        residuals: ||H x - theta x|| of the two: an eigenvalue lies so close to each.
        iterations: products used.
        converged: whether both residuals met the tolerance.
        vectors: unit eigenvectors of the two, [2, n]; None unless they were asked for.
    """

    smallest: float
    largest: float
    residuals: tuple[float, float]
    iterations: int
    converged: bool
    vectors: Tensor | None = None


def extremes(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    max_iterations: int = MAX_ITERATIONS,
    *,
    vectors: bool = False,
) -> Extremes:
    """Both extreme eigenvalues of a symmetric operator.

    Args:
        product: v [n] to H v [n], in start's dtype.
        start: a random vector [n]; an eigenvector orthogonal to it is not found.
    """
    breakdown = 1e-10 if start.dtype == torch.float64 else 1e-6
    max_iterations = min(max_iterations, len(start))
    basis = torch.empty((max_iterations, len(start)), dtype=start.dtype, device=start.device)
    basis[0] = start / start.norm()
    alphas: list[float] = []
    betas: list[float] = []
    while True:
        m = len(alphas) + 1
        q = basis[:m]
        w = product(q[-1])
        alphas.append(float(w @ q[-1]))
        w = w - alphas[-1] * q[-1]
        if betas:
            w -= betas[-1] * q[-2]
        for _ in range(2):  # the recurrence alone loses orthogonality and repeats converged eigenvalues
            w = w - q.t() @ (q @ w)
        betas.append(float(w.norm()))
        if not math.isfinite(alphas[-1]) or not math.isfinite(betas[-1]):
            return Extremes(math.nan, math.nan, (math.nan, math.nan), m, converged=False)
        exhausted = betas[-1] <= breakdown * _scale(alphas, betas) or m == max_iterations
        if exhausted or m >= FIRST_TEST:
            result = _ritz(alphas, betas, breakdown)
            if result.converged or exhausted:
                return replace(result, vectors=_vectors(alphas, betas, q)) if vectors else result
        basis[m] = w / betas[-1]


def _vectors(alphas: list[float], betas: list[float], basis: Tensor) -> Tensor:
    """Ritz vectors [2, n] of the smallest and the largest eigenvalue, from the basis [m, n]."""
    _, coordinates = np.linalg.eigh(_tridiagonal(alphas, betas))
    chosen = torch.from_numpy(np.ascontiguousarray(coordinates[:, [0, -1]].T)).to(basis.device, basis.dtype)
    return chosen @ basis


def _scale(alphas: list[float], betas: list[float]) -> float:
    """The largest magnitude of T's eigenvalues."""
    return float(np.abs(np.linalg.eigvalsh(_tridiagonal(alphas, betas))).max())


def _tridiagonal(alphas: list[float], betas: list[float]) -> np.ndarray:
    off = np.array(betas[:-1])
    return np.diag(np.array(alphas)) + np.diag(off, 1) + np.diag(off, -1)


def _ritz(alphas: list[float], betas: list[float], breakdown: float) -> Extremes:
    thetas, vectors = np.linalg.eigh(_tridiagonal(alphas, betas))
    scale = max(abs(thetas[0]), abs(thetas[-1]))
    low, high = betas[-1] * abs(vectors[-1, 0]), betas[-1] * abs(vectors[-1, -1])
    invariant = betas[-1] <= breakdown * scale
    converged = invariant or all(
        residual <= TOLERANCE * max(abs(theta), 1e-3 * scale)
        for theta, residual in ((thetas[0], low), (thetas[-1], high))
    )
    return Extremes(
        float(thetas[0]), float(thetas[-1]), (float(low), float(high)), len(alphas), bool(converged)
    )
