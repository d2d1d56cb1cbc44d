"""What a training loop of the user's own plays with, and what it gets: a policy's module as actors need it,
and a round's fragments as one batch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from nitro_actor import traces
from nitro_actor.protocol.weights import PolicyWeights
from nitro_api import FieldError, JobInvalid
from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
from nitro_learner.algorithms.agents.policy_network import actor_critic_description
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.actor_critic import ActorCritic
from nitro_learner.networks.architecture import network_of
from nitro_learner.networks.distributions import Distribution
from nitro_learner.networks.module import ActorCriticModule, PolicyPart
from nitro_learner.networks.own import playing


@dataclass(frozen=True, slots=True)
class CollectedBatch:
    """A round: L steps of N environments, time-major, those of the first actor first. All are tensors on the
    CPU.

    Attributes:
        observations: raw, f32 or u8 [L, N, *obs].
        actions: i64 [L, N], or f32 [L, N, A]; MultiDiscrete and MultiBinary i64 [L, N, K].
        log_probs: of the actions as the actors drew them, f32 [L, N].
        distribution: the parameters that they were drawn from, f32 [L, N, P]: logits, or mean and log-std.
        rewards: f32 [L, N].
        terminated: the step ended its episode in a terminal state, whose value is 0; bool [L, N].
        truncated: the step ended its episode by a limit; bool [L, N].
        next_observations: what followed each step, of a truncated episode its last observation, as
            `observations`. Of a terminated one it is the next episode's first, which nobody needs.
        available: which choices of the actions were allowed, bool [L, N, C]; None where they are not masked.
        episode_returns: of the episodes that ended, undiscounted, f64 [m].
        episode_lengths: of the same episodes, i64 [m].
        actors: whose rollouts it has.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    distribution: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    next_observations: Tensor
    available: Tensor | None
    episode_returns: Tensor
    episode_lengths: Tensor
    actors: int

    @classmethod
    def of(cls, fragments: Sequence[Fragment]) -> CollectedBatch:
        """Make it of a round's fragments, sorted by slot, of an environment of one agent."""
        (name,) = fragments[0].by_class
        own = [fragment.by_class[name] for fragment in fragments]

        def column(field: str) -> Tensor:
            return torch.from_numpy(np.concatenate([arrays[field][:, :, 0] for arrays in own], axis=1))

        def once(field: str, axis: int) -> Tensor:
            return torch.from_numpy(np.concatenate([f.tensors[field] for f in fragments], axis=axis))

        return cls(
            observations=column("observations"),
            actions=column("actions"),
            log_probs=column("log_probs"),
            distribution=column("distribution"),
            rewards=column("rewards"),
            terminated=once("terminated", 1),
            truncated=once("truncated", 1),
            next_observations=torch.from_numpy(np.concatenate([_next(f, name) for f in fragments], axis=1)),
            available=column("available") if "available" in own[0] else None,
            episode_returns=once("episode_returns", 0)[:, 0],
            episode_lengths=once("episode_lengths", 0),
            actors=len(fragments),
        )


def _next(fragment: Fragment, name: str) -> np.ndarray:
    """The observation that followed each step, before any reset, [L, E, *obs]."""
    own = fragment.by_class[name]
    observations, last = own["observations"][:, :, 0], own["last_observations"][:, 0]
    following = np.concatenate([observations[1:], last[None]])
    cut = fragment.tensors["truncated"] & ~fragment.tensors["terminated"]
    following[cut] = own["final_observations"][:, 0]
    return following


class LoopPolicy:
    """The policy that a loop's actors play.

    Attributes:
        team: the only agent of its environment.
        distribution: the family of its actions: log_prob(parameters, actions), entropy(parameters) and
            kl(old, new), each [n].
    """

    def __init__(self, team: Team, device: str = "cpu") -> None:
        """
        Raises:
            JobInvalid: the network has a recurrent layer, or is named by an entry point.
            NetworkMisfit: the job's network does not fit the observations.
        """
        if team.network.recurrent:
            message = "is not for a training loop of your own; remove it"
            raise JobInvalid(
                [FieldError("spec.network.recurrent", team.network.recurrent.to_dict(), message)]
            )
        if team.network.entry_point:
            message = "is not for a training loop of your own, which gives collect a module; remove it"
            raise JobInvalid([FieldError("spec.network.entryPoint", team.network.entry_point, message)])
        self.team = team
        (self._class,) = team.classes
        self._device = device
        self._exported: tuple[nn.Module, bytes] | None = None
        self._shape: ActorCritic = network_of(team.network, self._class, team.environment.id)
        self.distribution: Distribution = self._shape.family

    def network(self) -> ActorCriticModule:
        """A policy and a critic of spec.network, with the parameters that the job's seed draws."""
        settings = self.team.settings
        orthogonal = isinstance(settings, ActorCriticHyperparameters) and settings.orthogonal_init
        generator = torch.Generator().manual_seed(self.team.seed)
        row = self._shape.initial(generator, orthogonal=orthogonal)
        return ActorCriticModule(self._shape, row[None].to(self._device))

    def weights(self, module: nn.Module) -> PolicyWeights:
        """What actors need of a module, as copies. One of the user's own is exported when it comes first.

        Raises:
            TypeError: it is no module.
            Unfit: actors cannot play it.
        """
        policy = module.policy if isinstance(module, ActorCriticModule) else module
        if not isinstance(policy, nn.Module):
            raise TypeError(f"collect got {traces.shown(policy)}; give it a torch.nn.Module")
        if not isinstance(policy, PolicyPart):
            return self._own_weights(policy)
        tensors = {
            f"policy.{name}": value.detach().cpu().numpy().copy() for name, value in policy.named_parameters()
        }
        return PolicyWeights(actor_critic_description(self.team, self._class), tensors)

    def _own_weights(self, module: nn.Module) -> PolicyWeights:
        if self._exported is None or self._exported[0] is not module:
            tried = copy.deepcopy(module).cpu().eval()
            self._exported = module, playing.made(tried, self._class)
        return playing.weights(module, self._exported[1], self._class)
