"""Samples of several policies that train stacked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from nitro_learner.algorithms.ppo.loss import Samples


class StackedSamples(Protocol):
    """Samples of policies that train stacked: `TeamSamples`, or sequences of them. The members are those of
    `TeamSamples`."""

    @property
    def samples(self) -> Samples: ...

    @property
    def weights(self) -> Tensor: ...

    @property
    def size(self) -> int: ...

    @property
    def units(self) -> int:
        """How many parts each policy's samples can have at most."""
        ...

    def acted(self) -> Tensor: ...

    def of(self, policy: int) -> Self: ...

    def parts(self, rows: int) -> list[Self]: ...

    def shuffled(self, generators: Sequence[torch.Generator], count: int) -> list[Self]: ...

    def with_advantages(self, advantages: Tensor) -> Self: ...

    def standardised(self) -> Tensor: ...


Data = TypeVar("Data", bound=StackedSamples)


@dataclass(frozen=True, slots=True)
class TeamSamples:
    """B samples of each of P policies. Columns are [P * B, ...], policy by policy.

    Attributes:
        policies: P.
        samples: what PPO's loss reads of each sample.
        critic_inputs: f32 [P * B, S]. The samples' observations are the policies' inputs.
        weights: f32 [P * B], 1 where the agent acted, 0 where it was not alive.
    """

    policies: int
    samples: Samples
    critic_inputs: Tensor
    weights: Tensor

    @property
    def size(self) -> int:
        """B."""
        return len(self.samples) // self.policies

    @property
    def units(self) -> int:
        """B: samples can be parted anywhere."""
        return self.size

    @property
    def inputs(self) -> Tensor:
        """The policies' inputs, [P, B, D]."""
        return self.stacked(self.samples.observations)

    def stacked(self, column: Tensor) -> Tensor:
        """A column [P * B, ...] as [P, B, ...], a view."""
        return column.view(self.policies, self.size, *column.shape[1:])

    def masked(self) -> Tensor | None:
        """The choices that are allowed, bool [P, B, C]; None where actions are not masked."""
        return None if self.samples.available is None else self.stacked(self.samples.available)

    def acted(self) -> Tensor:
        """How many samples each policy has of agents that acted, f32 [P, 1]."""
        return self.stacked(self.weights).sum(1, keepdim=True)

    def of(self, policy: int) -> TeamSamples:
        """The samples of one policy, by its number in the stack, as views."""
        begin, end = policy * self.size, (policy + 1) * self.size
        samples = Samples(*(column[begin:end] for column in self.samples.columns()))
        shared = self.critic_inputs is self.samples.observations
        return TeamSamples(
            1,
            samples,
            samples.observations if shared else self.critic_inputs[begin:end],
            self.weights[begin:end],
        )

    def rows(self, index: Tensor) -> TeamSamples:
        """Copies of some samples of each policy, int64 [P, b] from 0 to B."""
        begins = torch.arange(self.policies, device=index.device)[:, None] * self.size
        flat = (index + begins).flatten()
        shared = self.critic_inputs is self.samples.observations
        samples = self.samples.rows(flat)
        return TeamSamples(
            self.policies,
            samples,
            samples.observations if shared else self.critic_inputs[flat],
            self.weights[flat],
        )

    def parts(self, rows: int) -> list[TeamSamples]:
        """The samples in parts of nearly equal size, of at most `rows` of each policy, in their order."""
        count = math.ceil(self.size / rows)
        if count == 1:
            return [self]
        numbers = torch.arange(self.size, device=self.weights.device).expand(self.policies, -1)
        return [self.rows(part) for part in torch.split(numbers, math.ceil(self.size / count), 1)]

    def shuffled(self, generators: Sequence[torch.Generator], count: int) -> list[TeamSamples]:
        """The samples in `count` parts of nearly equal size, in an order that each policy's generator
        draws."""
        orders = [torch.randperm(self.size, generator=generator) for generator in generators]
        index = torch.stack(orders).to(self.weights.device)
        return [self.rows(part) for part in torch.split(index, math.ceil(self.size / count), 1)]

    def with_advantages(self, advantages: Tensor) -> TeamSamples:
        return replace(self, samples=self.samples.with_advantages(advantages))

    def standardised(self) -> Tensor:
        """Advantages with mean 0 and deviation 1 over each policy's samples of agents that acted,
        [P * B]."""
        weights, advantages = self.stacked(self.weights), self.stacked(self.samples.advantages)
        acted = self.acted().clamp(min=1.0)
        centred = advantages - (advantages * weights).sum(1, keepdim=True) / acted
        deviation = ((centred * centred * weights).sum(1, keepdim=True) / acted).sqrt()
        return (centred / deviation.clamp(min=1e-4)).flatten()

    @classmethod
    def together(cls, each: Iterable[TeamSamples]) -> TeamSamples:
        """Stack samples of policies that have equally many."""
        every = list(each)
        columns = zip(*(one.samples.columns() for one in every), strict=True)
        samples = Samples(*(torch.cat(column) for column in columns))
        shared = all(one.critic_inputs is one.samples.observations for one in every)
        return cls(
            sum(one.policies for one in every),
            samples,
            samples.observations if shared else torch.cat([one.critic_inputs for one in every]),
            torch.cat([one.weights for one in every]),
        )
