"""Adam on one flat parameter: the kernel of `torch.optim.Adam(fused=True)` without its class.

Making that class imports torch's compiler. This takes three seconds of a learner's start, and nothing of it
is used here.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

_BETA1, _BETA2 = 0.9, 0.999


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) with betas 0.9 and 0.999.

    Args:
        parameter: leaf tensor, float32.
        rate: step size; may be changed between steps.
        epsilon: added to the root of the second moment.
    """

    def __init__(self, parameter: Tensor, rate: float, epsilon: float) -> None:
        self.rate = rate
        self._parameter = parameter
        self._epsilon = epsilon
        self._mean = torch.zeros_like(parameter, requires_grad=False)
        self._square = torch.zeros_like(parameter, requires_grad=False)
        self._steps = torch.zeros((), dtype=torch.float32, device=parameter.device)

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """Take one descent step along a gradient of the parameter's shape."""
        self._steps += 1
        adam_step(
            [self._parameter],
            [gradient],
            [self._mean],
            [self._square],
            [self._steps],
            rate=self.rate,
            epsilon=self._epsilon,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the moments and the number of steps, on the CPU."""
        state = {"step": self._steps, "exp_avg": self._mean, "exp_avg_sq": self._square}
        return {name: value.detach().cpu().clone() for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state_dict()`."""
        self._steps.copy_(torch.as_tensor(state["step"]))
        self._mean.copy_(torch.as_tensor(state["exp_avg"]))
        self._square.copy_(torch.as_tensor(state["exp_avg_sq"]))


def adam_step(
    parameters: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
    *,
    rate: float,
    epsilon: float,
) -> None:
    """Take Adam's step on each parameter, in place; `steps` already count it."""
    torch._fused_adam_(
        parameters,
        gradients,
        means,
        squares,
        [],
        steps,
        lr=rate,
        beta1=_BETA1,
        beta2=_BETA2,
        weight_decay=0.0,
        eps=epsilon,
        amsgrad=False,
        maximize=False,
    )
