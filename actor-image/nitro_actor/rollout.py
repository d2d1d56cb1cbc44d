"""Sampling: one fragment of training steps, or whole episodes for evaluation.

Everything random comes from the request's seed, so the same request gives the same tensors to the bit.
"""

from collections.abc import Collection, Mapping

import numpy as np

from nitro_actor.engines.base import EnvironmentCallError, Step
from nitro_actor.environment import Environment
from nitro_actor.evaluation import Evaluation
from nitro_actor.matmul import Floats
from nitro_actor.memory import recall, with_memories
from nitro_actor.policy import ClassPolicies, Memories, Noise, Policies
from nitro_actor.protocol.fragment import EARLIER, INFO_METRICS
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.state import prefixed

Tensors = dict[str, np.ndarray]


class PolicyError(RuntimeError):
    """The policy's output is NaN or infinite for a finite observation: the weights have diverged."""


def rollout(
    environment: Environment,
    policies: Policies,
    *,
    seed: int,
    steps: int,
    state: Mapping[str, np.ndarray],
    optional_tensors: Collection[str] = OPTIONAL_TENSORS,
) -> Tensors:
    """Sample T transitions from E environments, time-major, L = T / E.

    Episodes that end begin anew in the same step. Truncation is not termination: the true last observation of
    a truncated episode is in `final_observations`, so that the learner can bootstrap from it.

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
        WireError: the state does not fit the environment, or the policies have no such optional tensor.
    """
    policies.require_tensors(optional_tensors)
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
        _Record(environment, policy, memories.of[name], noise[name], length)
        for name, policy in policies.classes.items()
    ]
    states = _States(environment, length) if "global_state" in optional_tensors else None
    terminated, truncated = np.empty((2, length, count), bool)
    returns, lengths = [], []
    for t in range(length):
        if states:
            states.before(t)
        observations, actions = environment.observations, {}
        for record in records:
            actions[record.name] = record.act(t, observations[record.name])
        try:
            step = environment.step(actions, policies.boxes)
        except EnvironmentCallError:
            # What came before is the cause: NaN that a policy saw, or a policy that has diverged.
            for record in records:
                record.require_finite(t + 1, t)
            raise
        for record in records:
            record.take(t, step)
        terminated[t], truncated[t] = step.terminated, step.truncated
        done = step.terminated | step.truncated
        if memories.named:
            memories.forget(done, {record.name: record.acted(t) for record in records}, step.died)
        if np.logical_or.reduce(done):
            if len(cut := np.flatnonzero(step.truncated & ~step.terminated)):
                for record in records:
                    record.cut(cut)
                if states:
                    states.cut(cut)
            for index in np.flatnonzero(done):
                returns.append(environment.returns[index].copy())
                lengths.append(environment.lengths[index])
                environment.reset_one(int(index))
    for record in records:
        tensors |= record.tensors(optional_tensors)
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
    environment: Environment, policies: Policies, *, seed: int, episodes: int, max_steps: int, rows: int = 0
) -> Tensors:
    """Play whole episodes with the most probable or most valuable actions.

    Args:
        max_steps: an episode is cut after so many steps.
        rows: E of an environment that the result is equal to, to the bit, where this one has no more copies
            than there are episodes; that of this one by default. A product of matrices may differ in its last
            bits with another number of rows.

    Returns:
        episode_returns f64 [episodes, agents], episode_lengths i64 [episodes].

    Raises:
        EnvironmentCallError, PolicyError: as `rollout`.
    """
    rows = max(rows, environment.count)
    environment.reset(random_sources(seed, rows)[0][: environment.count])
    evaluation = Evaluation(environment, episodes, max_steps)
    memories = policies.memories(rows)
    while evaluation.running:
        acted = {name: alive.flatten() for name, alive in environment.alive.items()}
        actions = best_actions(environment, policies, memories, rows)
        step = environment.step(actions, policies.boxes)
        evaluation.end_step(step.terminated | step.truncated)
        memories.forget(environment.lengths == 0, acted, step.died)
    if not np.isfinite(evaluation.returns).all():
        raise EnvironmentCallError(
            "the environment returned a reward that is NaN or infinite; it must return finite numbers"
        )
    return {"episode_returns": evaluation.returns, "episode_lengths": evaluation.lengths}


def best_actions(
    environment: Environment, policies: Policies, memories: Memories, rows: int = 0
) -> dict[str, np.ndarray]:
    """The most probable or most valuable actions of all agents now, by class. The memories take in what the
    agents see.

    Args:
        rows: see `evaluate`; the memories are of so many environments.

    Raises:
        PolicyError: the weights lead to NaN.
    """
    count = environment.count
    rows = max(rows, count)
    observations, actions = environment.observations, {}
    for name, policy in policies.classes.items():
        available = environment.available.get(name)
        agents = len(policy.agents.agents)
        if available is not None:
            available = _filled(available.reshape(count * agents, -1), rows * agents)
        distribution = np.empty((rows * agents, policy.actions.parameters), np.float32)
        seen = _filled(observations[name], rows * agents)
        policy.distribution(seen, available, distribution, memories.of[name])
        if not np.isfinite(distribution).all():
            shape = (1, rows, agents, -1)
            frames = environment.frames[name][None]
            _require_finite(environment, policy, frames, distribution.reshape(shape))
        best = policy.actions.mode(distribution)[: count * agents]
        actions[name] = best.reshape(count, agents, *best.shape[1:])
    return actions


def random_sources(seed: int, count: int) -> tuple[list[int], np.random.SeedSequence]:
    """Seeds of the environments, and the source of the policies' noise, independent of each other."""
    environments, noise = np.random.SeedSequence(seed).spawn(2)
    return [int(word) for word in environments.generate_state(count, np.uint64)], noise


def _filled(array: np.ndarray, rows: int) -> np.ndarray:
    """The array with copies of its first row below, up to so many rows."""
    if len(array) == rows:
        return array
    return np.concatenate([array, np.repeat(array[:1], rows - len(array), axis=0)])


class _Record:
    """The data that a rollout keeps of one class of agents.

    Policies see rows of lanes, so each array that they read or write has a view without the class's axis.
    """

    def __init__(
        self, environment: Environment, policies: ClassPolicies, memory: Floats, noise: Noise, length: int
    ) -> None:
        self._environment, self._policies = environment, policies
        agents = policies.agents
        self.name, self._mortal = agents.name, agents.mortal
        self._noise = noise
        self._frames = environment.frames[agents.name]
        self._now_alive = environment.alive[agents.name]
        self._now_available = environment.available.get(agents.name)
        shape = (length, environment.count, len(agents.agents))
        lanes = (length, shape[1] * shape[2])
        self._memory, self._before = memory, memory.reshape(*shape[1:], -1).copy()
        space = policies.actions
        self._actions = np.empty((*shape, *space.shape), space.dtype)
        self._actions_of_lanes = self._actions.reshape(*lanes, *space.shape)
        self._distribution = np.empty((*shape, space.parameters), np.float32)
        self._distribution_of_lanes = self._distribution.reshape(*lanes, space.parameters)
        self._rewards = np.empty(shape, np.float32)
        self._alive, self._died = np.empty((2, *shape), bool)
        self._observations = np.empty((length, *self._frames.shape), self._frames.dtype)
        self._finals: list[np.ndarray] = []
        self._available = self._available_to_lanes = None
        if (now := self._now_available) is not None:
            self._available = np.empty((length, *now.shape), bool)
            self._available_to_lanes = now.reshape(lanes[1], -1)
        self._final_available: list[np.ndarray] = []

    def act(self, t: int, observations: np.ndarray) -> np.ndarray:
        """Choose the actions of step t, [E, n_c, *action shape], from what the policies see."""
        self._observations[t] = self._frames
        if self._mortal:
            self._alive[t] = self._now_alive
        if self._available is not None:
            self._available[t] = self._now_available
        policies, available = self._policies, self._available_to_lanes
        distribution = self._distribution_of_lanes[t]
        policies.distribution(observations, available, distribution, self._memory)
        policies.sample(distribution, self._noise, t, available, self._actions_of_lanes[t])
        chosen: np.ndarray = self._actions[t]
        return chosen

    def take(self, t: int, step: Step) -> None:
        """Keep the outcome of step t."""
        self._rewards[t] = step.rewards[self.name]
        if self._mortal:
            self._died[t] = step.died[self.name]

    def acted(self, t: int) -> np.ndarray:
        """Who was alive in step t, bool [lanes]."""
        alive: np.ndarray = self._alive[t].reshape(-1)
        return alive

    def cut(self, indices: np.ndarray) -> None:
        """Keep the data that follow the last step of truncated episodes."""
        self._finals.append(self._frames[indices])
        if self._now_available is not None:
            self._final_available.append(self._now_available[indices])

    def require_finite(self, acted: int, rewarded: int) -> None:
        """Refuse NaN and infinity in the first so many steps.

        Raises:
            PolicyError, EnvironmentCallError: which of them is in the first one's cause.
        """
        arrays = self._observations[:acted], self._distribution[:acted], self._rewards[:rewarded]
        _require_finite(self._environment, self._policies, *arrays)

    def tensors(self, optional_tensors: Collection[str]) -> Tensors:
        """The tensors by their names in the message."""
        # A policy that has diverged is an error, even where the learner does not ask for its distribution.
        length = len(self._rewards)
        self.require_finite(length, length)
        fields = {
            "observations": self._observations,
            "actions": self._actions,
            "rewards": self._rewards,
            "last_observations": self._frames.copy(),
            "final_observations": _joined(self._finals, self._frames),
        }
        for name in ("last_observations", "final_observations"):
            if not np.isfinite(fields[name]).all():
                broken = np.argwhere(~np.isfinite(fields[name]))[0]
                what = _named(name, self._environment, self._policies, *broken[1:])
                raise EnvironmentCallError(
                    f"the environment returned NaN or infinity in {what}; it must return finite numbers"
                )
        if self._environment.clip_rewards:
            np.sign(self._rewards, out=self._rewards)
        if self._mortal:
            fields |= {"alive": self._alive, "died": self._died}
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
                self._distribution, self._actions, self._available
            )
        return {f"{self.name}/{field}": array for field, array in fields.items()}


class _States:
    """The global states of a rollout, if the environment has its own."""

    def __init__(self, environment: Environment, length: int) -> None:
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


def _require_finite(
    environment: Environment,
    policies: ClassPolicies,
    observations: np.ndarray,
    distribution: np.ndarray,
    rewards: np.ndarray | None = None,
) -> None:
    """Refuse NaN and infinity in arrays [L, E, n_c, ...]. The error names the first one in time: later ones
    follow from it."""
    given = {"observations": observations, "distribution": distribution, "rewards": rewards}
    causes = []
    for order, (name, array) in enumerate(given.items()):
        if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
            t, *place = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
            causes.append((t, order, name, place))
    if not causes:
        return
    t, _, name, place = min(causes)
    where = f"at step {t} of environment {place[0]}"
    if name == "distribution":
        of = f" for {policies.agents.agents[place[1]]}" if policies.agents.mortal else ""
        raise PolicyError(
            f"the policy's distribution is NaN or infinite{of} {where}: the weights have diverged"
        )
    what = _named(name, environment, policies, *place[1:])
    raise EnvironmentCallError(
        f"the environment returned NaN or infinity in {what} {where}; it must return finite numbers"
    )


def _named(name: str, environment: Environment, policies: ClassPolicies, agent: int, *place: int) -> str:
    """An array of a class, of which agent it is, and which part of an observation is at a place."""
    shape = policies.agents.observation["frame"]
    part = environment.part(int(np.ravel_multi_index(place, shape))) if place else ""
    name = f"{part} of {name}" if part else name
    return f"{name} of {policies.agents.agents[agent]}" if policies.agents.mortal else name
