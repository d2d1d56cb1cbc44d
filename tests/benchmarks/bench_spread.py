"""Multi-agent PPO of Nitro beside RLlib's on mpe2's simple_spread, three agents. Prints a Markdown table.

    make build/peers/installed
    python tests/benchmarks/bench_spread.py build/peers/bin/python [--rounds 100] [--seeds 0] [--presets ...]

Both have a policy for each agent, 4,000 environment steps a round and two processes that sample. One trains
after the other, seed by seed, so that they meet the same machine. `paper` is RLlib's defaults; with `tuned`
RLlib has what it can do of Nitro's settings.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trained_run import trained

PEER = Path(__file__).parent / "peers" / "rllib_agents.py"
PRESETS = ("paper", "tuned")
LAST = 10
"""Rounds whose returns are averaged."""


def ours(preset: str, rounds: int, seed: int) -> dict[str, Any]:
    """`nitro train` of examples/spread-marless.yaml with separate policies and 40 actors."""
    rows = trained(
        {
            "environment": {"id": "mpe2/simple_spread_v3", "kwargs": {"N": 3}},
            "algorithm": {"name": "ippo", "preset": preset},
            "seed": seed,
            "evaluation": {"everyRounds": rounds},
            "scaling": {"scaler": "fixed", "initialActors": 40, "maxActors": 40},
            "stop": {"rounds": rounds},
            "backend": {"type": "Local", "local": {"processes": 2}},
        }
    )
    return {
        "steps": int(rows[-1]["env_steps"]),
        "seconds": float(rows[-1]["wall_seconds"]),
        "sampling": sum(float(row["seconds_sample"]) for row in rows),
        "returns": [float(row["reward_round"]) for row in rows],
    }


def theirs(python: str, preset: str, rounds: int, seed: int) -> dict[str, Any]:
    """RLlib in the peers' environment."""
    done = subprocess.run(
        [python, str(PEER), preset, str(rounds), str(seed)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(python: str, rounds: int, seeds: list[int], presets: list[str]) -> None:
    versions = subprocess.run(
        [python, "-c", "import importlib.metadata as m; print(m.version('ray'), m.version('torch'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    print(
        f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, Python "
        f"{platform.python_version()}, torch {version('torch')}; Ray {versions[0]} with torch {versions[1]}\n"
    )
    print(f"| settings | | steps | seconds | of that sampling | return of the last {LAST} rounds |")
    print("|---|---|---:|---:|---:|---:|")
    for preset in presets:
        found: dict[str, list[dict[str, Any]]] = {"Nitro": [], "RLlib": []}
        for seed in seeds:
            found["Nitro"].append(ours(preset, rounds, seed))
            found["RLlib"].append(theirs(python, preset, rounds, seed))
        for who, runs in found.items():
            steps, seconds, sampling = (
                statistics.mean(run[key] for run in runs) for key in ("steps", "seconds", "sampling")
            )
            returns = ", ".join(f"{statistics.mean(run['returns'][-LAST:]):.1f}" for run in runs)
            cells = preset, who, f"{steps:,.0f}", f"{seconds:.0f}", f"{sampling:.0f}", returns
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", help="of the environment with tests/benchmarks/peers/requirements.txt")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    given = parser.parse_args()
    main(given.python, given.rounds, given.seeds, given.presets)
