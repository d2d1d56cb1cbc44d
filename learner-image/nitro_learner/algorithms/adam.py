"""Adam on the rows of a stack, a policy each: the kernel of `torch.optim.Adam(fused=True)` without its class.

Making that class imports torch's compiler. This takes three seconds of a learner's start, and nothing of it
is used here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_BETA1, _BETA2 = 0.9, 0.999


@dataclass(frozen=True, slots=True)
class AdamState:
    """Adam's state of one policy.

    Attributes:
        mean, square: moments of its gradients, f32 [n].
        steps: taken so far, f32 [].
    """

    mean: Tensor
    square: Tensor
    steps: Tensor

    @classmethod
    def fresh(cls, size: int, device: str = "cpu") -> AdamState:
        """The state before the first step."""
        mean, square = torch.zeros(2, size, device=device)
        return cls(mean, square, torch.zeros((), device=device))

    def copy(self) -> AdamState:
        """A copy that further steps do not change."""
        return AdamState(self.mean.clone(), self.square.clone(), self.steps.clone())

    def state_dict(self) -> dict[str, Tensor]:
        """Copies on the CPU, named as those of torch's Adam."""
        state = {"step": self.steps, "exp_avg": self.mean, "exp_avg_sq": self.square}
        return {name: value.detach().cpu().clone() for name, value in state.items()}

    @classmethod
    def of(cls, state: Mapping[str, Any], device: str = "cpu") -> AdamState:
        """Make it from `state_dict()`."""
        mean, square, steps = (
            torch.as_tensor(state[name], dtype=torch.float32).to(device, copy=True)
            for name in ("exp_avg", "exp_avg_sq", "step")
        )
        return cls(mean, square, steps)


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) with betas 0.9 and 0.999. Each row has its own moments and its
    own number of steps.

    adam = Adam(parameters, states, epsilon)
    adam.step(gradient, rate)       # in place: the parameters
    states = adam.states()
    """

    def __init__(self, parameters: Tensor, states: Sequence[AdamState], epsilon: float) -> None:
        """
        Args:
            parameters: f32 [P, n], changed in place.
            states: of each row; copied.
            epsilon: added to the root of the second moment.
        """
        self._epsilon = epsilon
        self._means = [state.mean.clone() for state in states]
        self._squares = [state.square.clone() for state in states]
        self._steps = [state.steps.clone() for state in states]
        self._rows = list(parameters.detach().unbind())

    @torch.no_grad()
    def step(self, gradient: Tensor, rate: float | Tensor) -> None:
        """Take one descent step of each row along its row of `gradient` [P, n], at a learning rate, f32 []
        where it is a tensor."""
        for steps in self._steps:
            steps += 1
        torch._fused_adam_(
            self._rows,
            list(gradient.unbind()),
            self._means,
            self._squares,
            [],
            self._steps,
            lr=rate,
            beta1=_BETA1,
            beta2=_BETA2,
            weight_decay=0.0,
            eps=self._epsilon,
            amsgrad=False,
            maximize=False,
        )

    def load(self, states: Sequence[AdamState]) -> None:
        """Go on from the rows' states, in the same tensors."""
        for index, state in enumerate(states):
            self._means[index].copy_(state.mean)
            self._squares[index].copy_(state.square)
            self._steps[index].copy_(state.steps)

    def states(self) -> list[AdamState]:
        """The rows' states, as copies."""
        return [
            AdamState(mean.clone(), square.clone(), steps.clone())
            for mean, square, steps in zip(self._means, self._squares, self._steps, strict=True)
        ]
