"""The policies of several agents in numpy: networks, normalisation, masks and action distributions.

Besides the fields that `nitro_actor.policy` knows, the description of a policy's network may have

    head: q         Q values of discrete actions; the policy takes the available action with the highest, or
                    a random available one with probability `epsilon`
    dueling: true   of a Q head: Q = V + A - mean A (Wang et al. 2016), A of the layer policy.head, V of the
                    layer policy.value
    agentIds: n_c   an agent's index in its class follows its normalised observation, one-hot
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import masks, wire
from nitro_actor.actions import ActionSpace, action_space
from nitro_actor.agents.environment import AgentsSpec
from nitro_actor.agents.stack import Stack, shape_of
from nitro_actor.matmul import Floats
from nitro_actor.memory import memory_size
from nitro_actor.networks import Mlp, linear_parameters
from nitro_actor.policy import check_layers, head_parameters, statistics_parameters
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer


class Policies:
    """The policies of all agents."""

    def __init__(self, container: WeightsContainer, spec: AgentsSpec, count: int) -> None:
        """Build from weights.

        Args:
            count: E.

        Raises:
            WireError: they do not fit the environment, or hold NaN.
        """
        container.require_agents(spec.agents)
        self.classes = {one.name: ClassPolicies(one, container, count) for one in spec.classes}

    def memories(self) -> "Memories":
        """Empty memories, as episodes begin with them."""
        return Memories({name: one.memory() for name, one in self.classes.items()})

    def noise(self, seed: np.random.SeedSequence, length: int) -> dict[str, "Noise"]:
        """All random numbers of a rollout by class, drawn at once, whichever agents share policies."""
        seeds = seed.spawn(len(self.classes))
        return {
            name: one.noise(own, length) for (name, one), own in zip(self.classes.items(), seeds, strict=True)
        }


class Memories:
    """What agents remember of their episodes.

    Attributes:
        of: f32 [E, n_c, H_c] by class, updated in place. H is 0 where a class's policies have no memory.
    """

    def __init__(self, of: Mapping[str, Floats]) -> None:
        self.of = of

    @property
    def named(self) -> dict[str, Floats]:
        """The memories by their names in end states."""
        return {f"memory/{name}": memory for name, memory in self.of.items()}

    def forget(
        self, ended: np.ndarray, acted: Mapping[str, np.ndarray], died: Mapping[str, np.ndarray]
    ) -> None:
        """Empty the memories that end with a step. An agent that is not alive has an empty one.

        Args:
            ended: bool [E], whose episode ended with the step.
            acted: bool [E, n_c] by class, who was alive in it.
            died: likewise, who died in it.
        """
        for name, memory in self.of.items():
            if memory.shape[-1]:
                memory[ended[:, None] | died[name] | ~acted[name]] = 0


class Noise:
    """Random numbers of a class's actions.

    Attributes:
        actions: standard normal f32 [L, E, n_c, A], or Gumbel f32 [L, E, n_c, N].
        explore: uniform f64 [L, E, n_c]; a Q head explores where the number is below epsilon. None without a
            Q head.
    """

    def __init__(self, actions: Floats, explore: NDArray[np.float64] | None) -> None:
        self.actions = actions
        self.explore = explore


class ClassPolicies:
    """The policies that the agents of one class play.

    Attributes:
        actions: the class's action space. The parameters of a Q head's distribution are the Q values.
        memory_size: H, numbers that an agent remembers of an episode; 0 without a recurrent layer.
    """

    def __init__(self, one: AgentClass, container: WeightsContainer, count: int) -> None:
        self.actions = action_space(one.action)
        self._shape = (count, len(one.agents))
        served: dict[str, list[int]] = {}
        for index, agent in enumerate(one.agents):
            served.setdefault(container.agents[agent], []).append(index)
        self._stacks: list[Stack] = []
        alike: dict[Any, list[str]] = {}
        for name, agents in served.items():
            weights = container.policies[name]
            check(weights, one)
            alike.setdefault((len(agents), *shape_of(weights)), []).append(name)
        for names in alike.values():
            weights_of = [container.policies[name] for name in names]
            self._stacks.append(Stack(one, weights_of, [served[name] for name in names], count))
        sizes = {memory_size(container.policies[name].network) for name in served}
        if len(sizes) > 1:
            raise wire.WireError(f"weights: class {one.name} has memories of several sizes, {sorted(sizes)}")
        (self.memory_size,) = sizes
        networks = [container.policies[container.agents[agent]].network for agent in one.agents]
        greedy = np.array([network["head"] == "q" for network in networks])
        self._greedy = greedy if greedy.any() else None
        self._epsilon = np.array([network.get("epsilon", 0.0) for network in networks])

    def noise(self, seed: np.random.SeedSequence, length: int) -> Noise:
        """Draw the random numbers of L steps."""
        generator = np.random.Generator(np.random.PCG64(seed))
        shape = (length, *self._shape)
        drawn = self.actions.noise(generator, shape)
        return Noise(drawn, None if self._greedy is None else generator.random(shape))

    def empty(self, length: int) -> np.ndarray:
        """An array for the actions of L steps, [L, E, n_c, *action shape]."""
        return np.empty((length, *self._shape, *self.actions.shape), self.actions.dtype)

    def memory(self) -> Floats:
        """Empty memories, f32 [E, n_c, H]."""
        return np.zeros((*self._shape, self.memory_size), np.float32)

    def distribution(
        self,
        observations: np.ndarray,
        available: NDArray[np.bool_] | None,
        out: Floats,
        memory: Floats | None = None,
    ) -> None:
        """Write the action distribution of each agent.

        Args:
            observations: [E, n_c, *shape], f32 or u8, raw.
            available: bool [E, n_c, C], None where actions are not masked.
            out: f32 [E, n_c, P].
            memory: f32 [E, n_c, H] before the observations, and after the call with them; needed where H is
                not 0.
        """
        for stack in self._stacks:
            stack(observations, out, memory)
        if available is not None:
            masks.apply(available, self.actions, out)

    def sample(
        self,
        distribution: Floats,
        noise: Noise,
        t: int,
        available: NDArray[np.bool_] | None,
        out: np.ndarray,
    ) -> None:
        """Write the actions of step t, [E, n_c, *action shape]; continuous ones are not clipped."""
        drawn = noise.actions[t]
        if noise.explore is None:
            self.actions.sample(distribution, drawn, out)
            return
        assert self._greedy is not None
        scores = distribution + drawn  # of policies without a Q head
        np.copyto(scores, distribution, where=self._greedy[:, None])
        # All numbers have the same distribution, so the highest one is a uniform choice.
        np.copyto(scores, drawn, where=(self._greedy & (noise.explore[t] < self._epsilon))[..., None])
        if available is not None:
            masks.apply(available, self.actions, scores)
        np.argmax(scores, axis=-1, out=out)

    def log_probabilities(
        self, distribution: Floats, actions: np.ndarray, available: NDArray[np.bool_] | None
    ) -> Floats:
        """Log probability of each action, f32 [L, E, n_c]. For a Q head: of its exploring policy."""
        result = self.actions.log_probabilities(distribution, actions)
        if self._greedy is not None:
            choices = self.actions.outputs if available is None else available.sum(axis=-1)
            best = actions == distribution.argmax(axis=-1)
            probability = self._epsilon / choices + (1 - self._epsilon) * best
            # Only an agent that did not act can have an action of probability 0; the maximum avoids log 0.
            explored = np.log(np.maximum(probability, np.finfo(np.float32).tiny)).astype(np.float32)
            np.copyto(result, explored, where=self._greedy)
        return result


def check(weights: PolicyWeights, one: AgentClass) -> None:
    """Check that a policy's weights fit its network and a class of agents.

    Raises:
        WireError: they do not fit; the text names the field or tensor.
    """
    network, tensors = weights.network, weights.tensors
    if network.get("kind") != "mlp":
        raise wire.WireError(
            f"weights: network {network.get('kind')!r}; policies of several agents are 'mlp'"
        )
    check_layers(network)
    ids = network.get("agentIds")
    if ids is not None and ids != len(one.agents):
        raise wire.WireError(f"weights: agentIds {ids!r}, but class {one.name} has {len(one.agents)} agents")
    shape, actions = tuple(one.observation["shape"]), action_space(one.action)
    _check_head(network, actions)
    layers, width = Mlp.parameters(network, (int(np.prod(shape)) + (ids or 0),))
    head, width = head_parameters(network, width, actions)
    value = linear_parameters("policy.value", width, 1) if network.get("dueling") else {}
    wire.check(tensors, layers | head | value | statistics_parameters(tensors, shape))


def _check_head(network: Mapping[str, Any], actions: ActionSpace) -> None:
    heads = (actions.head, "q") if actions.head == "categorical" else (actions.head,)
    head, epsilon = network.get("head"), network.get("epsilon")
    needed = actions.network().get("sizes")
    if network.get("sizes") != needed:
        raise wire.WireError(f"weights: sizes {network.get('sizes')!r}, but the actions need {needed!r}")
    if head not in heads:
        raise wire.WireError(f"weights: head {head!r}, but the actions need one of {heads}")
    if head == "q" and (type(epsilon) not in (int, float) or not 0 <= epsilon <= 1):  # type: ignore[operator]
        raise wire.WireError(f"weights: epsilon {epsilon!r} is no number from 0 to 1")
    if network.get("dueling") not in ((None, False, True) if head == "q" else (None, False)):
        raise wire.WireError(f"weights: dueling {network.get('dueling')!r} of a head {head!r}")
