"""The landscape around a policy: return and surrogate on a plane through it (Nitro, figures 3 and 8).

The plane is spanned by the eigenvectors of the largest and the smallest eigenvalue, from which R is computed.
Along the first the surrogate curves up the most, along the second it curves down the most. Both have unit
length, so the axes are distances in parameter space.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_experiments.studies.probe import Probe
from nitro_learner.boosting.detector import Detector, convexity_ratio, transitions
from nitro_learner.boosting.surrogate import Function

Floats = NDArray[np.float64]


TABLE = ("along_lambda_max", "along_lambda_min", "return", "surrogate")
"""Columns of the CSV."""


@dataclass(frozen=True)
class Landscape:
    """Values on the plane; index [i, j] is at x[j] along the largest eigenvalue's direction and at x[i] along
    the smallest's.

    Attributes:
        round: the policy after this round is the middle.
        x: distances, f64 [n].
        returns: mean return by mean actions, f64 [n, n]; every point plays the same episodes.
        surrogate: its value on the round's data, f64 [n, n].
        ratio: R at the middle; None where it has no value.
        lambda_min: smallest eigenvalue.
        lambda_max: largest eigenvalue.
    """

    round: int
    x: Floats
    returns: Floats
    surrogate: Floats
    ratio: float | None
    lambda_min: float
    lambda_max: float

    def csv(self) -> str:
        """One line per point."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(TABLE)
        for i, j in product(range(len(self.x)), repeat=2):
            point = self.x[j], self.x[i], self.returns[i, j], self.surrogate[i, j]
            writer.writerow([repr(float(value)) for value in point])
        return buffer.getvalue()


async def survey(
    probe: Probe,
    *,
    points: int,
    span: float,
    episodes: int,
    progress: Callable[[int, int], None],
) -> Landscape:
    """Repeat the probe's round, and evaluate return and surrogate around the policy after it.

    Args:
        points: number of points per axis.
        span: the plane reaches from -span to span.
        episodes: number of episodes per point.
        progress: called after each point with the number of points done and the total.

    Raises:
        RoundFailed, BackendError, CacheError
        ValueError: the Hessian is not finite.
    """
    spec = probe.job.spec
    detector = Detector(spec.scaling, spec.seed, transitions(spec))
    update = await probe.update(await probe.sample(probe.actors))
    rows, spectrum = await probe.compute.measure(detector.look, update.surrogate, probe.round, vectors=True)
    if spectrum.vectors is None:
        raise ValueError(f"round {probe.round}: the Hessian is not finite, so it has no directions")
    function = update.surrogate.function(detector.objective, rows)
    plane = _Plane(function, up=spectrum.vectors[1], down=spectrum.vectors[0])
    x = np.linspace(-span, span, points)
    returns, surrogate = np.empty((points, points)), np.empty((points, points))
    for done, (i, j) in enumerate(product(range(points), repeat=2), start=1):
        with plane.at(x[j], x[i]):
            tensors = probe.policies.weights()[DEFAULT_POLICY].tensors
            surrogate[i, j] = await probe.compute.measure(_value, function)
        returns[i, j] = (await probe.returns(tensors, episodes)).mean()
        progress(done, points * points)
    return Landscape(
        round=probe.round,
        x=x,
        returns=returns,
        surrogate=surrogate,
        ratio=convexity_ratio(spectrum.smallest, spectrum.largest),
        lambda_min=spectrum.smallest,
        lambda_max=spectrum.largest,
    )


class _Plane:
    """Move a function's parameters over a plane through their present values."""

    def __init__(self, function: Function, up: Tensor, down: Tensor) -> None:
        self._parameters = list(function.parameters)
        self._middle = [parameter.detach().clone() for parameter in self._parameters]
        sizes = [parameter.numel() for parameter in self._parameters]
        self._up, self._down = torch.split(up, sizes), torch.split(down, sizes)
        self._place = (0.0, 0.0)

    def at(self, up: float, down: float) -> _Plane:
        self._place = (up, down)
        return self

    @torch.no_grad()
    def __enter__(self) -> None:
        along_up, along_down = self._place
        for parameter, middle, up, down in zip(
            self._parameters, self._middle, self._up, self._down, strict=True
        ):
            parameter.copy_(middle + along_up * up.view_as(middle) + along_down * down.view_as(middle))

    @torch.no_grad()
    def __exit__(self, *_: Any) -> None:
        for parameter, middle in zip(self._parameters, self._middle, strict=True):
            parameter.copy_(middle)


@torch.no_grad()
def _value(function: Function) -> float:
    return float(sum(term() for term in function.terms))
