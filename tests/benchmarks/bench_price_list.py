"""Seconds of a learner's update and detector by batch size, as a price list of experiments has them.

    python tests/benchmarks/bench_price_list.py [--device cuda] [--actors 4 8 16 32 64] [--repeats 3]

Prints the `seconds` of `experiments/prices/*.yaml` for both presets of PPO on Hopper, with made-up
transitions of its shape. On a CPU they are processor seconds of one thread, the least of the repeats, which
other work on the machine changes less than wall time; on a GPU they are wall seconds.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import torch
import yaml

from learner_support import HOPPER, fragment, job, learner_of
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.boosting.detector import Detector


def least(function: Callable[[], object], device: str, repeats: int) -> float:
    """The least seconds of a call, after one that does not count on a GPU."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    found = []
    for _ in range(repeats if device == "cpu" else repeats + 1):
        begin = clock()
        function()
        if device != "cpu":
            torch.cuda.synchronize()
        found.append(clock() - begin)
    return min(found)


def seconds(preset: str, device: str, actors: list[int], repeats: int) -> dict[str, object]:
    """One entry of `seconds`."""
    resolved = job(preset)
    length = resolved.spec.environment.rollout_length
    sizes, updates, detectors = [], [], []
    for count in actors:
        algorithm = learner_of(resolved.spec, HOPPER, device)
        fragments = [fragment(slot, length=length) for slot in range(count)]
        updates.append(least(lambda: algorithm.update(fragments, 1), device, repeats))  # noqa: B023
        surrogate = algorithm.update(fragments, 2)[DEFAULT_POLICY].surrogate
        detector = Detector(resolved.spec.scaling, 0, count * length)
        detectors.append(least(lambda: detector.measure(surrogate, 1), device, repeats))  # noqa: B023
        sizes.append(count * length)
        print(f"# {preset}: {count} actors", file=sys.stderr, flush=True)
    rounded = [[float(f"{one:.3g}") for one in column] for column in (updates, detectors)]
    return {
        "algorithm": "ppo",
        "preset": preset,
        "transitions": sizes,
        "update": rounded[0],
        "detector": rounded[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--actors", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    found = [
        seconds(preset, arguments.device, arguments.actors, arguments.repeats)
        for preset in ("paper", "tuned")
    ]
    print(yaml.safe_dump({"seconds": found}, sort_keys=False, default_flow_style=None), end="")


if __name__ == "__main__":
    main()
