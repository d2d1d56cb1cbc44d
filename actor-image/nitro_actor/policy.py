"""The policies in numpy: which agents each plays, and their noise, memories, masks and distributions.

Arrays of a class of n_c agents have one row for each lane: an agent of one of E environments, in the order of
the environments. One agent is a class of one, so its lanes are the environments. The leading axes of lanes
may also be [E, n_c].

Besides the fields that `nitro_actor.networks` knows, the description of a policy's network may have

    recurrent       a layer that remembers, see `nitro_actor.memory`
    logStd: state   the head gives log standard deviations too, which otherwise are parameters
    head: q         Q values of discrete actions; the policy takes the available action with the highest, or
                    a random available one with probability `epsilon`
    head: squashedGaussian, tanh
                    continuous actions in [-1, 1], see `nitro_actor.actions`; the noise that `tanh` adds has
                    the standard deviation `noise`
    uniform: true   of these two: sampled actions are drawn evenly from [-1, 1], whatever the policy's outputs
    dueling: true   of a Q head: Q = V + A - mean A (Wang et al. 2016), A of the layer policy.head, V of the
                    layer policy.value
    agentIds: n_c   an agent's index in its class follows its normalised observation, one-hot
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import masks, onnx, wire
from nitro_actor.actions import (
    SQUASHED,
    ActionSpace,
    Continuous,
    SquashedMean,
    action_space,
    policy_space,
    without_bounds,
)
from nitro_actor.matmul import Floats
from nitro_actor.memory import memory_parameters, memory_size
from nitro_actor.networks import ACTIVATIONS, NETWORKS, Specs, linear_parameters
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_actor.stack import Stack, shape_of


class Policies:
    """The policies of all agents.

    Attributes:
        classes: by the name of the agent class.
        boxes: the action spaces of the classes whose actions are continuous, likewise.
    """

    def __init__(self, container: WeightsContainer, classes: Sequence[AgentClass]) -> None:
        """Build from weights.

        Raises:
            WireError: they do not fit the environment, or hold NaN.
        """
        container.require_agents(agent for agent_class in classes for agent in agent_class.agents)
        self.classes = {agent_class.name: ClassPolicies(agent_class, container) for agent_class in classes}
        self.boxes = {
            name: policies.actions
            for name, policies in self.classes.items()
            if isinstance(policies.actions, Continuous)
        }

    def require_tensors(self, optional_tensors: Collection[str]) -> None:
        """Refuse optional tensors of a rollout that these policies cannot give.

        Raises:
            WireError: a distribution is asked for, and a policy squashes actions.
        """
        unknown = sorted({"distribution", "log_probs"} & set(optional_tensors))
        squashed = [box.head for box in self.boxes.values() if box.head in SQUASHED]
        if unknown and squashed:
            raise wire.WireError(f"optionalTensors: {unknown}, which policies of a head {squashed[0]!r} lack")

    def memories(self, count: int) -> "Memories":
        """Empty memories of E environments, as episodes begin with them."""
        classes = [policies.agents for policies in self.classes.values()]
        return Memories(classes, {name: policies.memory(count) for name, policies in self.classes.items()})

    def noise(self, seed: np.random.SeedSequence, length: int, count: int) -> dict[str, "Noise"]:
        """All random numbers of a rollout by class, drawn at once, whichever agents share policies."""
        one_agent = not any(policies.agents.mortal for policies in self.classes.values())
        seeds = [seed] if one_agent else seed.spawn(len(self.classes))
        generators = (np.random.Generator(np.random.PCG64(own)) for own in seeds)
        return {
            name: policies.noise(generator, length, count)
            for (name, policies), generator in zip(self.classes.items(), generators, strict=True)
        }


class Memories:
    """What agents remember of their episodes.

    Attributes:
        of: f32 [lanes, H] by class, updated in place. H is 0 where a class's policies have no memory.
        named: those with numbers by their names in end states, as views.
    """

    def __init__(self, classes: Sequence[AgentClass], of: Mapping[str, Floats]) -> None:
        self.of = of
        self._remember = [agent_class for agent_class in classes if of[agent_class.name].shape[-1]]
        self.named = dict(
            agent_class.in_state(
                "memory",
                of[agent_class.name].reshape(-1, len(agent_class.agents), of[agent_class.name].shape[-1]),
            )
            for agent_class in self._remember
        )

    def forget(
        self, ended: np.ndarray, acted: Mapping[str, np.ndarray], died: Mapping[str, np.ndarray]
    ) -> None:
        """Empty the memories that end with a step. An agent that is not alive has an empty one.

        Args:
            ended: bool, whose episode ended with the step; of the first environments, if not of all.
            acted: bool [lanes] by class, who was alive in it.
            died: bool [E, n_c] by class, who died in it.
        """
        for agent_class in self._remember:
            name, gone = agent_class.name, ended
            if agent_class.mortal:
                gone = np.repeat(ended, len(agent_class.agents)) | died[name].reshape(-1) | ~acted[name]
            self.of[name][: len(gone)][gone] = 0


class Noise:
    """Random numbers of a class's actions.

    Attributes:
        actions: those of `nitro_actor.actions`, [L, lanes, ...].
        explore: bool [L, lanes], where an action is drawn evenly from all of them, whatever the policy's
            outputs; None where that is never so.
    """

    def __init__(self, actions: Floats, explore: NDArray[np.bool_] | None) -> None:
        self.actions = actions
        self.explore = explore


class ClassPolicies:
    """The policies that the agents of one class play.

    Attributes:
        actions: the class's action space. The parameters of a Q head's distribution are the Q values.
        memory_size: H, numbers that an agent remembers of an episode; 0 without a recurrent layer.
    """

    def __init__(self, agents: AgentClass, container: WeightsContainer) -> None:
        self.agents = agents
        networks = [container.policies[container.agents[agent]].network for agent in agents.agents]
        self.actions = _common_space(agents, networks)
        served: dict[str, list[int]] = {}
        for index, agent in enumerate(agents.agents):
            served.setdefault(container.agents[agent], []).append(index)
        alike: dict[Any, list[str]] = {}
        for name, places in served.items():
            weights = container.policies[name]
            check(weights, agents)
            alike.setdefault((len(places), *shape_of(weights)), []).append(name)
        self._stacks = [
            Stack(agents, [container.policies[name] for name in names], [served[name] for name in names])
            for names in alike.values()
        ]
        sizes = {memory_size(container.policies[name].network) for name in served}
        if len(sizes) > 1:
            raise wire.WireError(
                f"weights: class {agents.name} has memories of several sizes, {sorted(sizes)}"
            )
        (self.memory_size,) = sizes
        greedy = np.array([network["head"] == "q" for network in networks])
        self._greedy = greedy if greedy.any() else None
        self._epsilon = np.array([network.get("epsilon", 0.0) for network in networks])
        self._uniform = np.array([bool(network.get("uniform")) for network in networks])
        self._noise = None
        if isinstance(self.actions, SquashedMean):
            self._noise = np.array([[network["noise"]] for network in networks], np.float32)

    def noise(self, generator: np.random.Generator, length: int, count: int) -> Noise:
        """Draw the random numbers of L steps of E environments."""
        lanes = (length, count * len(self.agents.agents))
        drawn = self.actions.noise(generator, lanes)
        if self._noise is not None:
            by_agent = drawn.reshape(-1, len(self._noise), drawn.shape[-1])
            np.multiply(by_agent, self._noise, out=by_agent)
        if self._uniform.any():
            uniform = np.tile(self._uniform, (length, count))
            np.copyto(drawn, 2 * generator.random(drawn.shape, np.float32) - 1, where=uniform[..., None])
            return Noise(drawn, uniform)
        if self._greedy is None:
            return Noise(drawn, None)
        chances = generator.random((length, count, len(self._greedy)))
        return Noise(drawn, (self._greedy & (chances < self._epsilon)).reshape(lanes))

    def memory(self, count: int) -> Floats:
        """Empty memories of E environments, f32 [lanes, H]."""
        return np.zeros((count * len(self.agents.agents), self.memory_size), np.float32)

    def distribution(
        self,
        observations: np.ndarray,
        available: NDArray[np.bool_] | None,
        out: Floats,
        memory: Floats | None = None,
    ) -> None:
        """Write the action distribution of each agent.

        Args:
            observations: [lanes, *shape], f32 or u8, raw.
            available: bool [lanes, C], see `nitro_actor.masks`; None where actions are not masked.
            out: f32 [lanes, P]; `nitro_actor.actions` says what the parameters are.
            memory: f32 [lanes, H] before the observations, and after the call with them; needed where H is
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
        """Write the actions of step t, [lanes, *action shape]; continuous ones are not clipped."""
        drawn = noise.actions[t]
        if noise.explore is None:
            self.actions.sample(distribution, drawn, out)
            return
        if self._greedy is None:
            self.actions.sample(distribution, drawn, out)
            np.copyto(out, drawn, where=noise.explore[t][:, None])
            return
        scores = distribution + drawn  # of policies without a Q head
        by_agent = (-1, len(self._greedy), scores.shape[-1])
        np.copyto(scores.reshape(by_agent), distribution.reshape(by_agent), where=self._greedy[:, None])
        # All numbers have the same distribution, so the highest one is a uniform choice.
        np.copyto(scores, drawn, where=noise.explore[t][:, None])
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


def check(weights: PolicyWeights, agents: AgentClass) -> None:
    """Check that a policy's weights fit its network and a class of agents.

    Raises:
        WireError: they do not fit; the text names the field or tensor.
    """
    network, tensors = weights.network, weights.tensors
    kind = network.get("kind")
    if agents.mortal and kind != "mlp":
        raise wire.WireError(f"weights: network {kind!r}; policies of several agents are 'mlp'")
    if kind not in NETWORKS:
        raise wire.WireError(f"weights: network {network!r} is unknown; known kinds: {sorted(NETWORKS)}")
    if kind != onnx.KIND:
        _check_layers(network)
    ids = network.get("agentIds")
    if ids is not None and ids != len(agents.agents):
        raise wire.WireError(
            f"weights: agentIds {ids!r}, but class {agents.name} has {len(agents.agents)} agents"
        )
    shape, actions = tuple(agents.observation["shape"]), policy_space(agents.action, network.get("head"))
    _check_head(network, actions, agents.action)
    seen = (math.prod(shape) + ids,) if ids else shape
    layers, width = NETWORKS[network["kind"]].parameters(network, seen)
    head, width = head_parameters(network, width, actions)
    value = linear_parameters("policy.value", width, 1) if network.get("dueling") else {}
    wire.check(tensors, layers | head | value | _statistics_parameters(tensors, shape))


def head_parameters(network: Mapping[str, Any], width: int, actions: ActionSpace) -> tuple[Specs, int]:
    """Names and shapes of what follows a network's layers, a recurrent layer and the head; and the number of
    features that the head sees.

    Args:
        width: features of the layers.

    Raises:
        WireError: the description is wrong.
    """
    expected, width = memory_parameters(network, width)
    one_std = actions.head == "gaussian" and network.get("logStd") != "state"
    outputs = actions.outputs if one_std else actions.parameters
    if network.get("kind") != onnx.KIND:
        expected |= linear_parameters("policy.head", width, outputs)
    elif width != outputs:
        raise wire.WireError(f"weights: outputs {width}, but the actions need {outputs}")
    if one_std:
        expected["policy.log_std"] = wire.TensorSpec("float32", (actions.outputs,))
    return expected, width


def _statistics_parameters(tensors: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> Specs:
    """Names and shapes of the normalisation's statistics: both, if there is one of them."""
    names = ("observation.mean", "observation.var")
    return {name: wire.TensorSpec("float64", shape) for name in names} if tensors.keys() & names else {}


def _check_layers(network: Mapping[str, Any]) -> None:
    hidden = network.get("hidden")
    if not isinstance(hidden, list) or not all(type(n) is int and n > 0 for n in hidden):
        raise wire.WireError(f"weights: hidden {hidden!r} must be a list of widths")
    if network.get("activation") not in ACTIVATIONS:
        raise wire.WireError(f"weights: activation {network.get('activation')!r} is unknown")


def _common_space(agents: AgentClass, networks: Sequence[Mapping[str, Any]]) -> ActionSpace:
    """The actions of a class's policies, which all have them in the same form.

    Raises:
        WireError: their heads differ in it.
    """
    spaces = {(space := policy_space(agents.action, network.get("head"))).head: space for network in networks}
    if len(spaces) > 1:
        raise wire.WireError(f"weights: class {agents.name} has policies of several heads, {sorted(spaces)}")
    (space,) = spaces.values()
    return space


def _check_head(network: Mapping[str, Any], actions: ActionSpace, action: Mapping[str, Any]) -> None:
    heads: tuple[str, ...] = (action_space(action).head,)
    heads += {"categorical": ("q",), "gaussian": tuple(SQUASHED)}.get(heads[0], ())
    head, epsilon, noise = (network.get(name) for name in ("head", "epsilon", "noise"))
    needed = actions.network().get("sizes")
    if network.get("sizes") != needed:
        raise wire.WireError(f"weights: sizes {network.get('sizes')!r}, but the actions need {needed!r}")
    if head not in heads:
        raise wire.WireError(f"weights: head {head!r}, but the actions need one of {heads}")
    if head == "q" and (type(epsilon) not in (int, float) or not 0 <= epsilon <= 1):  # type: ignore[operator]
        raise wire.WireError(f"weights: epsilon {epsilon!r} is no number from 0 to 1")
    if network.get("dueling") not in ((None, False, True) if head == "q" else (None, False)):
        raise wire.WireError(f"weights: dueling {network.get('dueling')!r} of a head {head!r}")
    if network.get("uniform") not in ((None, False, True) if head in SQUASHED else (None, False)):
        raise wire.WireError(f"weights: uniform {network.get('uniform')!r} of a head {head!r}")
    if head == "tanh" and (type(noise) not in (int, float) or not 0 <= noise <= 10):  # type: ignore[operator]
        raise wire.WireError(f"weights: noise {noise!r} is no number from 0 to 10")
    if head in SQUASHED and (missing := without_bounds(action)):
        raise wire.WireError(
            f"weights: head {head!r} needs actions with finite bounds, and {missing}; give the action space "
            "bounds"
        )
