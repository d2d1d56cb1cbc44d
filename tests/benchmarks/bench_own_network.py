"""A network of one's own beside the built-in one of the same layers: microseconds of an actor's call, start,
memory, and seconds of a gradient step. Prints Markdown tables.

    python tests/benchmarks/bench_own_network.py [--repeats 9]

The candidates take turns, so that a busy machine is equally unfair to all of them. Calls are the best of the
repeats, all else is the median by processor time.
"""

import nitro_actor.server  # isort: skip  # noqa: F401 - before numpy: it sets threads and kernels

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import numpy as np
import torch

from learner_support import HOPPER, fragment, job, learner_of
from nitro_actor import onnx
from nitro_actor.policy import Policies
from nitro_actor.protocol.weights import WeightsContainer
from nitro_learner.networks.own import skeleton

HIDDEN = [16, 16]  # own_networks.Perceptron
_MEMORY = """
import re, sys, time
from pathlib import Path
import numpy as np
from nitro_actor import onnx, policy
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
before, began = resident(), time.process_time()
session = onnx.session(Path(sys.argv[1]).read_bytes(), dict(np.load(sys.argv[2])))
session.run(None, {"observation": np.zeros((1, 11), np.float32)})
print(resident() - before, time.process_time() - began)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        own = learner_of(job(network__entryPoint="own_networks:Perceptron").spec, HOPPER)
    made = time.process_time() - began
    theirs = learner_of(job(network__hiddenSizes=HIDDEN).spec, HOPPER)
    calls = {name: _calls(each) for name, each in (("built in", theirs), ("own", own))}
    print("| a call of an actor, best us | 1 row | 8 rows | 64 rows |\n|---|---|---|---|")
    best = {
        (name, rows): min(_timed(call[rows]) for _ in range(repeats))
        for name, call in calls.items()
        for rows in call
    }
    for name in calls:
        print(f"| {name} | " + " | ".join(f"{best[name, rows] * 1e6:.1f}" for rows in (1, 8, 64)) + " |")
    updates: dict[str, list[float]] = {"built in": [], "own": []}
    fragments = [fragment(slot, length=256, envs=2) for slot in range(4)]
    for round in range(1, repeats + 1):
        for name, each in (("built in", theirs), ("own", own)):
            began = time.process_time()
            each.update(fragments, round)
            updates[name].append(time.process_time() - began)
    print("\n| an update of 2,048 samples | median s |\n|---|---|")
    for name, seconds in updates.items():
        print(f"| {name} | {statistics.median(seconds):.2f} |")
    _start(own, made, repeats)


def _calls(learner: object) -> dict[int, Callable[[], None]]:
    """An actor's calls by the number of rows."""
    container = WeightsContainer.of_one_agent("run", 0, learner.weights()["default"])  # type: ignore[attr-defined]
    (policies,) = Policies(container, HOPPER.classes).classes.values()

    def call(rows: int) -> Callable[[], None]:
        observations = np.random.default_rng(0).normal(size=(rows, 11)).astype(np.float32)
        out = np.empty((rows, 6), np.float32)
        return lambda: policies.distribution(observations, None, out)

    return {rows: call(rows) for rows in (1, 8, 64)}


def _timed(call: Callable[[], None], calls: int = 300) -> float:
    """Seconds of a call, the best of ten blocks."""
    best = float("inf")
    for _ in range(10):
        began = time.perf_counter()
        for _ in range(calls // 10):
            call()
        best = min(best, (time.perf_counter() - began) / (calls // 10))
    return best


def _start(learner: object, made: float, repeats: int) -> None:
    """What it takes to begin: the export, an actor's first session, and that of each version."""
    shape = learner.network("agent").policy  # type: ignore[attr-defined]
    file = skeleton.exported(shape.module, (11,), torch.float32)
    tensors = skeleton.arrays_of(shape.module, file)
    sessions = []
    for _ in range(repeats):
        began = time.process_time()
        onnx.session(file, tensors)
        sessions.append(time.process_time() - began)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "file").write_bytes(file)
        np.savez(Path(folder) / "tensors.npz", **tensors)  # type: ignore[arg-type]
        program = [sys.executable, "-c", _MEMORY, f"{folder}/file", f"{folder}/tensors.npz"]
        shown = [
            subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()
            for _ in range(repeats)
        ]
    memory, seconds = (statistics.median(float(row[place]) for row in shown) for place in (0, 1))
    print("\n| start of an own network | |\n|---|---|")
    print(f"| the learner's modules, tried and exported, processor s | {made:.1f} |")
    print(f"| skeleton, bytes | {len(file):,} |")
    print(f"| an actor's import of onnxruntime and first session, processor s | {seconds:.2f} |")
    print(f"| memory of it, MiB | {memory:.0f} |")
    print(f"| session of another version, ms | {1000 * statistics.median(sessions):.1f} |")


if __name__ == "__main__":
    main()
