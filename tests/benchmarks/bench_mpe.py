"""Our engine for simple_spread beside mpe2 and JaxMARL, in one run on one core. Prints a table.

    make bench-mpe
    python tests/benchmarks/bench_mpe.py build/jaxmarl/bin/python [--copies 32]

The argument is an interpreter with tests/benchmarks/peers/jaxmarl.txt installed. All play random actions that
were drawn before, and reset their episodes after 25 steps. Steps are those of environments, by processor
time: the median of the repeats.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpe2 import simple_spread_v3

from nitro_actor.agents.mpe.engine import MpeEngine

SIZES = (3, 6)
LIMIT = 25
STEPS = 2_000
REPEATS = 5
PEER = Path(__file__).parent / "peers" / "jaxmarl_mpe.py"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jaxmarl", help="an interpreter that has JaxMARL")
    parser.add_argument("--copies", type=int, default=32)
    arguments = parser.parse_args()
    # One core for this process and for the one that it starts.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    compiled = _jaxmarl(arguments.jaxmarl, arguments.copies)
    print(f"simple_spread, {arguments.copies} copies, one core, environment steps/s\n")
    print("| N | mpe2 | Nitro | JaxMARL, compiled | Nitro / mpe2 (goal 20 with N = 6) | Nitro / JaxMARL |")
    print("|---:|---:|---:|---:|---:|---:|")
    for agents in SIZES:
        ours = _median(_nitro(agents, arguments.copies), STEPS * arguments.copies)
        theirs = _median(_mpe2(agents), STEPS)
        jax = compiled[str(agents)]["rate"]
        row = f"{theirs:,.0f} | {ours:,.0f} | {jax:,.0f} | {ours / theirs:,.0f} | {ours / jax:,.1f}"
        print(f"| {agents} | {row} |", flush=True)
    seconds = ", ".join(
        f"{compiled[str(agents)]['compile_seconds']:.1f} s with N = {agents}" for agents in SIZES
    )
    print(f"\nJaxMARL compiles before: {seconds}.")


def _nitro(agents: int, copies: int) -> Callable[[], None]:
    engine = MpeEngine("mpe2/simple_spread_v3", copies, {"N": agents})
    actions = np.random.default_rng(0).integers(0, 5, (STEPS, copies, agents))
    engine.reset(range(copies))

    def run() -> None:
        for step, chosen in enumerate(actions):
            engine.step({"agent": chosen})
            if step % LIMIT == LIMIT - 1:
                for index in range(copies):
                    engine.reset_one(index)

    return run


def _mpe2(agents: int) -> Callable[[], None]:
    """One copy: mpe2 steps copies one after another, so its rate does not depend on their number."""
    env = simple_spread_v3.parallel_env(N=agents, max_cycles=LIMIT)
    names = env.possible_agents
    drawn = np.random.default_rng(0).integers(0, 5, (STEPS, agents)).tolist()
    actions = [dict(zip(names, chosen, strict=True)) for chosen in drawn]
    env.reset(seed=0)

    def run() -> None:
        for step, chosen in enumerate(actions):
            env.step(chosen)
            if step % LIMIT == LIMIT - 1:
                env.reset()

    return run


def _jaxmarl(python: str, copies: int) -> dict[str, dict[str, float]]:
    done = subprocess.run(
        [python, str(PEER), str(copies), str(STEPS), *map(str, SIZES)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _median(run: Callable[[], None], steps: int) -> float:
    """Steps per second of processor time."""
    rates = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        rates.append(steps / (time.process_time() - start))
    return statistics.median(rates)


if __name__ == "__main__":
    main()
