"""What the learner's tests and benchmarks share: resolved jobs, made-up fragments, and rounds of real
rollouts."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

import actor_support
from actor_support import from_one_agent, of_one_agent, policies_of
from nitro_actor.environment import Environment
from nitro_actor.policy import Policies
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fragment import AGENT_AXIS
from nitro_actor.protocol.state import bare
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import JobSpec, NitroTrainingJob, load_job, resolve
from nitro_api.spec.network import Network
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.base import Learner, OffPolicyLearner, OnPolicyLearner
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.algorithms.ppo.loss import Coefficients, gradient, terms
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.data.batch import Fragment, RewardLanes
from nitro_learner.data.stacks import restack
from nitro_learner.networks.actor_critic import ActorCritic
from nitro_learner.networks.images import Image
from nitro_learner.networks.module import ActorCriticModule

HOPPER = DescribedEnvironment.from_json(
    {
        "observation": {"shape": [11], "dtype": "float32"},
        "action": {"kind": "continuous", "size": 3, "low": [-1.0] * 3, "high": [1.0] * 3},
    }
)
"""Hopper's DescribedEnvironment, as far as an algorithm reads it."""


def learner_of(spec: JobSpec, environment: DescribedEnvironment, device: str = "cpu") -> Any:
    """The learner of a resolved job of one agent."""
    (learner,) = registry.make_policies(spec, environment, device).learners
    return learner


def job(preset: str = "tuned", **overrides: Any) -> NitroTrainingJob:
    """A resolved Hopper job with the Nitro scaler; overrides as algorithm__hyperparameters__clip=0.3."""
    manifest = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "test"},
        "spec": {
            "environment": {"id": "Hopper-v5"},
            "algorithm": {"preset": preset},
            "scaling": {"scaler": "nitro"},
        },
    }
    settings = [f"spec.{name.replace('__', '.')}={value}" for name, value in overrides.items()]
    return resolve(load_job(manifest, settings))


def fragment(
    slot: int = 0,
    *,
    length: int = 64,
    envs: int = 1,
    size: int = 11,
    actions: int = 3,
    resumed: bool = False,
    ends: float = 0.02,
    seed: int = 0,
) -> Fragment:
    """A made-up fragment of a Gaussian policy; each step terminates and is truncated with probability
    `ends`."""
    rng = np.random.default_rng([seed, slot])

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    mean, log_std = 0.1 * normal(length, envs, actions), -0.5 + 0.1 * normal(length, envs, actions)
    noise = normal(length, envs, actions)
    terminated = rng.random((length, envs)) < ends
    truncated = rng.random((length, envs)) < ends
    return lone_fragment(
        {"slot": slot, "resumed": resumed},
        {
            "observations": normal(length, envs, size),
            "actions": mean + np.exp(log_std) * noise,
            "log_probs": (-0.5 * noise**2 - log_std - np.float32(0.5 * np.log(2 * np.pi))).sum(-1),
            "distribution": np.concatenate([mean, log_std], -1),
            "rewards": normal(length, envs),
            "terminated": terminated,
            "truncated": truncated,
            "last_observations": normal(envs, size),
            "final_observations": normal(int((truncated & ~terminated).sum()), size),
            "episode_returns": np.zeros(0),
            "episode_lengths": np.zeros(0, np.int64),
        },
    )


def lone_fragment(meta: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Fragment:
    """A fragment of one agent, whose arrays have no axis of its class; of stacked frames, whole
    observations."""
    named = from_one_agent(tensors)
    fields = {name.removeprefix(f"{AGENT}/"): array for name, array in named.items() if "/" in name}
    fields = {name: array for name, array in fields.items() if name in AGENT_AXIS}
    once = {name: array for name, array in named.items() if name.removeprefix(f"{AGENT}/") not in fields}
    if not fields:
        return Fragment(meta, once)
    return Fragment(meta, once, {AGENT: restack(fields, once["terminated"], once["truncated"])})


def plain(fragment: Fragment) -> dict[str, np.ndarray]:
    """All arrays of a fragment of one agent, as views without the axis of its class."""
    fields = {f"{AGENT}/{name}": array for name, array in fragment.by_class.get(AGENT, {}).items()}
    return of_one_agent({**fragment.tensors, **fields})


def lanes_of(fragment: Fragment) -> RewardLanes:
    """The rewards of a fragment of one agent along time."""
    tensors = plain(fragment)
    ended = tensors["terminated"] | tensors["truncated"]
    return RewardLanes(fragment.slot, fragment.resumed, tensors["rewards"], ended, np.ones_like(ended))


def train(
    spec: NitroTrainingJob, environments: list[Environment], rounds: int
) -> tuple[OnPolicyLearner, Policies]:
    """Train in this process, one slot per environment, episodes resumed; return the learner and the last
    policy."""
    algorithm: OnPolicyLearner = learner_of(
        spec.spec, DescribedEnvironment.from_json(environments[0].spec.to_json())
    )
    states: list[dict[str, np.ndarray]] = [{} for _ in environments]
    for k in range(1, rounds + 1):
        policy = _policy(algorithm, environments[0])
        fragments = []
        for slot, environment in enumerate(environments):
            tensors = actor_support.rollout(
                environment,
                policy,
                seed=1000 * k + slot,
                steps=spec.spec.environment.rollout_length,
                state=states[slot],
            )
            fragments.append(lone_fragment({"slot": slot, "resumed": bool(states[slot])}, tensors))
            states[slot] = bare(tensors)
        algorithm.update(fragments, k)
    return algorithm, _policy(algorithm, environments[0])


def train_off_policy(
    spec: NitroTrainingJob, environments: list[Environment], rounds: int, *, replays: int
) -> Policies:
    """As `train` for an off-policy algorithm: every other fragment is one version late, and after each round
    follow so many replays. Returns the last policy."""
    algorithm = learner_of(spec.spec, DescribedEnvironment.from_json(environments[0].spec.to_json()))
    assert isinstance(algorithm, OffPolicyLearner)
    states: list[dict[str, np.ndarray]] = [{} for _ in environments]
    policies = [_policy(algorithm, environments[0])]
    for k in range(1, rounds + 1):
        for slot, environment in enumerate(environments):
            tensors = actor_support.rollout(
                environment,
                policies[-1 - slot % len(policies)],
                seed=1000 * k + slot,
                steps=spec.spec.environment.rollout_length,
                state=states[slot],
            )
            algorithm.take([lone_fragment({"slot": slot, "resumed": bool(states[slot])}, tensors)])
            states[slot] = bare(tensors)
        for _ in range(replays):
            algorithm.replay()
        algorithm.end_round(k)
        policies = [policies[-1], _policy(algorithm, environments[0])]
    return policies[-1]


def parts_of(algorithm: Any) -> tuple[ActorCritic, Tensor]:
    """The shape of policy and critic of an algorithm of one agent, and a view of their parameters, f32
    [1, n]."""
    if isinstance(algorithm, Ppo):
        return algorithm.network(AGENT), algorithm.learned[AGENT].parameters[None]
    return algorithm.network, algorithm.parameters


def module_of(algorithm: Any) -> ActorCriticModule:
    """The policy and the critic of an algorithm of one agent, as a module on the same memory."""
    return ActorCriticModule(*parts_of(algorithm))


def coefficients_of(algorithm: Ppo) -> Coefficients:
    """Those of the loss of PPO's next update."""
    settings = algorithm.settings
    return Coefficients(
        clip=settings.clip,
        kl=algorithm.learned[AGENT].kl_coefficient,
        entropy=settings.entropy_coefficient,
        value=settings.value_coefficient,
        value_clip=settings.value_clip or math.inf,
    )


def samples_of(algorithm: Ppo, fragments: list[Fragment]) -> Samples:
    """PPO's samples of a round, with advantages that are standardised over the whole batch."""
    samples: Samples = algorithm.batch(AGENT, fragments, 1).data
    return samples.with_advantages(samples.standardised())


def module(
    inputs: int | Image,
    hidden: list[int],
    action: Mapping[str, Any],
    *,
    orthogonal: bool = False,
    seed: int = 0,
    **network: Any,
) -> ActorCriticModule:
    """A policy and a critic of the job's other settings of a network."""
    settings = {"type": "mlp", "activation": "tanh", "log_std": "state", "hidden_sizes": hidden} | network
    shape = ActorCritic(inputs, inputs, Network.model_construct(**settings), action, alone=True)
    row = shape.initial(torch.Generator().manual_seed(seed), orthogonal=orthogonal)
    return ActorCriticModule(shape, row[None])


def by_hand(algorithm: Any, c: Coefficients, samples: Samples, chunk: int = 1024) -> Tensor:
    """The gradient of PPO's loss as training computes it, f32 [n]."""
    network, parameters = parts_of(algorithm)
    into = torch.zeros_like(parameters)
    gradient(network, network.bind(parameters), samples.parts(chunk), c, network.bind(into))
    return into[0]


def by_autograd(algorithm: Any, c: Coefficients, samples: Samples) -> Tensor:
    """What `by_hand` computes, by autograd."""
    family, network = parts_of(algorithm)[0].family, module_of(algorithm)
    params = network.policy(samples.observations)
    if samples.available is not None:
        params = family.masked(params, samples.available)
    found = terms(samples, params, network.critic(samples.observations)[:, 0], family, c)
    loss = found.loss(c).mean()
    parts = torch.autograd.grad(loss, list(network.parameters()), materialize_grads=True)
    return torch.cat([part.reshape(-1) for part in parts])


def _policy(algorithm: Learner, environment: Environment) -> Policies:
    return policies_of(algorithm.weights()[DEFAULT_POLICY], environment.spec)
