"""Action spaces in arrays: actions, the parameters of their distributions, and sampling, in numpy.

    kind             actions         parameters, f32 [..., P]                   random numbers
    continuous       f32 [..., A]    means, then log standard deviations        standard normal [..., A]
    discrete         i64 [...]       the logits of N actions                    Gumbel [..., N]
    multiDiscrete    i64 [..., K]    the logits of each part, in their order    Gumbel [..., P]
    multiBinary      i64 [..., M]    the logit of each bit being 1              logistic [..., M]

All of them are without the environment's own shape, start and dtype. Whole numbers count from 0. The parts of
a multi-discrete action, and the bits of a multi-binary one, are independent of each other.

The table's continuous actions are those of the head `gaussian`. Two other heads squash actions into [-1, 1],
which stand for the environment's bounds:

    head               actions                 parameters                            random numbers
    squashedGaussian   tanh of a normal one    means, then log std, as above         standard normal [..., A]
    tanh               a tanh plus noise       what tanh is taken of, [..., A]       the noise itself [..., A]
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.matmul import Floats

LOG_STD_RANGE = (-20.0, 2.0)
"""Range that a log standard deviation is clamped to, in the actor as in the learner."""

_LARGEST = float(np.finfo(np.float32).max)
"""What float32 holds."""


class ActionSpace(ABC):
    """An action space.

    Attributes:
        head: the kind of distribution, as descriptions of networks name it.
        outputs: of a policy's head, without log standard deviations.
        shape: of one action in arrays.
    """

    head: str
    outputs: int
    parameters: int
    shape: tuple[int, ...]
    dtype: type[np.float32] | type[np.int64] = np.int64

    @property
    def bytes(self) -> int:
        """Of an action and its parameters."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape) + 4 * self.parameters

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The action of an EnvironmentSpec."""

    def network(self) -> dict[str, Any]:
        """What the description of a policy's network says of its distribution."""
        return {"head": self.head}

    @abstractmethod
    def noise(self, generator: np.random.Generator, leading: tuple[int, ...]) -> Floats:
        """Draw the random numbers of actions, f32 [*leading, .]."""

    @abstractmethod
    def sample(self, distribution: Floats, noise: Floats, out: np.ndarray) -> None:
        """Write actions; continuous ones are not clipped."""

    @abstractmethod
    def mode(self, distribution: Floats) -> np.ndarray:
        """The most probable actions; continuous ones are not clipped."""

    @abstractmethod
    def log_probabilities(self, distribution: Floats, actions: np.ndarray) -> Floats:
        """Log probability or density of each action, f32 [...]."""

    def bounded(self, actions: np.ndarray) -> np.ndarray:
        """Actions within the space: a sample of continuous ones may lie outside of it."""
        return actions

    def native(self, actions: np.ndarray) -> np.ndarray:
        """Actions [B, *shape] within the space, as users get them."""
        return self.bounded(actions)


class Continuous(ActionSpace):
    """Real numbers within bounds.

    Attributes:
        low, high: f32 [A], infinite where there is no bound.
        rescaled: whether -1 to 1 in arrays stand for `low` to `high` of the environment. Only `bounded` and
            `native` know the environment's numbers: what a policy draws and learns from stays as it is.
    """

    head = "gaussian"
    dtype = np.float32

    def __init__(
        self, low: NDArray[np.float32], high: NDArray[np.float32], *, rescaled: bool = False
    ) -> None:
        self.low, self.high, self.rescaled = low, high, rescaled
        self.outputs = len(low)
        self.parameters = 2 * len(low)
        self.shape = (len(low),)

    def to_json(self) -> dict[str, Any]:
        """See `ActionSpace`; a missing bound is null, and `rescaled` is left out where it is false."""
        low, high = (
            [float(n) if math.isfinite(n) else None for n in bound] for bound in (self.low, self.high)
        )
        action = {"kind": "continuous", "size": self.outputs, "low": low, "high": high}
        return action | {"rescaled": True} if self.rescaled else action

    def noise(self, generator: np.random.Generator, leading: tuple[int, ...]) -> Floats:
        return generator.standard_normal((*leading, self.outputs), np.float32)

    def sample(self, distribution: Floats, noise: Floats, out: np.ndarray) -> None:
        np.exp(distribution[..., self.outputs :], out=out)
        np.multiply(out, noise, out=out)
        np.add(out, distribution[..., : self.outputs], out=out)

    def mode(self, distribution: Floats) -> np.ndarray:
        return distribution[..., : self.outputs]

    def log_probabilities(self, distribution: Floats, actions: np.ndarray) -> Floats:
        mean, log_std = np.split(distribution, 2, axis=-1)
        deviation = (actions - mean) / np.exp(log_std)
        per_dimension = -0.5 * np.square(deviation) - log_std - np.float32(0.5 * math.log(2 * math.pi))
        total: Floats = per_dimension.sum(axis=-1)
        return total

    def bounded(self, actions: np.ndarray) -> np.ndarray:
        if self.rescaled:
            # A weighted mean of the bounds: their difference may be more than float32 holds.
            share = (np.minimum(np.maximum(actions, np.float32(-1)), np.float32(1)) + 1) * np.float32(0.5)
            actions = self.low * (1 - share) + self.high * share
        bounded: np.ndarray = np.minimum(np.maximum(actions, self.low), self.high)
        return bounded


class SquashedGaussian(Continuous):
    """Real numbers that are the tanh of normal ones, as SAC has them."""

    head = "squashedGaussian"

    def __init__(self, low: NDArray[np.float32], high: NDArray[np.float32]) -> None:
        super().__init__(low, high, rescaled=True)

    def sample(self, distribution: Floats, noise: Floats, out: np.ndarray) -> None:
        super().sample(distribution, noise, out)
        np.tanh(out, out=out)

    def mode(self, distribution: Floats) -> np.ndarray:
        """The tanh of the means."""
        squashed: np.ndarray = np.tanh(super().mode(distribution))
        return squashed

    def log_probabilities(self, distribution: Floats, actions: np.ndarray) -> Floats:  # noqa: ARG002
        raise TypeError(f"actors do not compute log probabilities of a head {self.head}")


class SquashedMean(SquashedGaussian):
    """Real numbers that are the tanh of a policy's outputs, with noise added, as DDPG and TD3 have them."""

    head = "tanh"

    def __init__(self, low: NDArray[np.float32], high: NDArray[np.float32]) -> None:
        super().__init__(low, high)
        self.parameters = self.outputs

    def sample(self, distribution: Floats, noise: Floats, out: np.ndarray) -> None:
        np.tanh(distribution, out=out)
        np.add(out, noise, out=out)
        np.minimum(out, np.float32(1), out=out)
        np.maximum(out, np.float32(-1), out=out)


SQUASHED: Mapping[str, type[SquashedGaussian]] = {
    space.head: space for space in (SquashedGaussian, SquashedMean)
}
"""Heads of continuous actions in [-1, 1]."""


class WholeNumbers(ActionSpace):
    """An action of whole numbers.

    Attributes:
        counts: i64 [*shape], how many values each of them has.
    """

    counts: NDArray[np.int64]

    def noise(self, generator: np.random.Generator, leading: tuple[int, ...]) -> Floats:
        return generator.gumbel(size=(*leading, self.outputs)).astype(np.float32)


class Discrete(WholeNumbers):
    """One of N actions.

    Attributes:
        start: the environment's lowest one.
    """

    head = "categorical"
    shape = ()

    def __init__(self, n: int, start: int = 0) -> None:
        self.outputs = self.parameters = n
        self.counts = np.array(n, np.int64)
        self.start = start

    def to_json(self) -> dict[str, Any]:
        """See `ActionSpace`; a start of 0 is left out."""
        action = {"kind": "discrete", "n": self.outputs}
        return action | {"start": self.start} if self.start else action

    def sample(self, distribution: Floats, noise: Floats, out: np.ndarray) -> None:
        np.argmax(distribution + noise, axis=-1, out=out)  # the Gumbel-max trick

    def mode(self, distribution: Floats) -> np.ndarray:
        chosen: NDArray[np.int64] = np.argmax(distribution, axis=-1)
        return chosen

    def log_probabilities(self, distribution: Floats, actions: np.ndarray) -> Floats:
        return _log_probabilities(distribution, actions)

    def native(self, actions: np.ndarray) -> np.ndarray:
        """Actions from the environment's own start."""
        return actions + self.start


class MultiDiscrete(WholeNumbers):
    """K numbers, each one of several values.

    Attributes:
        sizes: the number of values of each.
        native_shape: the environment's own shape of the K numbers.
        start: the lowest value of each in the environment.
        native_dtype: of the environment's actions.
    """

    head = "multiCategorical"

    def __init__(
        self, sizes: tuple[int, ...], native_shape: tuple[int, ...], start: tuple[int, ...], native_dtype: str
    ) -> None:
        self.sizes = sizes
        self.counts = np.array(sizes, np.int64)
        self.outputs = self.parameters = sum(sizes)
        self.shape = (len(sizes),)
        self.native_shape, self.start, self.native_dtype = native_shape, start, native_dtype
        ends = np.cumsum(sizes).tolist()
        self._parts = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "multiDiscrete",
            "sizes": list(self.sizes),
            "shape": list(self.native_shape),
            "start": list(self.start),
            "dtype": self.native_dtype,
        }

    def network(self) -> dict[str, Any]:
        return {"head": self.head, "sizes": list(self.sizes)}

    def sample(self, distribution: Floats, noise: Floats, out: np.ndarray) -> None:
        scores = distribution + noise
        for index, part in enumerate(self._parts):
            out[..., index] = scores[..., part].argmax(axis=-1)

    def mode(self, distribution: Floats) -> np.ndarray:
        return np.stack([distribution[..., part].argmax(axis=-1) for part in self._parts], axis=-1)

    def log_probabilities(self, distribution: Floats, actions: np.ndarray) -> Floats:
        total = np.zeros(actions.shape[:-1], np.float32)
        for index, part in enumerate(self._parts):
            total += _log_probabilities(distribution[..., part], actions[..., index])
        return total

    def native(self, actions: np.ndarray) -> np.ndarray:
        """Actions with the environment's own start, dtype and shape."""
        own = (actions + np.array(self.start, np.int64)).astype(self.native_dtype)
        return own.reshape(-1, *self.native_shape)


class MultiBinary(WholeNumbers):
    """M bits.

    Attributes:
        native_shape: the environment's own shape of them.
    """

    head = "bernoulli"

    def __init__(self, native_shape: tuple[int, ...]) -> None:
        self.native_shape = native_shape
        self.outputs = self.parameters = math.prod(native_shape)
        self.shape = (self.outputs,)
        self.counts = np.full(self.outputs, 2, np.int64)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "multiBinary", "size": self.outputs, "shape": list(self.native_shape)}

    def noise(self, generator: np.random.Generator, leading: tuple[int, ...]) -> Floats:
        return generator.logistic(size=(*leading, self.outputs)).astype(np.float32)

    def sample(self, distribution: Floats, noise: Floats, out: np.ndarray) -> None:
        # A logistic number is above -x with the probability sigmoid(x).
        np.greater(distribution + noise, 0, out=out, casting="unsafe")

    def mode(self, distribution: Floats) -> np.ndarray:
        return (distribution > 0).astype(np.int64)

    def log_probabilities(self, distribution: Floats, actions: np.ndarray) -> Floats:
        per_bit = actions.astype(np.float32) * distribution - np.logaddexp(np.float32(0), distribution)
        total: Floats = per_bit.sum(axis=-1)
        return total

    def native(self, actions: np.ndarray) -> np.ndarray:
        """Actions with the environment's own shape, i8."""
        return actions.astype(np.int8).reshape(-1, *self.native_shape)


def action_space(action: Mapping[str, Any]) -> ActionSpace:
    """Read the action of an EnvironmentSpec."""
    kind = action["kind"]
    if kind == "continuous":
        low = [-math.inf if bound is None else bound for bound in action["low"]]
        high = [math.inf if bound is None else bound for bound in action["high"]]
        rescaled = bool(action.get("rescaled", False))
        return Continuous(np.array(low, np.float32), np.array(high, np.float32), rescaled=rescaled)
    if kind == "multiDiscrete":
        sizes, shape, start = (tuple(action[name]) for name in ("sizes", "shape", "start"))
        return MultiDiscrete(sizes, shape, start, action["dtype"])
    if kind == "multiBinary":
        return MultiBinary(tuple(action["shape"]))
    return Discrete(action["n"], action.get("start", 0))


def policy_space(action: Mapping[str, Any], head: object) -> ActionSpace:
    """The action of an EnvironmentSpec as policies with this head choose it."""
    space = action_space(action)
    if isinstance(space, Continuous) and (squashed := SQUASHED.get(str(head))):
        return squashed(space.low, space.high)
    return space


def without_bounds(action: Mapping[str, Any]) -> str:
    """Which number of a continuous action of an EnvironmentSpec lacks a bound, as errors tell it; empty if
    none does."""
    for index, (low, high) in enumerate(zip(action["low"], action["high"], strict=True)):
        if not bounds_finite(low, high):
            return (
                f"actions[{index}] is from {-math.inf if low is None else low:g} to "
                f"{math.inf if high is None else high:g}"
            )
    return ""


def bounds_finite(low: float | None, high: float | None) -> bool:
    """Whether a number of an action has both bounds. The largest float32 stands for none, too."""
    return all(bound is not None and abs(bound) < _LARGEST for bound in (low, high))


def _log_probabilities(logits: Floats, actions: NDArray[np.int64]) -> Floats:
    """Log probabilities of actions i64 [...] under logits f32 [..., N]."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    chosen: Floats = np.take_along_axis(log_softmax, actions[..., None], axis=-1)[..., 0]
    return chosen
