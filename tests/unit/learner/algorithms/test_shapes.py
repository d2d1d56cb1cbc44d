"""What enters an algorithm with another shape is refused, because broadcasting would hide it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nitro_learner.algorithms.impact.learning import denominator
from nitro_learner.algorithms.impact.vtrace import vtrace
from nitro_learner.algorithms.ppo.loss import Coefficients, explained_variance, gradients, terms
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.data import gae
from nitro_learner.data.batch import RewardLanes
from nitro_learner.networks.distributions import Gaussian
from nitro_learner.networks.normalise import RewardNormaliser

C = Coefficients(clip=0.2, kl=0.1, entropy=0.1, value=1.0, value_clip=10.0)


def samples(**other: Tensor) -> Samples:
    columns = {
        "observations": torch.zeros(6, 3),
        "actions": torch.zeros(6, 2),
        "log_probs": torch.zeros(6),
        "distribution": torch.zeros(6, 4),
        "advantages": torch.zeros(6),
        "returns": torch.zeros(6),
    }
    return Samples(**(columns | other))


def as_gradients(params: Tensor, values: Tensor) -> Any:
    return gradients(samples(), params, values, Gaussian(), C, scale=1.0)


def as_terms(params: Tensor, values: Tensor) -> Any:
    return terms(samples(), params, values, Gaussian(), C)


@pytest.mark.parametrize("function", [as_terms, as_gradients])
def test_the_loss_refuses_outputs_that_would_broadcast(function: Callable[..., Any]) -> None:
    function(torch.zeros(6, 4), torch.zeros(6))
    with pytest.raises(
        ValueError, match=re.escape("values has the shape (6, 1), but the samples' returns (6,)")
    ):
        function(torch.zeros(6, 4), torch.zeros(6, 1))
    with pytest.raises(
        ValueError, match=re.escape("params has the shape (1, 4), but the samples' distribution (6, 4)")
    ):
        function(torch.zeros(1, 4), torch.zeros(6))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("actions", (1, 2)),
        ("actions", (6, 2, 1)),
        ("log_probs", (6, 1)),
        ("distribution", (6,)),
        ("distribution", (1, 4)),
        ("advantages", (1,)),
        ("advantages", (6, 1)),
        ("returns", ()),
        ("returns", (6, 6)),
    ],
)
def test_samples_refuse_a_column_of_another_shape(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{name} has the shape {shape}")):
        samples(**{name: torch.zeros(shape)})


def test_samples_refuse_other_advantages_of_another_shape() -> None:
    with pytest.raises(ValueError, match=re.escape("advantages has the shape (6, 1)")):
        samples().with_advantages(torch.zeros(6, 1))


def lanes(**other: np.ndarray) -> dict[str, np.ndarray]:
    numbers = {name: np.zeros((4, 2)) for name in ("rewards", "values", "next_values")}
    ends = {name: np.zeros((4, 2), bool) for name in ("terminated", "truncated")}
    return numbers | ends | other


@pytest.mark.parametrize("name", ["values", "next_values", "terminated", "truncated"])
@pytest.mark.parametrize("shape", [(4, 1), (4,), (1, 2), (2,)])
def test_advantages_and_v_trace_refuse_lanes_that_would_broadcast(name: str, shape: tuple[int, ...]) -> None:
    wrong = lanes(**{name: np.zeros(shape, lanes()[name].dtype)})
    expected = re.escape(f"{name} has the shape {shape}, but rewards (4, 2)")
    with pytest.raises(ValueError, match=expected):
        gae.advantages(**wrong, gamma=0.9, lam=0.9)
    with pytest.raises(ValueError, match=expected):
        vtrace(np.zeros((4, 2)), **wrong, gamma=0.9)


def test_v_trace_refuses_ratios_that_would_broadcast() -> None:
    with pytest.raises(ValueError, match=re.escape("log_ratios has the shape (4, 1), but rewards (4, 2)")):
        vtrace(np.zeros((4, 1)), **lanes(), gamma=0.9)


@pytest.mark.parametrize(
    ("name", "shape"), [("last_values", (1,)), ("truncated", (4, 1)), ("final_values", (0, 1))]
)
def test_next_values_of_another_shape_are_refused(name: str, shape: tuple[int, ...]) -> None:
    given: dict[str, np.ndarray] = {
        "values": np.zeros((4, 2)),
        "last_values": np.zeros(2),
        "final_values": np.zeros(0),
        "terminated": np.zeros((4, 2), bool),
        "truncated": np.zeros((4, 2), bool),
    }
    gae.next_values(**given)
    with pytest.raises(ValueError, match=re.escape(f"{name} has the shape {shape}")):
        gae.next_values(**(given | {name: np.zeros(shape, given[name].dtype)}))


def test_the_explained_variance_is_of_as_many_values_as_returns() -> None:
    with pytest.raises(ValueError, match=re.escape("values has the shape (6, 1), but returns (6,)")):
        explained_variance(torch.zeros(6, 1), torch.zeros(6))


def test_impact_s_denominator_is_of_two_policies_at_the_same_actions() -> None:
    with pytest.raises(
        ValueError, match=re.escape("log_probs has the shape (6, 1), but target_log_probs (6,)")
    ):
        denominator(torch.zeros(6), torch.zeros(6, 1))


def rewards_of(slot: int = 0, *, envs: int = 2, resumed: bool = False) -> RewardLanes:
    shape = (8, envs)
    return RewardLanes(
        slot, resumed, np.zeros(shape, np.float32), np.zeros(shape, bool), np.ones(shape, bool)
    )


def test_rewards_are_not_normalised_with_ends_of_another_shape() -> None:
    wrong = replace(rewards_of(), ended=np.zeros((8, 1), bool))
    with pytest.raises(ValueError, match=re.escape("ended has the shape (8, 1), but rewards (8, 2)")):
        RewardNormaliser(0.9)([wrong])


def test_a_slot_cannot_go_on_with_other_environments() -> None:
    normaliser = RewardNormaliser(0.9)
    normaliser([rewards_of(3, envs=1)])
    with pytest.raises(ValueError, match=re.escape("the return carried by slot 3 has the shape (1,)")):
        normaliser([rewards_of(3, resumed=True)])
