"""Sampling: one fragment of training steps, or whole episodes for evaluation.

Everything random comes from the request's seed, so the same request gives the same tensors to the bit.
"""

from collections.abc import Collection, Mapping

import numpy as np

from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.environment import Environment
from nitro_actor.evaluation import Evaluation
from nitro_actor.memory import recall, with_memories
from nitro_actor.policy import Policies
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.fragment import INFO_METRICS
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.state import prefixed

Tensors = dict[str, np.ndarray]


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
        seed: for the environments (unless they resume) and the policy's noise.
        steps: T, a multiple of E.
        state: the end state of this slot's last fragment, or empty for a fresh start.
        optional_tensors: which of OPTIONAL_TENSORS to return.

    Returns:
        The tensors of a fragment, with L = T / E:
        observations [L, E, *frame] in the environment's dtype, actions [L, E, *action shape], log_probs
        f32 [L, E], distribution f32 [L, E, P], rewards f32 [L, E], terminated and truncated bool [L, E],
        last_observations [E, *frame], final_observations [n, *frame] (one per truncated step that did not
        terminate, by step then environment), episode_returns f64 [m], episode_lengths i64 [m], state/*.
        Where the policy sees stacks of k frames, each is here once: those are the newest, and
        earlier_observations [E, k - 1, *frame] came before the first step. Where the policy has a memory,
        memory f32 [E, H] is that before the first step. Where actions are masked, available bool [L, E, C],
        last_available [E, C] and final_available [n, C] are of the observations of the same names.

    Raises:
        EnvironmentCallError: the environment raised or returned NaN.
        PolicyError: the weights lead to NaN.
        WireError: the state does not fit the environment.
    """
    count, info = environment.count, environment.info
    length = steps // count
    if info is not None:
        info.take()  # of an evaluation, or of a rollout that was broken off
    seeds, source = random_sources(seed, count)
    memories, policy = policies.memories(count), policies.classes[AGENT]
    memory = memories.of[AGENT]
    if state:
        environment.restore(recall(state, memories.named))
    else:
        environment.reset(seeds)
    space = policy.actions
    noise = policies.noise(source, length, count)[AGENT]

    current = environment.frames
    earlier = environment.earlier_frames
    before = {} if earlier is None else {"earlier_observations": earlier.copy()}
    if policy.memory_size:
        before["memory"] = memory.copy()
    observations = np.empty((length, *current.shape), current.dtype)
    distribution = np.empty((length, count, space.parameters), np.float32)
    actions = np.empty((length, count, *space.shape), space.dtype)
    allowed = environment.available
    available = None if allowed is None else np.empty((length, *allowed.shape), bool)
    rewards = np.empty((length, count), np.float32)
    terminated = np.empty((length, count), bool)
    truncated = np.empty((length, count), bool)
    finals, final_available, returns, lengths = [], [], [], []
    for t in range(length):
        observations[t] = current
        if available is not None:
            available[t] = allowed
        policy.distribution(environment.observations, allowed, distribution[t], memory)
        policy.sample(distribution[t], noise, t, allowed, actions[t])
        try:
            rewards[t], terminated[t], truncated[t] = environment.step(actions[t])
        except EnvironmentCallError:
            # What came before is the cause: NaN that the policy saw, or a policy that has diverged.
            before_it = {"observations": observations[: t + 1], "distribution": distribution[: t + 1]}
            _require_finite(before_it | {"rewards": rewards[:t]}, environment)
            raise
        done = terminated[t] | truncated[t]
        if np.logical_or.reduce(done):
            memory[done] = 0
            for index in np.flatnonzero(done):
                if not terminated[t, index]:
                    finals.append(current[index].copy())
                    if allowed is not None:
                        final_available.append(allowed[index].copy())
                returns.append(environment.returns[index])
                lengths.append(environment.lengths[index])
                environment.reset_one(int(index))
    tensors = {
        "observations": observations,
        "actions": actions,
        "rewards": rewards,
        "terminated": terminated,
        "truncated": truncated,
        "last_observations": current.copy(),
        "final_observations": np.array(finals, current.dtype).reshape(-1, *current.shape[1:]),
        "episode_returns": np.array(returns, np.float64),
        "episode_lengths": np.array(lengths, np.int64),
    }
    if available is not None and allowed is not None:
        tensors |= {
            "available": available,
            "last_available": allowed.copy(),
            "final_available": np.array(final_available, bool).reshape(-1, *allowed.shape[1:]),
        }
    if info is not None:
        tensors[INFO_METRICS] = info.take()
    # A policy that has diverged is an error, even where the learner does not ask for its distribution.
    _require_finite(tensors | {"distribution": distribution}, environment)
    if "log_probs" in optional_tensors:
        tensors["log_probs"] = space.log_probabilities(distribution, actions)
    if "distribution" in optional_tensors:
        tensors["distribution"] = distribution
    if environment.clip_rewards:
        np.sign(rewards, out=rewards)
    return tensors | before | prefixed(with_memories(environment.snapshot(), memories.named))


def evaluate(
    environment: Environment, policies: Policies, *, seed: int, episodes: int, max_steps: int, rows: int = 0
) -> Tensors:
    """Play whole episodes with the most probable actions.

    Args:
        max_steps: an episode is cut after so many steps.
        rows: E of an environment that the result is equal to, to the bit, where this one has no more copies
            than there are episodes; that of this one by default. A product of matrices may differ in its last
            bits with another number of rows.

    Returns:
        episode_returns f64 [episodes], episode_lengths i64 [episodes].

    Raises:
        EnvironmentCallError, PolicyError: as `rollout`.
    """
    count = environment.count
    rows = max(rows, count)
    environment.reset(random_sources(seed, rows)[0][:count])
    evaluation = Evaluation(environment, episodes, max_steps)
    memories, policy = policies.memories(rows), policies.classes[AGENT]
    memory = memories.of[AGENT]
    distribution = np.empty((rows, policy.actions.parameters), np.float32)
    while evaluation.running:
        available = environment.available
        policy.distribution(
            _filled(environment.observations, rows),
            None if available is None else _filled(available, rows),
            distribution,
            memory,
        )
        if not np.isfinite(distribution).all():
            _require_finite(
                {"observations": environment.frames[None], "distribution": distribution[None]}, environment
            )
        _, terminated, truncated = environment.step(policy.actions.mode(distribution)[:count])
        evaluation.end_step(terminated | truncated)
        memory[:count][environment.lengths == 0] = 0
    if not np.isfinite(evaluation.returns).all():
        raise EnvironmentCallError(
            "the environment returned a reward that is NaN or infinite; it must return finite numbers"
        )
    return {"episode_returns": evaluation.returns, "episode_lengths": evaluation.lengths}


def _filled(array: np.ndarray, rows: int) -> np.ndarray:
    """The array with copies of its first row below, up to so many rows."""
    if len(array) == rows:
        return array
    return np.concatenate([array, np.repeat(array[:1], rows - len(array), axis=0)])


class PolicyError(RuntimeError):
    """The policy's output is NaN or infinite for a finite observation: the weights have diverged."""


def random_sources(seed: int, count: int) -> tuple[list[int], np.random.SeedSequence]:
    """Seeds of the environments, and the source of the policies' noise, independent of each other."""
    environments, noise = np.random.SeedSequence(seed).spawn(2)
    return [int(word) for word in environments.generate_state(count, np.uint64)], noise


def _require_finite(tensors: Tensors, environment: Environment) -> None:
    """Refuse NaN and infinity. The error names the first one in time: later ones follow from it."""
    causes = []
    for order, name in enumerate(("observations", "distribution", "rewards")):
        array = tensors.get(name)
        if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
            t, index = (int(i) for i in np.argwhere(~np.isfinite(array))[0][:2])
            causes.append((t, order, index, name))
    if not causes:
        for name in ("last_observations", "final_observations"):
            array = tensors.get(name)
            if array is not None and not np.isfinite(array).all():
                found = _named(
                    name, array[~np.isfinite(array).reshape(len(array), -1).all(axis=1)][0], environment
                )
                raise EnvironmentCallError(
                    f"the environment returned NaN or infinity in {found}; it must return finite numbers"
                )
        return
    t, _, index, name = min(causes)
    where = f"at step {t} of environment {index}"
    if name == "distribution":
        raise PolicyError(f"the policy's distribution is NaN or infinite {where}: the weights have diverged")
    if name == "observations":
        name = _named(name, tensors[name][t, index], environment)
    raise EnvironmentCallError(
        f"the environment returned NaN or infinity in {name} {where}; it must return finite numbers"
    )


def _named(name: str, observation: np.ndarray, environment: Environment) -> str:
    """Observations, and which part of them is not finite."""
    part = environment.part(int(np.flatnonzero(~np.isfinite(observation))[0]))
    return f"{part} of {name}" if part else name
