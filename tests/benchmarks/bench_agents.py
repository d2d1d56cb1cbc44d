"""What a round of several policies costs, update and sampling, on one core, interleaved in one run.

    python tests/benchmarks/bench_agents.py [--agents 6] [--repeats 5]

Prints two Markdown tables for a round of mpe2's simple_spread, 4,000 environment steps, with a policy for
each agent. The first has the wall time (median, least) of its update; of one policy that learns as many
samples in as many gradient steps; and of the policies one after another. The second has the processor time of
its sampling, beside a loop over mpe2 that plays the same policies.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import numpy as np
import torch
from mpe2 import simple_spread_v3

from actor_support import Game
from agents_support import agent_class, agents_fragment, team
from nitro_actor.config import EnvironmentConfig
from nitro_actor.environment import Environment, EnvironmentSpec
from nitro_actor.make_env import make_env
from nitro_actor.policy import Policies
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment

SLOTS, LENGTH, ENVS = 40, 25, 4
"""4,000 environment steps."""


def rounds(agents: int) -> list[Fragment]:
    """A round of made-up fragments of the shape that simple_spread's have."""
    one = agent_class(agents=agents, size=6 * agents)
    return [agents_fragment(one, slot=slot, length=LENGTH, envs=ENVS, ends=0.02) for slot in range(SLOTS)]


def updates(algorithm: str, agents: int) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    one, fragments = agent_class(agents=agents, size=6 * agents), rounds(agents)
    separate = Ppo(team(one, algorithm=algorithm, hidden=(64, 64)))
    minibatch = separate.settings.minibatch_size
    shared = Ppo(
        team(
            one,
            algorithm=algorithm,
            hidden=(64, 64),
            settings={"minibatchSize": agents * minibatch},
            group_batch="all",
        )
    )
    shared.regroup({one.agents[0]: one.agents})
    alone = [Ppo(team(one, algorithm=algorithm, hidden=(64, 64), agents=[a])) for a in one.agents]
    return {
        f"{agents} policies, stacked": lambda: separate.update(fragments, 1),
        f"one policy, {agents} times the samples": lambda: shared.update(fragments, 1),
        f"{agents} policies, one after another": lambda: [learner.update(fragments, 1) for learner in alone],
    }


def random_policies(spec: EnvironmentSpec) -> WeightsContainer:
    """A policy for each agent, with `tuned`'s two layers of 64 units."""
    (one,) = spec.classes
    random = np.random.default_rng(0)
    sizes = {
        "layers.0": (64, one.observation["shape"][0]),
        "layers.1": (64, 64),
        "head": (one.action["n"], 64),
    }
    network = {"kind": "mlp", "hidden": [64, 64], "activation": "tanh", "head": "categorical"}

    def policy() -> PolicyWeights:
        tensors = {f"policy.{name}.bias": np.zeros(shape[0], np.float32) for name, shape in sizes.items()}
        for name, shape in sizes.items():
            tensors[f"policy.{name}.weight"] = random.normal(0, 0.1, shape).astype(np.float32)
        return PolicyWeights(network, tensors, None)

    agents = {agent: agent for agent in spec.agents}
    return WeightsContainer("bench", 1, {agent: policy() for agent in agents}, agents)


def samplings(agents: int) -> dict[str, Callable[[], object]]:
    """What is timed, by name: a round's fragments, and a loop over one mpe2 environment."""
    config = EnvironmentConfig(id="mpe2/simple_spread_v3", count=ENVS, kwargs={"N": agents})
    ours = make_env(config)
    assert isinstance(ours, Environment)
    container, play = random_policies(ours.spec), Game(ours)
    theirs = simple_spread_v3.parallel_env(N=agents)
    (one,) = ours.spec.classes
    policies = Policies(container, ours.spec.classes).classes[one.name]

    def fragments() -> None:
        weights = play.policy(container)
        for slot in range(SLOTS):
            play.rollout(weights, steps=LENGTH * ENVS, seed=slot, state={}, optional_tensors=())

    def loop() -> None:
        observations, _ = theirs.reset(seed=0)
        noise = policies.noise(np.random.default_rng(0), SLOTS * LENGTH * ENVS, 1)
        distribution = np.empty((agents, policies.actions.parameters), np.float32)
        actions = np.empty(agents, np.int64)
        kept = []
        for step in range(SLOTS * LENGTH * ENVS):
            seen = np.stack([observations[agent] for agent in one.agents])
            policies.distribution(seen, None, distribution)
            policies.sample(distribution, noise, step, None, actions)
            log_probs = policies.log_probabilities(distribution[None, None], actions[None, None], None)
            chosen = dict(zip(one.agents, actions.tolist(), strict=True))
            observations, rewards, _, truncations, _ = theirs.step(chosen)
            kept.append((seen, actions.copy(), log_probs, rewards, truncations))
            if all(truncations.values()):
                observations, _ = theirs.reset()

    return {"Nitro": fragments, "a loop over mpe2, the same policies": loop}


def timed(
    kinds: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of each, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for repeat in range(repeats + 1):
        for name, update in kinds.items():
            begin = clock()
            update()
            if repeat:
                seconds[name].append(clock() - begin)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {platform.processor() or platform.machine()}, one thread\n")
    print("| algorithm | update | median, s | least, s | of one policy's |")
    print("|---|---|---|---|---|")
    for algorithm in ("ippo", "mappo"):
        seconds = timed(updates(algorithm, chosen.agents), chosen.repeats, time.perf_counter)
        (one,) = (min(times) for name, times in seconds.items() if name.startswith("one policy"))
        for name, times in seconds.items():
            ratio = min(times) / one
            print(
                f"| {algorithm} | {name} | {statistics.median(times):.2f} | {min(times):.2f} | {ratio:.2f} |"
            )
    print("\n| sampling | median, s of processor time | least, s | environment steps/s | times mpe2's |")
    print("|---|---|---|---|---|")
    found = timed(samplings(chosen.agents), chosen.repeats, time.process_time)
    slowest = max(map(statistics.median, found.values()))
    for name, times in found.items():
        median = statistics.median(times)
        rate = SLOTS * LENGTH * ENVS / median
        print(f"| {name} | {median:.2f} | {min(times):.2f} | {rate:,.0f} | {slowest / median:.1f} |")


if __name__ == "__main__":
    main()
