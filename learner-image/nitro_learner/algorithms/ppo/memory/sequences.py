"""Samples in sequences, for networks that remember."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nitro_learner.algorithms.ppo.samples import Samples


@dataclass(frozen=True, slots=True)
class Sequences:
    """S sequences of L steps of each of P policies: one agent in one environment of one fragment each.

    Attributes:
        rows: the samples, policy by policy, then sequence by sequence, then step by step.
        length: L.
        keep: f32 [L, P, S, 1], 0 where memories are emptied before the step, 1 elsewhere.
        memory: of the policies before the first step, f32 [P, S, H].
        critic_memory: likewise of the critics.
    """

    rows: Samples
    length: int
    keep: Tensor
    memory: Tensor
    critic_memory: Tensor

    @property
    def units(self) -> int:
        """S: sequences stay whole."""
        return self.memory.shape[1]

    @property
    def size(self) -> int:
        """Samples of each policy, S * L."""
        return self.rows.size

    @property
    def samples(self) -> Samples:
        """What PPO's loss reads of each sample."""
        return self.rows

    def take(self, index: Tensor) -> Sequences:
        """Copies of some sequences of each policy, int64 [P, s] from 0 to S."""
        steps = torch.arange(self.length, device=index.device)
        policies = torch.arange(len(index), device=index.device)[:, None]
        return Sequences(
            self.rows.rows((index[..., None] * self.length + steps).flatten(1)),
            self.length,
            self.keep[:, policies, index],
            self.memory[policies, index],
            self.critic_memory[policies, index],
        )

    def of(self, policy: int) -> Sequences:
        """The sequences of one policy, by its number in the stack."""
        row = slice(policy, policy + 1)
        return Sequences(
            self.rows.of(policy),
            self.length,
            self.keep[:, row],
            self.memory[row],
            self.critic_memory[row],
        )

    def parts(self, rows: int) -> list[Sequences]:
        """The sequences in parts of at most `rows` samples of each policy, but one sequence at least."""
        per_part = max(1, rows // self.length)
        if per_part >= self.units:
            return [self]
        numbers = torch.arange(self.units, device=self.memory.device).expand(len(self.memory), -1)
        return [self.take(part) for part in torch.split(numbers, per_part, 1)]

    def shuffled(self, generators: Sequence[torch.Generator], count: int) -> list[Sequences]:
        """The sequences in `count` parts of nearly equal size, in an order that each policy's generator
        draws."""
        orders = [torch.randperm(self.units, generator=generator) for generator in generators]
        index = torch.stack(orders).to(self.memory.device)
        return [self.take(part) for part in torch.split(index, math.ceil(self.units / count), 1)]

    def with_rows(self, rows: Samples) -> Sequences:
        """The same sequences with other columns."""
        return replace(self, rows=rows)

    def with_advantages(self, advantages: Tensor) -> Sequences:
        """The same with other advantages, [P * S * L]."""
        return self.with_rows(self.rows.with_advantages(advantages))

    def standardised(self) -> Tensor:
        """See `Samples`."""
        return self.rows.standardised()

    def tensors(self) -> tuple[Tensor, ...]:
        """Those of the samples, and then its own."""
        return (*self.rows.tensors(), self.keep, self.memory, self.critic_memory)

    def with_tensors(self, tensors: Sequence[Tensor]) -> Sequences:
        """The same of other tensors, of these shapes."""
        *columns, keep, memory, critic_memory = tensors
        return Sequences(self.rows.with_tensors(columns), self.length, keep, memory, critic_memory)

    @classmethod
    def together(cls, batches: Iterable[Sequences]) -> Sequences:
        """Stack sequences of policies that have equally many."""
        parts = list(batches)
        if len(parts) == 1:
            return parts[0]
        return cls(
            Samples.together([part.rows for part in parts]),
            parts[0].length,
            torch.cat([part.keep for part in parts], 1),
            torch.cat([part.memory for part in parts]),
            torch.cat([part.critic_memory for part in parts]),
        )
