"""A recurrent critic along a round's sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nitro_learner.algorithms.ppo.memory.network import RecurrentActorCritic
from nitro_learner.algorithms.ppo.rollouts import When


class CriticReplay:
    """V of a round's observations in the order of `PolicyRollouts`' rows, as a critic for `BatchMaker`.

    The values behind a truncated episode's last step, and behind the last step of all, are of the memory that
    the critic has there.

    Attributes:
        after: the memories behind the last steps, f32 [F, lanes, H]; known once V of the steps is.
    """

    after: np.ndarray

    def __init__(
        self,
        network: RecurrentActorCritic,
        parameters: Tensor,
        memory: Tensor,
        lives_end: Tensor,
        cut: Sequence[np.ndarray],
        agents: int,
    ) -> None:
        """
        Args:
            network: the policy's shape.
            parameters: f32 [n], read at each call.
            memory: before the first steps, f32 [F, lanes, H].
            lives_end: bool [F, lanes, L], whether a memory ends with a step.
            cut: the truncated steps of each fragment, int64 [n, 2]: step and environment.
            agents: lanes of each environment.
        """
        self._network = network
        self._parameters = parameters
        self._memory = memory
        self._lives_end = lives_end
        self._cut = cut
        self._agents = agents
        self._remembered = memory

    def __call__(self, when: When, inputs: Tensor) -> Tensor:
        """V [n] of inputs [n, S]."""
        if when == "":
            return self._of_steps(inputs)
        memory = self._behind_cuts() if when == "final_" else self._memory_after().flatten(0, 1)
        if not len(inputs):
            return inputs.new_empty(0)
        keep = torch.ones(1, len(inputs), 1, device=inputs.device)
        after = self._run(inputs[None, :, None], memory[None], keep)
        return self._values(after[0, :, 0])

    def _of_steps(self, inputs: Tensor) -> Tensor:
        slots, lanes, length = self._lives_end.shape
        x = inputs.view(slots, length, lanes, -1).transpose(1, 2).flatten(0, 1)
        keep = torch.ones(slots * lanes, length, device=inputs.device)
        keep[:, 1:] -= self._lives_end.flatten(0, 1)[:, :-1].float()
        memories = self._run(x[None], self._memory.flatten(0, 1)[None], keep[None])[0]
        self._remembered = memories.view(slots, lanes, length, -1)
        self.after = self._memory_after().cpu().numpy()
        values = self._values(memories.flatten(0, 1))
        return values.view(slots, lanes, length).transpose(1, 2).flatten()

    def _memory_after(self) -> Tensor:
        return self._remembered[:, :, -1] * ~self._lives_end[:, :, -1:]

    def _behind_cuts(self) -> Tensor:
        """The memories behind the truncated steps, [n, H]."""
        slots, lanes, length, size = self._remembered.shape
        by_agent = self._remembered.view(slots, lanes // self._agents, self._agents, length, size)
        memories = [own[cut[:, 1], :, cut[:, 0]] for own, cut in zip(by_agent, self._cut, strict=True)]
        return torch.cat(memories).flatten(0, 1)

    def _run(self, x: Tensor, memory: Tensor, keep: Tensor) -> Tensor:
        _, critics = self._network.split(self._parameters[None])
        return self._network.remembered(self._network.critic, critics, x, memory, keep)

    @torch.no_grad()
    def _values(self, memory: Tensor) -> Tensor:
        _, critics = self._network.split(self._parameters[None])
        return self._network.critic.outputs(critics, memory[None])[0, :, 0]
