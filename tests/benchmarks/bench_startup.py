"""The start of `nitro train`, and of the runs of an experiment, beside those of another checkout.

    python tests/benchmarks/bench_startup.py                                  # this checkout alone
    python tests/benchmarks/bench_startup.py --base ../before --pairs 7       # alternating with another one
    python tests/benchmarks/bench_startup.py --base ../before experiment      # six runs of one experiment

The other checkout needs an environment of its own in .venv. Each pair runs one after the other, so that other
work on the machine weighs on both alike.

- first line: until the command says anything.
- first round: until the line of round 1.
- end: until the command has ended.
- CPU: processor time, user and system, of the command and its children until the first round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[2]
RUNS = 6
"""Of the experiment: two variants over three seeds."""

Measured = Mapping[str, float]


def job(rounds: int) -> dict[str, Any]:
    """A job whose rounds take a fraction of a second."""
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "start"},
        "spec": {
            "environment": {"id": "CartPole-v1", "rolloutLength": 64},
            "evaluation": {"episodes": 1},
            "stop": {"rounds": rounds},
        },
    }


def tree(root: int) -> set[int]:
    """A process and all below it that run now."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, open_ = set[int](), [root]
    while open_:
        pid = open_.pop()
        found.add(pid)
        open_.extend(children.get(pid, []))
    return found


def processor_seconds(root: int) -> float:
    """Of a process and all below it, with those that have ended already."""
    ticks = 0
    for pid in tree(root):
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def train(checkout: Path) -> Measured:
    """One `nitro train` of one round."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "job.json")
        file.write_text(json.dumps(job(1)))
        begin = time.monotonic()
        process = subprocess.Popen(
            [*python(checkout), "train", file, "--run-dir", Path(folder, "run")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            cwd=folder,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None
        found: dict[str, float] = {}
        for line in process.stdout:
            found.setdefault("first line", time.monotonic() - begin)
            if line.split()[:1] == ["1/1"]:
                found["first round"] = time.monotonic() - begin
                found["CPU"] = processor_seconds(process.pid)
        if process.wait():
            raise SystemExit(f"{checkout}: nitro train ended with exit code {process.returncode}")
        return found | {"end": time.monotonic() - begin}


def experiment(checkout: Path) -> Measured:
    """One `nitro experiment run` of six runs."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "job.yaml").write_text(json.dumps(job(1)))
        spec = {
            "name": "start",
            "figure": "Nothing.",
            "coreHours": 0.1,
            "job": "job.yaml",
            "seeds": list(range(RUNS // 2)),
            "budget": {"rounds": 1},
            "variants": {"one": {}, "two": {"spec.algorithm.hyperparameters.learningRate": 0.001}},
        }
        file = Path(folder, "experiment.yaml")
        file.write_text(json.dumps(spec))
        begin = time.monotonic()
        process = subprocess.Popen(
            [*python(checkout), "experiment", "run", file, "--dir", Path(folder, "runs")],
            stdout=subprocess.DEVNULL,
            cwd=folder,
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(
                f"{checkout}: nitro experiment run ended with {os.waitstatus_to_exitcode(status)}"
            )
        return {"end": time.monotonic() - begin, "CPU": usage.ru_utime + usage.ru_stime}


def python(checkout: Path) -> list[str]:
    own = checkout / ".venv" / "bin" / "python"
    return [str(own if own.exists() else Path(sys.executable)), "-m", "nitro_learner"]


def table(measured: Mapping[str, Sequence[Measured]]) -> None:
    """Print medians, and the ratio of each pair's figures in the median."""
    names = list(next(iter(measured.values()))[0])
    print(f"{'seconds':12s}" + "".join(f"{name:>13s}" for name in names))
    for checkout, rows in measured.items():
        medians = (statistics.median(row[name] for row in rows) for name in names)
        print(f"{checkout:12s}" + "".join(f"{median:13.2f}" for median in medians))
    if len(measured) == 2:
        after, before = measured.values()
        pairs = list(zip(after, before, strict=True))
        ratios = (statistics.median(new[name] / old[name] for new, old in pairs) for name in names)
        print(f"{'ratio':12s}" + "".join(f"{ratio:13.2f}" for ratio in ratios))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["train", "experiment"], default="train")
    parser.add_argument("--base", type=Path, help="another checkout, with its environment in .venv")
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    measure: Callable[[Path], Measured] = {"train": train, "experiment": experiment}[arguments.what]
    checkouts = {"this": HERE} | ({"base": arguments.base.absolute()} if arguments.base else {})
    for checkout in checkouts.values():  # bytecode and the disk's cache
        measure(checkout)
    measured: dict[str, list[Measured]] = {name: [] for name in checkouts}
    for pair in range(arguments.pairs):
        for name, checkout in list(checkouts.items())[:: 1 if pair % 2 else -1]:
            measured[name].append(measure(checkout))
            print(
                f"# {name}: {json.dumps({k: round(v, 2) for k, v in measured[name][-1].items()})}", flush=True
            )
    table(measured)


if __name__ == "__main__":
    main()
