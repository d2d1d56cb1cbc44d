"""The samples that PPO learns from, of one policy or of several that train stacked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from nitro_learner.data.shapes import check


class Minibatches(Protocol):
    """What policies learn from in an epoch: `Samples`, or sequences of them. The members are those of
    `Samples`."""

    @property
    def samples(self) -> Samples: ...

    @property
    def size(self) -> int: ...

    @property
    def units(self) -> int:
        """How many parts each policy's samples can have at most."""
        ...

    @classmethod
    def together(cls, batches: Iterable[Self]) -> Self: ...

    def of(self, policy: int) -> Self: ...

    def parts(self, rows: int) -> list[Self]: ...

    def shuffled(self, generators: Sequence[torch.Generator], count: int) -> list[Self]: ...

    def with_advantages(self, advantages: Tensor) -> Self: ...

    def standardised(self) -> Tensor: ...

    def tensors(self) -> Sequence[Tensor]: ...

    def with_tensors(self, tensors: Sequence[Tensor]) -> Self: ...


Data = TypeVar("Data", bound=Minibatches)


@dataclass(frozen=True, slots=True)
class Samples:
    """B samples of each of P policies. Columns are [P * B, ...], policy by policy.

    Attributes:
        observations: what the policies see, f32 [n, D] or images.
        actions: f32 [n, A] or i64 [n].
        log_probs: f32 [n], old.
        distribution: f32 [n, .], old.
        advantages: f32 [n], standardised unless the job says otherwise.
        returns: f32 [n].
        available: bool [n, C], which choices of the actions were allowed; None where they are not masked.
        states: what the critics see, f32 [n, S]; None where it is the observations.
        weights: f32 [n], 1 where the agent acted, 0 where it was not alive; None where all acted.
        policies: P.

    Raises:
        ValueError: a column has another shape.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    distribution: Tensor
    advantages: Tensor
    returns: Tensor
    available: Tensor | None = None
    states: Tensor | None = None
    weights: Tensor | None = None
    policies: int = 1

    def __post_init__(self) -> None:
        rows = self.observations.shape[:1]
        columns = {"log_probs": self.log_probs, "advantages": self.advantages, "returns": self.returns}
        check(rows, "a column of the samples", columns)
        actions, distribution = self.actions.shape, self.distribution.shape
        if actions[:1] != rows or len(actions) > 2:
            raise ValueError(f"actions has the shape {tuple(actions)}, but the samples have {rows[0]} rows")
        if distribution[:1] != rows or len(distribution) != 2:
            raise ValueError(
                f"distribution has the shape {tuple(distribution)}, but the samples have {rows[0]} rows"
            )
        if self.available is not None:
            check(rows, "the rows of the samples", {"available": self.available[:, 0]})

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def samples(self) -> Samples:
        """Themselves; sequences have samples."""
        return self

    @property
    def size(self) -> int:
        """B."""
        return len(self.observations) // self.policies

    @property
    def units(self) -> int:
        """B: samples can be parted anywhere."""
        return self.size

    @property
    def critic_inputs(self) -> Tensor:
        """What the critics see, [n, .]."""
        return self.observations if self.states is None else self.states

    def stacked(self, column: Tensor) -> Tensor:
        """A column [P * B, ...] as [P, B, ...], a view."""
        return column.view(self.policies, self.size, *column.shape[1:])

    def of(self, policy: int) -> Samples:
        """The samples of one policy, by its number in the stack, as views."""
        begin, end = policy * self.size, (policy + 1) * self.size
        return self._view([column[begin:end] for column in self.tensors()], 1)

    def rows(self, which: Tensor) -> Samples:
        """Copies of some samples of each policy, int64 [P, b] from 0 to B, or [b] of a single policy."""
        if self.policies > 1:
            begins = torch.arange(self.policies, device=which.device)[:, None] * self.size
            which = which + begins
        which = which.flatten()
        return self._view([column[which] for column in self.tensors()], self.policies)

    def parts(self, rows: int) -> list[Samples]:
        """The samples in parts of `rows` of each policy (the last one fewer), in their order. Those of a
        single policy are views."""
        if self.size <= rows:
            return [self]
        if self.policies == 1:
            columns = zip(*(torch.split(column, rows) for column in self.tensors()), strict=True)
            return [self._view(part, 1) for part in columns]
        numbers = torch.arange(self.size, device=self.observations.device).expand(self.policies, -1)
        return [self.rows(part) for part in torch.split(numbers, rows, 1)]

    def shuffled(self, generators: Sequence[torch.Generator], count: int) -> list[Samples]:
        """The samples in `count` parts of nearly equal size, in an order that each policy's generator
        draws."""
        orders = [torch.randperm(self.size, generator=generator) for generator in generators]
        device, size = self.observations.device, math.ceil(self.size / count)
        if self.policies == 1:
            return self.rows(orders[0].to(device)).parts(size)
        return [self.rows(part) for part in torch.split(torch.stack(orders).to(device), size, 1)]

    def trajectories(self, slots: int, envs: int, agents: int) -> list[Samples]:
        """The samples of each environment of a single policy, with all its agents. Samples are ordered by
        fragment, of which there are `slots`, then step, environment and agent."""
        columns = [column.view(slots, -1, envs, agents, *column.shape[1:]) for column in self.tensors()]
        return [
            self._view([column[slot, :, env].flatten(0, 1) for column in columns], 1)
            for slot in range(slots)
            for env in range(envs)
        ]

    def with_advantages(self, advantages: Tensor) -> Samples:
        if advantages.shape != self.advantages.shape:
            check(self.advantages.shape, "the samples' advantages", {"advantages": advantages})
        columns = self.tensors()
        return self._view((*columns[:4], advantages, *columns[5:]), self.policies)

    def standardised(self) -> Tensor:
        """Advantages with mean 0 and deviation 1 over each policy's samples of agents that acted,
        [P * B]. The divisor is max(1e-4, deviation)."""
        advantages = self.stacked(self.advantages)
        if self.weights is None:
            centred = advantages - advantages.mean(1, keepdim=True)
            deviation = advantages.std(1, correction=0, keepdim=True)
        else:
            weights, acted = self.stacked(self.weights), acted_in([self])
            centred = advantages - (advantages * weights).sum(1, keepdim=True) / acted
            deviation = ((centred * centred * weights).sum(1, keepdim=True) / acted).sqrt()
        return (centred / deviation.clamp(min=1e-4)).flatten()

    @classmethod
    def together(cls, batches: Iterable[Samples]) -> Samples:
        """Stack samples of policies that have equally many."""
        parts = list(batches)
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.tensors() for part in parts), strict=True)
        return parts[0]._view([torch.cat(column) for column in columns], sum(part.policies for part in parts))

    def tensors(self) -> tuple[Tensor, ...]:
        """The columns that are there, in the order of the attributes."""
        optional = (self.available, self.states, self.weights)
        return (
            self.observations,
            self.actions,
            self.log_probs,
            self.distribution,
            self.advantages,
            self.returns,
            *(column for column in optional if column is not None),
        )

    def with_tensors(self, tensors: Sequence[Tensor]) -> Samples:
        """Samples of other columns, of these shapes."""
        return self._view(tensors, self.policies)

    def _view(self, columns: Sequence[Tensor], policies: int) -> Samples:
        """Samples of the same columns, whose shapes are known to fit: a training step makes several."""
        made: Samples = object.__new__(Samples)
        own = iter(columns)
        for name in _NAMES:
            object.__setattr__(made, name, None if getattr(self, name) is None else next(own))
        object.__setattr__(made, "policies", policies)
        return made


_NAMES = Samples.__match_args__[:-1]


def acted_in(parts: Sequence[Samples]) -> Tensor:
    """How many samples of agents that acted each policy has, f32 [P, 1]; 1 where it has none."""
    first = parts[0]
    counts = [
        first.advantages.new_full((first.policies, 1), part.size)
        if part.weights is None
        else part.stacked(part.weights).sum(1, keepdim=True)
        for part in parts
    ]
    return torch.stack(counts).sum(0).clamp(min=1.0)
