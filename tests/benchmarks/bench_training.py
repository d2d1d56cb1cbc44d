"""Hopper trained from start to end: returns on the way, and what it takes to reach 1,000 and 2,000.

    python tests/benchmarks/bench_training.py --seeds 3
    python tests/benchmarks/bench_training.py --job examples/hopper-paper.yaml --scalers fixed --seeds 5 \\
        --set spec.scaling.initialActors=8 --set spec.stop.rounds=9 --steps 36864
    python tests/benchmarks/bench_training.py --scalers fixed --set spec.stop.rounds=1000 \\
        --peer build/peers/bin/python --seeds 5

Each run is `nitro train` as a user starts it, stopped at the largest number of steps. --peer adds the PPO of
Stable-Baselines3 and of SBX, its sibling on JAX, with CleanRL's settings. Runs take turns, seed by seed, so
that they meet the same machine. Returns are the mean of the last 20 training episodes. Seconds are those of
training, without the program's start; SBX's include JAX's compilation. Our processor seconds are an estimate:
those of the whole program, its start included, spread evenly over the wall time of training.
"""

import argparse
import csv
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SB3 = Path(__file__).parent / "peers" / "sb3.py"
PEERS = {"sb3": "Stable-Baselines3, CleanRL's settings", "sbx": "SBX (JAX), CleanRL's settings"}
LEVELS = (1000, 2000)


@dataclass(frozen=True)
class Point:
    """What a run had spent and reached after a round."""

    steps: float
    wall: float
    processor: float
    value: float


@dataclass(frozen=True)
class Run:
    """A run's points, and the mean return of its final evaluation, if it has one."""

    points: list[Point]
    final: float | None = None

    def at(self, steps: int) -> float | None:
        """The return when so many steps were first reached; None if they were not."""
        return next((one.value for one in self.points if one.steps >= 0.99 * steps), None)

    def reaches(self, level: float) -> Point | None:
        return next((one for one in self.points if one.value >= level), None)


def nitro(options: argparse.Namespace, scaler: str, seed: int, folder: Path) -> Run:
    """Train once by `nitro train`."""
    limit = f"spec.stop.envSteps={max(options.steps)}"
    settings = [f"spec.seed={seed}", f"spec.scaling.scaler={scaler}", limit, *options.set]
    command = [str(Path(sys.executable).with_name("nitro")), "train", options.job, "--run-dir", str(folder)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, *(word for setting in settings for word in ("--set", setting))],
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    share = used / float(rows[-1]["wall_seconds"])
    points = []
    for row in rows:
        wall = float(row["wall_seconds"])
        value = float(row["reward_mean"] or math.nan)
        points.append(Point(float(row["env_steps"]), wall, wall * share, value))
    return Run(points, json.loads((folder / "summary.json").read_text())["evaluation"]["mean"])


def peer(python: str, library: str, steps: int, seed: int) -> Run:
    """Train once in the peers' environment."""
    command = [python, str(SB3), "train", library, str(steps), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Run([Point(*point) for point in json.loads(done.stdout.splitlines()[-1])["curve"]])


def cell(values: list[float | None]) -> str:
    """Mean of those that there are, and every value in brackets."""
    known = [value for value in values if value is not None]
    each = " ".join("-" if value is None else f"{value:,.0f}" for value in values)
    return f"{statistics.mean(known):,.0f} ({each})" if known else "-"


def line(name: str, runs: list[Run], steps: list[int]) -> str:
    """A row of the table."""
    cells = [cell([run.at(count) for run in runs]) for count in steps]
    cells.append(cell([run.final for run in runs]))
    for level in LEVELS:
        reached = [run.reaches(level) for run in runs]
        cells.append(cell([one and one.wall for one in reached]))
        cells.append(cell([one and one.processor for one in reached]))
    cells.append(cell([run.points[-1].wall for run in runs]))
    cells.append(cell([run.points[-1].processor for run in runs]))
    return f"| {name} | {' | '.join(cells)} |"


def note(name: str, seed: int, run: Run, results: dict[str, list[Run]]) -> None:
    """Keep a finished run, and report it: all of them take long."""
    results.setdefault(name, []).append(run)
    last = run.points[-1]
    print(
        f"{name}, seed {seed}: {last.value:,.0f} after {last.steps:,.0f} steps, {last.wall:.0f} s,"
        f" {last.processor:.0f} s of processor time",
        file=sys.stderr,
        flush=True,
    )


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
        "--peer", metavar="PYTHON", help="interpreter of an environment with Stable-Baselines3 and SBX"
    )
    parser.add_argument("--libraries", nargs="+", choices=list(PEERS), default=list(PEERS))
    options = parser.parse_args()

    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    header = ["run", *(f"return at {steps:,} steps" for steps in options.steps), "final evaluation"]
    for level in LEVELS:
        header += [f"seconds to {level:,}", f"processor seconds to {level:,}"]
    header += ["seconds in all", "processor seconds in all"]
    print(f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}", flush=True)
    results: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(options.seeds):
            for scaler in options.scalers:
                run = nitro(options, scaler, seed, Path(temporary) / f"{scaler}-{seed}")
                note(f"{scaler} scaler", seed, run, results)
            for library in options.libraries if options.peer else ():
                run = peer(options.peer, library, max(options.steps), seed)
                note(PEERS[library], seed, run, results)
    for name, runs in results.items():
        print(line(name, runs, options.steps))


if __name__ == "__main__":
    main()
