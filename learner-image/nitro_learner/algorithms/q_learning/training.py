"""Gradient steps of a Q-learner: draw from the replay buffer, compare with targets, follow the gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from nitro_api.algorithms.q_learning import QLearningHyperparameters
from nitro_learner.algorithms.gradient import MeanNorm, clip_rows
from nitro_learner.algorithms.q_learning.batch import LaneBatch, Reader
from nitro_learner.algorithms.q_learning.lanes import Lanes
from nitro_learner.algorithms.q_learning.learned import Learned
from nitro_learner.algorithms.q_learning.mixers import Mixer
from nitro_learner.algorithms.q_learning.replay import Replay, corrections
from nitro_learner.algorithms.q_learning.rewards import ValueUnits
from nitro_learner.algorithms.q_learning.surrogate import TdSurrogate
from nitro_learner.algorithms.q_learning.transitions import Rows

Arrays = Mapping[str, NDArray[Any]]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Transitions of all lanes, whatever their class.

    Attributes:
        batches: by class.
        columns: of the replay buffer, i64 [A, B]; [1, B] where the value is joint.
        places, following: rows, and those that they lead to; of the shape of `columns`.
        state: f32 [B, S] where the mixer sees it.
        targets: what the mixed values are compared with, f32 of the shape of `columns`.
    """

    batches: dict[str, LaneBatch]
    columns: Places
    places: Places
    state: Tensor | None
    targets: Tensor


class QTrainer:
    """The gradient steps of one round.

    Attributes:
        mixer: of the agents' values.
        learned: what the steps change.
        lanes: what is drawn, by class.
        units: of the columns' values.
        objective: makes the objective of a round; see `TdSurrogate`.
    """

    objective: Callable[..., TdSurrogate] = TdSurrogate

    def __init__(
        self,
        settings: QLearningHyperparameters,
        mixer: Mixer,
        replay: Replay,
        reader: Reader,
        learned: Learned,
        lanes: Mapping[str, Lanes],
        units: ValueUnits,
    ) -> None:
        """
        Args:
            settings: the learner's.
            mixer, learned, lanes, units: see the attributes.
            replay: to draw from.
            reader: gathers what is drawn.
        """
        self.mixer, self.learned, self.lanes = mixer, learned, lanes
        self.units = units
        self._settings, self._replay, self._reader = settings, replay, reader
        self._norms = {name: MeanNorm() for name in lanes}

    def step(self, rng: np.random.Generator, number: int, rate: float) -> None:
        """Take one gradient step.

        Args:
            rng: draws the transitions.
            number: of the step in the run, from 1.
            rate: Adam's step size.
        """
        learned = self.learned
        drawn, weights = self._draw(rng, number)
        traces, chosen = {}, []
        for name, batch in drawn.batches.items():
            stack = learned.stacks[name]
            parameters = stack.parameters[batch.policies]
            trace, values = batch.trace(stack.network, parameters)
            traces[name] = parameters, trace, values
            chosen.append(batch.chosen(values))
        errors, by_chosen, by_mixer = self._differentiate(torch.cat(chosen), drawn, weights)
        gradients = {}
        for (name, batch), by_lane in zip(
            drawn.batches.items(), torch.split(by_chosen, [len(c) for c in chosen]), strict=True
        ):
            stack, (parameters, trace, values) = learned.stacks[name], traces[name]
            by_values = torch.zeros_like(values).scatter_(
                -1, batch.actions[..., None], (by_lane * batch.acted)[..., None]
            )
            into = torch.zeros_like(parameters)
            batch.backpropagate(stack.network, parameters, trace, by_values, into)
            gradients[name] = torch.zeros_like(stack.parameters).index_add_(0, batch.policies, into)
        self._clip(gradients, by_mixer)
        for name, gradient in gradients.items():
            learned.stacks[name].step(gradient, rate)
        learned.step_mixer(by_mixer, rate)
        self._rate(drawn, errors.cpu().numpy())
        if number % self._settings.target_update_steps == 0:
            learned.follow()

    @property
    def transitions(self) -> int:
        """How many transitions each lane of a gradient step has."""
        return self._settings.batch_size

    def order(self, rows: Rows) -> Places:
        """A round's steps in the order in which its objective has them."""
        return np.sort(np.concatenate(rows.lanes))

    def turn(self, size: int, number: int) -> tuple[dict[str, Places], Places]:
        """The agents of step `number`'s transitions, i64 [A, size] by class, and their columns."""
        agents = {name: lanes.agents_of(size, number) for name, lanes in self.lanes.items()}
        if self.mixer.joint:
            return agents, np.zeros((1, size), np.int64)
        return agents, np.concatenate([self.lanes[name].columns[own] for name, own in agents.items()])

    def gather(
        self,
        arrays: Arrays,
        agents: Mapping[str, Places],
        columns: Places,
        places: Places,
        following: Places,
    ) -> Drawn:
        """Gather transitions and compute their targets, r + gamma (1 - end) mix(Q of what follows).

        Args:
            arrays: of rows; see `transitions.Rows`.
            agents: i64 [A, B] by class.
            columns, places, following: of all classes' lanes, i64 [A, B], or [1, B] of a joint value.
        """
        learned, begin = self.learned, 0
        batches, next_values = {}, []
        for name, own in agents.items():
            rows = slice(None) if self.mixer.joint else slice(begin, begin + len(own))
            begin += len(own)
            stack, policies = learned.stacks[name], self.lanes[name].policies
            batch = self._read(arrays, name, policies, own, places[rows], following[rows])
            batches[name] = batch
            next_values.append(
                batch.next_values(
                    stack.network,
                    stack.parameters[policies],
                    stack.targets[policies],
                    double=self._settings.double_q,
                )
            )
        state = next_state = None
        if self.mixer.sees_state:
            state = self._reader.states(arrays, places[0])
            next_state = self._reader.states(arrays, following[0])
        with torch.no_grad():
            mixed = self.mixer(learned.mixer_target[0], torch.cat(next_values), next_state)
        ends = arrays["ends"][places, columns]
        rewards = self.units(arrays["rewards"][places, columns], ends, columns)
        discounts = self._reader.tensor(np.float32(self._settings.gamma) * ~ends)
        targets = self._reader.tensor(rewards.astype(np.float32)) + discounts * mixed
        return Drawn(batches, columns, places, state, targets)

    def _draw(self, rng: np.random.Generator, number: int) -> tuple[Drawn, Tensor]:
        """The transitions of gradient step `number`, and their weights in the loss f32 [A, B] or [1, B]."""
        size, replay = self._settings.batch_size, self._replay
        agents, columns = self.turn(size, number)
        places, probabilities = replay.draw(columns, rng.random(columns.shape))
        drawn = self.gather(replay.arrays, agents, columns, places, replay.following(places))
        weights = corrections(replay.counts[columns], probabilities, self._settings.priority_beta)
        return drawn, self._reader.tensor(weights) / size

    def _read(
        self,
        arrays: Arrays,
        name: str,
        policies: Tensor,
        agents: Places,
        places: Places,
        following: Places,
    ) -> LaneBatch:
        """Gather a class's transitions; see `Reader.lanes`."""
        return self._reader.lanes(arrays, name, policies, agents, places, following)

    def _rate(self, drawn: Drawn, errors: NDArray[np.float32]) -> None:
        """Give what was drawn its new priorities, by its temporal-difference errors [A, B] or [1, B]."""
        self._replay.rate(drawn.columns, drawn.places, errors)

    def _differentiate(self, chosen: Tensor, drawn: Drawn, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Temporal-difference errors, and the loss's gradients by the chosen values and by the mixer."""
        if not self.mixer.joint:
            shares = torch.cat([lanes.shares for lanes in self.lanes.values()])
            weights = weights * shares[:, None]
        leaves = [chosen.requires_grad_()]
        if self.mixer.size:
            leaves.append(self.learned.mixer.detach().requires_grad_())
        with torch.enable_grad():
            mixed = self.mixer(
                leaves[-1][0] if self.mixer.size else self.learned.mixer[0], chosen, drawn.state
            )
            loss = (functional.huber_loss(mixed, drawn.targets, reduction="none") * weights).sum()
            gradients = torch.autograd.grad(loss, leaves)
        by_mixer = gradients[1] if self.mixer.size else torch.zeros_like(self.learned.mixer)
        return (mixed - drawn.targets).detach(), gradients[0], by_mixer

    def take_norms(self) -> dict[str, list[float]]:
        """The mean norms of the gradients since the last call, by class: of each policy, or where the loss is
        joint the one of all of them. A list is empty where there was no gradient step."""
        return {name: norms.take() for name, norms in self._norms.items()}

    def _clip(self, gradients: Mapping[str, Tensor], by_mixer: Tensor) -> None:
        """Scale gradients down: each policy's by itself, or where the loss is joint all of them together."""
        norm = self._settings.max_grad_norm
        if not self.mixer.joint:
            for name, gradient in gradients.items():
                self._norms[name].add(clip_rows(gradient, norm))
            return
        parts = [*gradients.values(), by_mixer]
        flat = torch.cat([gradient.flatten() for gradient in parts])[None]
        together = clip_rows(flat, norm)
        for name in gradients:
            self._norms[name].add(together)
        for gradient, clipped in zip(
            parts, torch.split(flat[0], [gradient.numel() for gradient in parts]), strict=True
        ):
            gradient.copy_(clipped.view_as(gradient))
