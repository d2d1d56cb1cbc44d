"""Hopper trained from start to end: training returns on the way, evaluation, wall time.

    python tests/benchmarks/bench_training.py --seeds 3
    python tests/benchmarks/bench_training.py --job examples/hopper-paper.yaml --scalers fixed --seeds 5 \\
        --set spec.scaling.initialActors=8 --set spec.stop.rounds=9 --steps 36864
    python tests/benchmarks/bench_training.py --peer build/peers/bin/python --seeds 1

Each run is `nitro train` as a user starts it. --peer adds Stable-Baselines3's PPO with CleanRL's settings,
one run per seed, in turn with ours. Returns are the mean of the last 20 training episodes.
"""

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SB3 = Path(__file__).parent / "peers" / "sb3.py"


def nitro(options: argparse.Namespace, scaler: str, seed: int, folder: Path) -> list[dict[str, str]]:
    """Trains once; returns the rows of metrics.csv, the last with the final evaluation."""
    settings = [f"spec.seed={seed}", f"spec.scaling.scaler={scaler}", *options.set]
    command = [str(Path(sys.executable).with_name("nitro")), "train", options.job, "--run-dir", str(folder)]
    done = subprocess.run(
        [*command, *(word for setting in settings for word in ("--set", setting))],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    rows[-1]["final"] = json.loads((folder / "summary.json").read_text())["evaluation"]["mean"]
    return rows


def at(rows: list[dict[str, str]], steps: int) -> float | None:
    """Mean return of the last 20 training episodes when `steps` were first reached; None if they were not."""
    for row in rows:
        if int(float(row["env_steps"])) >= 0.99 * steps:
            return float(row["reward_mean"])
    return None


def cell(values: list[float | None]) -> str:
    """Mean, and every value in brackets."""
    known = [value for value in values if value is not None]
    each = " ".join("-" if value is None else f"{value:,.0f}" for value in values)
    return f"{statistics.mean(known):,.0f} ({each})" if known else "-"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", default="examples/hopper.yaml")
    parser.add_argument("--scalers", nargs="+", default=["nitro", "fixed"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs="+", default=[200_000, 400_000])
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument(
        "--peer", metavar="PYTHON", help="interpreter of an environment with Stable-Baselines3"
    )
    options = parser.parse_args()

    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    header = [
        "run",
        *(f"return at {steps:,} steps" for steps in options.steps),
        "final evaluation",
        "seconds",
    ]
    print(f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}", flush=True)
    results: dict[str, list[list[float | None]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(options.seeds):
            for scaler in options.scalers:
                rows = nitro(options, scaler, seed, Path(temporary) / f"{scaler}-{seed}")
                returns = [at(rows, steps) for steps in options.steps]
                row = [*returns, float(rows[-1]["final"]), float(rows[-1]["wall_seconds"])]
                results.setdefault(f"{scaler} scaler", []).append(row)
            if options.peer:
                command = [options.peer, str(SB3), "train", str(options.steps[-1]), str(seed)]
                peer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                blank: list[float | None] = [None] * (len(options.steps) - 1)
                row = [*blank, peer["return_last_20"], None, peer["wall_seconds"]]
                results.setdefault("Stable-Baselines3, CleanRL's settings", []).append(row)
    for name, runs in results.items():
        print(f"| {name} | {' | '.join(cell(list(column)) for column in zip(*runs, strict=True))} |")


if __name__ == "__main__":
    main()
