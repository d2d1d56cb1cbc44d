"""What an update of several policies costs that train stacked, on one core, interleaved in one run.

    python tests/benchmarks/bench_agents.py [--agents 6] [--repeats 5]

Prints a Markdown table: the wall time (median, least) of a round of mpe2's simple_spread, 4,000 environment
steps, with a policy for each agent; of one policy that learns as many samples in as many gradient steps; and
of the policies one after another.
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

import torch

from agents_support import agent_class, agents_fragment, team
from nitro_learner.algorithms.multi_ppo.learning import MultiPpo
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
    separate = MultiPpo(team(one, algorithm=algorithm, hidden=(64, 64)))
    minibatch = separate.settings.minibatch_size
    shared = MultiPpo(
        team(
            one,
            algorithm=algorithm,
            hidden=(64, 64),
            settings={"minibatchSize": agents * minibatch},
            group_batch="all",
        )
    )
    shared.regroup({one.agents[0]: one.agents})
    alone = [MultiPpo(team(one, algorithm=algorithm, hidden=(64, 64), agents=[a])) for a in one.agents]
    return {
        f"{agents} policies, stacked": lambda: separate.update(fragments, 1),
        f"one policy, {agents} times the samples": lambda: shared.update(fragments, 1),
        f"{agents} policies, one after another": lambda: [learner.update(fragments, 1) for learner in alone],
    }


def timed(kinds: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for repeat in range(repeats + 1):
        for name, update in kinds.items():
            begin = time.perf_counter()
            update()
            if repeat:
                seconds[name].append(time.perf_counter() - begin)
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
        seconds = timed(updates(algorithm, chosen.agents), chosen.repeats)
        (one,) = (min(times) for name, times in seconds.items() if name.startswith("one policy"))
        for name, times in seconds.items():
            ratio = min(times) / one
            print(
                f"| {algorithm} | {name} | {statistics.median(times):.2f} | {min(times):.2f} | {ratio:.2f} |"
            )


if __name__ == "__main__":
    main()
