"""Gradient steps of a Q-learner: draw from the replay buffer, compare with targets, follow the gradient.

Networks without a memory learn from single transitions, those with one from whole sequences (Hausknecht and
Stone 2015; Kapturowski et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nitro_learner.algorithms.agents.groups import Groups
from nitro_learner.algorithms.gradient import MeanNorm, clip_rows
from nitro_learner.algorithms.q_learning.batch import Lanes, Picked, Places, Reader, Transitions
from nitro_learner.algorithms.q_learning.learned import Learned
from nitro_learner.algorithms.q_learning.model import QModel
from nitro_learner.algorithms.q_learning.returns import LinkedRows, Returns
from nitro_learner.algorithms.q_learning.rewards import ValueUnits
from nitro_learner.algorithms.replay.buffer import ReplayBuffer
from nitro_learner.algorithms.replay.transitions import Rows, Shape


@dataclass(frozen=True, slots=True)
class Drawn:
    """Transitions of all lanes, whatever their class.

    Attributes:
        by_class: the transitions of each class.
        state: f32 [B, S] where the mixer sees it.
        targets: what the mixed values are compared with, f32 [A, B]; [1, B] where the value is joint.
    """

    by_class: dict[str, Transitions]
    state: Tensor | None
    targets: Tensor


class QTrainer:
    """The gradient steps of one round.

    Attributes:
        learned: what the steps change.
        lanes: what is drawn, by class.
        units: of the columns' values.
    """

    def __init__(
        self,
        model: QModel,
        learned: Learned,
        groups: Groups,
        replay: ReplayBuffer,
        shape: Shape,
        norms: Mapping[str, MeanNorm] | None = None,
    ) -> None:
        """
        Args:
            model: of the policies.
            learned: see the attributes.
            groups: the agents of each policy.
            replay: to draw from.
            shape: of the round's fragments.
            norms: of the gradients so far, by class, if others' steps came before in the same round.
        """
        team, settings, joint = model.team, model.settings, learned.mixer.joint
        device = learned.mixing.device
        self.learned = learned
        self.lanes = {
            agent_class.name: Lanes.of(
                team, groups, agent_class, learned.stacks[agent_class.name].names, joint=joint, device=device
            )
            for agent_class in team.classes
            if agent_class.name in learned.stacks
        }
        self.units = ValueUnits.of_returns(len(replay.counts), settings.gamma)
        if settings.normalise_rewards:
            rewards, ends = replay.arrays["rewards"], replay.arrays["ends"]
            counted = model.trained_on(replay, shape)
            self.units = ValueUnits.standard(rewards, ends, counted, settings.gamma)
        self._model, self._settings, self._replay, self._shape = model, settings, replay, shape
        self._length = model.length(shape)
        self._reader = Reader(team, joint=joint, device=device)
        self._norms = norms or {name: MeanNorm() for name in self.lanes}

    @property
    def transitions(self) -> int:
        """How many transitions each lane of a gradient step has: those of as many sequences as come to
        `batchSize`, but at least of one."""
        return max(1, self._settings.batch_size // self._length) * self._length

    def step(self, rng: np.random.Generator, number: int, rate: float) -> None:
        """Take one gradient step.

        Args:
            rng: draws the transitions.
            number: of the step in the run, from 1.
            rate: Adam's step size.
        """
        learned, replay = self.learned, self._replay
        agents, columns = self.turn(self.transitions, number)
        places, weights = self._model.draw(replay, self._shape, columns, rng)
        drawn = self.gather(replay, agents, columns, places)
        traces, chosen = {}, []
        for name, part in drawn.by_class.items():
            stack, steps = learned.stacks[name], part.steps
            parameters = stack.parameters[steps.policies]
            trace, values = stack.network.trace(parameters, steps)
            traces[name] = parameters, trace, values
            chosen.append(steps.chosen(values))
        errors, by_chosen, by_mixer = self._differentiate(
            torch.cat(chosen), drawn, self._reader.tensor(weights)
        )
        gradients = {}
        by_lanes = torch.split(by_chosen, [len(class_values) for class_values in chosen])
        for (name, part), by_lane in zip(drawn.by_class.items(), by_lanes, strict=True):
            stack, steps, (parameters, trace, values) = learned.stacks[name], part.steps, traces[name]
            by_values = torch.zeros_like(values).scatter_(
                -1, steps.actions[..., None], (by_lane * steps.acted)[..., None]
            )
            into = torch.zeros_like(parameters)
            stack.network.backpropagate(parameters, trace, by_values, into)
            gradients[name] = torch.zeros_like(stack.parameters).index_add_(0, steps.policies, into)
        self._clip(gradients, by_mixer)
        for name, gradient in gradients.items():
            learned.stacks[name].step(gradient, rate)
        if learned.mixer.size:
            learned.mixing.step(by_mixer, rate)
        self._model.rate(replay, self._shape, columns, places, errors.cpu().numpy())
        if number % self._settings.target_update_steps == 0:
            learned.follow()

    def order(self, rows: Rows) -> Places:
        """A round's steps in the order in which its objective has them: sequence by sequence where networks
        remember, else as the rows have them."""
        return rows.lanes.ravel() if self._length > 1 else np.sort(rows.lanes, axis=None)

    def turn(self, size: int, number: int) -> tuple[dict[str, Places], Places]:
        """The agents of step `number`'s transitions, i64 [A, size] by class, and their columns. All
        transitions of a sequence have one agent."""
        count = size // self._length
        agents = {name: lanes.agents_of(count, number) for name, lanes in self.lanes.items()}
        columns = np.zeros((1, count), np.int64)
        if not self.learned.mixer.joint:
            columns = np.concatenate([self.lanes[name].columns[own] for name, own in agents.items()])
        along = {name: own.repeat(self._length, axis=1) for name, own in agents.items()}
        return along, columns.repeat(self._length, axis=1)

    def gather(
        self,
        rows: LinkedRows,
        agents: Mapping[str, Places],
        columns: Places,
        places: Places,
    ) -> Drawn:
        """Gather transitions and compute their targets, r + gamma (1 - end) mix(Q of what follows), where r
        and what follows are those of the settings' number of steps.

        Args:
            rows: to gather from.
            agents: i64 [A, B] by class.
            columns, places: of all classes' lanes, i64 [A, B], or [1, B] of a joint value.
        """
        learned, settings, begin = self.learned, self._settings, 0
        arrays = rows.arrays
        returns = Returns.of(rows, columns, places, settings.return_steps, settings.gamma)
        following = rows.following(returns.last)
        by_class, next_values = {}, []
        for name, own in agents.items():
            lanes = slice(None) if learned.mixer.joint else slice(begin, begin + len(own))
            begin += len(own)
            stack, policies = learned.stacks[name], self.lanes[name].policies
            picked = Picked(arrays, name, *np.broadcast_arrays(own, places[lanes], following[lanes]))
            part = self._reader.transitions(picked, policies)
            by_class[name] = part = self._model.remembered(part, picked, self._length)
            parameters, targets = stack.parameters[policies], stack.targets[policies]
            next_values.append(stack.network.next_values(part, parameters, targets, double=settings.double_q))
        state = next_state = None
        if learned.mixer.sees_state:
            state = self._reader.states(arrays, places[0])
            next_state = self._reader.states(arrays, following[0])
        with torch.no_grad():
            mixed = learned.mixer(learned.mixing.targets[0], torch.cat(next_values), next_state)
        ends = arrays["ends"][returns.last, columns]
        rewards = self.units(returns.rewards, ends, columns, returns.discounts)
        discounts = self._reader.tensor(returns.discounts.astype(np.float32) * ~ends)
        targets = self._reader.tensor(rewards.astype(np.float32)) + discounts * mixed
        return Drawn(by_class, state, targets)

    def take_norms(self) -> dict[str, list[float]]:
        """The mean norms of the gradients since the last call, by class: of each policy, or where the loss is
        joint the one of all of them. A list is empty where there was no gradient step."""
        return {name: norms.take() for name, norms in self._norms.items()}

    def _differentiate(self, chosen: Tensor, drawn: Drawn, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Temporal-difference errors, and the loss's gradients by the chosen values and by the mixer."""
        mixer, parameters = self.learned.mixer, self.learned.mixing.parameters
        if not mixer.joint:
            shares = torch.cat([lanes.shares for lanes in self.lanes.values()])
            weights = weights * shares[:, None]
        leaves = [chosen.requires_grad_()]
        if mixer.size:
            leaves.append(parameters.detach().requires_grad_())
        with torch.enable_grad():
            mixed = mixer(leaves[-1][0] if mixer.size else parameters[0], chosen, drawn.state)
            loss = (functional.huber_loss(mixed, drawn.targets, reduction="none") * weights).sum()
            gradients = torch.autograd.grad(loss, leaves)
        by_mixer = gradients[1] if mixer.size else torch.zeros_like(parameters)
        return (mixed - drawn.targets).detach(), gradients[0], by_mixer

    def _clip(self, gradients: Mapping[str, Tensor], by_mixer: Tensor) -> None:
        """Scale gradients down: each policy's by itself, or where the loss is joint all of them together."""
        norm = self._settings.max_grad_norm
        if not self.learned.mixer.joint:
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
