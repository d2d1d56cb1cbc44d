"""Sampling with several agents: one fragment of training steps, or whole episodes for evaluation.

Everything random comes from the request's seed, so the same request gives the same tensors to the bit.
"""

from collections.abc import Collection, Mapping

import numpy as np

from nitro_actor.agents.environment import AgentsEnvironment
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.evaluation import Evaluation
from nitro_actor.matmul import Floats
from nitro_actor.memory import recall, with_memories
from nitro_actor.policy import ClassPolicies, Memories, Noise, Policies
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.fragment import EARLIER, INFO_METRICS
from nitro_actor.protocol.state import prefixed
from nitro_actor.rollout import PolicyError, Tensors, random_sources


def rollout(
    environment: AgentsEnvironment,
    policies: Policies,
    *,
    seed: int,
    steps: int,
    state: Mapping[str, np.ndarray],
    optional_tensors: Collection[str],
) -> Tensors:
    """Sample T transitions from E environments, time-major, L = T / E.

    Episodes that end begin anew in the same step.

    Args:
        seed: for the environments (unless they resume) and the policies' noise.
        steps: T, a multiple of E.
        state: the end state of this slot's last fragment, or empty for a fresh start.
        optional_tensors: which of OPTIONAL_TENSORS to return.

    Returns:
        The tensors of a fragment, as `nitro_actor.protocol.fragment` names them.

    Raises:
        EnvironmentCallError: the environment raised, or did what its interface does not allow.
        PolicyError: the weights lead to NaN.
        WireError: the state does not fit the environment.
    """
    count, info = environment.count, environment.info
    length = steps // count
    if info is not None:
        info.take()  # of an evaluation, or of a rollout that was broken off
    seeds, source = random_sources(seed, count)
    memories = policies.memories(count)
    if state:
        environment.restore(recall(state, memories.named))
    else:
        environment.reset(seeds)
    noise = policies.noise(source, length, count)
    tensors = {f"{name}/{EARLIER}": frames.copy() for name, frames in environment.earlier_frames.items()}
    records = [
        _Record(environment, one, policies.classes[one.name], memories.of[one.name], noise[one.name], length)
        for one in environment.spec.classes
    ]
    states = _States(environment, length) if "global_state" in optional_tensors else None
    terminated, truncated = np.empty((2, length, count), bool)
    returns, lengths = [], []
    for t in range(length):
        if states:
            states.before(t)
        observations = environment.observations
        for record in records:
            record.act(t, observations[record.name])
        try:
            step = environment.step({record.name: record.actions[t] for record in records})
        except EnvironmentCallError:
            for record in records:  # a policy that has diverged is the cause of what follows from it
                record.require_finite(t)
            raise
        for record in records:
            record.rewards[t] = step.rewards[record.name]
            record.died[t] = step.died[record.name]
        terminated[t], truncated[t] = step.terminated, step.truncated
        done = terminated[t] | truncated[t]
        acted = {record.name: record.alive[t].reshape(-1) for record in records}
        memories.forget(done, acted, {name: died.reshape(-1) for name, died in step.died.items()})
        if np.logical_or.reduce(done):
            cut = np.flatnonzero(truncated[t] & ~terminated[t])
            for record in records:
                record.cut(cut)
            if states and len(cut):
                states.cut(cut)
            for index in np.flatnonzero(done):
                returns.append(environment.returns[index].copy())
                lengths.append(environment.lengths[index])
                environment.reset_one(int(index))
    for record in records:
        tensors |= record.tensors(optional_tensors, clip_rewards=environment.clip_rewards)
    if states:
        tensors |= states.tensors()
    tensors |= {
        "terminated": terminated,
        "truncated": truncated,
        "episode_returns": np.array(returns, np.float64).reshape(-1, len(environment.spec.agents)),
        "episode_lengths": np.array(lengths, np.int64),
    }
    if info is not None:
        tensors[INFO_METRICS] = info.take()
    return tensors | prefixed(with_memories(environment.snapshot(), memories.named))


def evaluate(
    environment: AgentsEnvironment, policies: Policies, *, seed: int, episodes: int, max_steps: int
) -> Tensors:
    """Play whole episodes with the most probable or most valuable actions.

    Args:
        max_steps: an episode is cut after so many steps.

    Returns:
        episode_returns f64 [episodes, agents], episode_lengths i64 [episodes].

    Raises:
        EnvironmentCallError, PolicyError: as `rollout`.
    """
    environment.reset(random_sources(seed, environment.count)[0])
    evaluation = Evaluation(environment, episodes, max_steps)
    memories = policies.memories(environment.count)
    while evaluation.running:
        acted = {name: alive.flatten() for name, alive in environment.alive.items()}
        step = environment.step(best_actions(environment, policies, memories))
        evaluation.end_step(step.terminated | step.truncated)
        died = {name: died.reshape(-1) for name, died in step.died.items()}
        memories.forget(environment.lengths == 0, acted, died)
    return {"episode_returns": evaluation.returns, "episode_lengths": evaluation.lengths}


def best_actions(
    environment: AgentsEnvironment, policies: Policies, memories: Memories
) -> dict[str, np.ndarray]:
    """The most probable or most valuable actions of all agents now, by class. The memories take in what the
    agents see.

    Raises:
        PolicyError: the weights lead to NaN.
    """
    observations, actions = environment.observations, {}
    for one in environment.spec.classes:
        policy = policies.classes[one.name]
        shape = (environment.count, len(one.agents), policy.actions.parameters)
        distribution = np.empty(shape, np.float32)
        policy.distribution(
            observations[one.name], environment.available.get(one.name), distribution, memories.of[one.name]
        )
        _require_finite(one, distribution[None])
        actions[one.name] = policy.actions.mode(distribution)
    return actions


class _Record:
    """The data that a rollout keeps of one class of agents."""

    def __init__(
        self,
        environment: AgentsEnvironment,
        one: AgentClass,
        policies: ClassPolicies,
        memory: Floats,
        noise: Noise,
        length: int,
    ) -> None:
        self.name = one.name
        self._class = one
        self._policies = policies
        self._memory, self._before = memory, memory.reshape(environment.count, len(one.agents), -1).copy()
        self._noise = noise
        self._frames = environment.frames[one.name]
        self._now_alive = environment.alive[one.name]
        self._now_available = environment.available.get(one.name)
        steps = (length, *self._frames.shape[:2])
        self.actions = np.empty((*steps, *policies.actions.shape), policies.actions.dtype)
        self.rewards = np.empty(steps, np.float32)
        self.died = np.empty(steps, bool)
        self.alive = np.empty(steps, bool)
        self._observations = np.empty((length, *self._frames.shape), self._frames.dtype)
        self._distribution = np.empty((*steps, policies.actions.parameters), np.float32)
        now = self._now_available
        self._available = None if now is None else np.empty((length, *now.shape), bool)
        self._finals: list[np.ndarray] = []
        self._final_available: list[np.ndarray] = []

    def act(self, t: int, observations: np.ndarray) -> None:
        """Choose the actions of step t from its observations."""
        self._observations[t] = self._frames
        self.alive[t] = self._now_alive
        available = self._now_available
        if self._available is not None:
            self._available[t] = available
        self._policies.distribution(observations, available, self._distribution[t], self._memory)
        rows = len(self._memory)
        distribution, actions = self._distribution[t], self.actions[t]
        available = None if available is None else available.reshape(rows, -1)
        lanes = actions.reshape(rows, *actions.shape[2:])
        self._policies.sample(distribution.reshape(rows, -1), self._noise, t, available, lanes)

    def require_finite(self, t: int) -> None:
        """Raise PolicyError if the policies' output was not finite up to step t."""
        _require_finite(self._class, self._distribution[: t + 1])

    def cut(self, indices: np.ndarray) -> None:
        """Keep the data that follow the last step of truncated episodes."""
        self._finals.append(self._frames[indices])
        if self._now_available is not None:
            self._final_available.append(self._now_available[indices])

    def tensors(self, optional_tensors: Collection[str], *, clip_rewards: bool) -> Tensors:
        """The tensors by their names in the message."""
        _require_finite(self._class, self._distribution)
        if not np.isfinite(self.rewards).all():
            raise EnvironmentCallError(
                f"the environment returned rewards of {self.name} that are NaN or infinite as float32"
            )
        if clip_rewards:
            np.sign(self.rewards, out=self.rewards)
        fields = {
            "observations": self._observations,
            "actions": self.actions,
            "rewards": self.rewards,
            "alive": self.alive,
            "died": self.died,
            "last_observations": self._frames.copy(),
            "final_observations": _joined(self._finals, self._frames),
        }
        if self._now_available is not None and self._available is not None:
            fields |= {
                "available": self._available,
                "last_available": self._now_available.copy(),
                "final_available": _joined(self._final_available, self._now_available),
            }
        if self._policies.memory_size:
            fields["memory"] = self._before
        if "distribution" in optional_tensors:
            fields["distribution"] = self._distribution
        if "log_probs" in optional_tensors:
            fields["log_probs"] = self._policies.log_probabilities(
                self._distribution, self.actions, self._available
            )
        return {f"{self.name}/{field}": array for field, array in fields.items()}


class _States:
    """The global states of a rollout, if the environment has its own."""

    def __init__(self, environment: AgentsEnvironment, length: int) -> None:
        self._environment = environment
        size = environment.spec.state_size
        self._states = None if size is None else np.empty((length, environment.count, size), np.float32)
        self._finals: list[np.ndarray] = []

    def before(self, t: int) -> None:
        """Keep the states that step t begins with."""
        if self._states is not None:
            self._states[t] = self._environment.state()

    def cut(self, indices: np.ndarray) -> None:
        """Keep the data that follow the last step of truncated episodes."""
        state = self._environment.state()
        if state is not None:
            self._finals.append(state[indices])

    def tensors(self) -> Tensors:
        """The tensors by their names in the message; none if there is no state."""
        last = self._environment.state()
        if self._states is None or last is None:
            return {}
        return {
            "global_state": self._states,
            "last_global_state": last.copy(),
            "final_global_state": _joined(self._finals, last),
        }


def _joined(rows: list[np.ndarray], like: np.ndarray) -> np.ndarray:
    """Rows of truncated episodes, [n, ...]."""
    return np.concatenate(rows) if rows else np.empty((0, *like.shape[1:]), like.dtype)


def _require_finite(one: AgentClass, distribution: np.ndarray) -> None:
    """Refuse NaN and infinity in a policy's output; engines refuse them in its observations."""
    if not np.isfinite(distribution).all():
        t, index, agent = (int(i) for i in np.argwhere(~np.isfinite(distribution))[0][:3])
        raise PolicyError(
            f"the policy's distribution is NaN or infinite for {one.agents[agent]} at step {t} of "
            f"environment {index}: the weights have diverged"
        )
