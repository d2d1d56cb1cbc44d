"""What RLlib's learner behind our fragments costs beyond its own gradient steps. Prints a Markdown table.

    OMP_NUM_THREADS=1 build/rllib/bin/python tests/benchmarks/bench_rllib_bridge.py

`make build/rllib/installed` makes that interpreter. An update of 8,192 made-up Hopper steps in about 180
episodes, networks of 2 x 256. All columns but `wall` are processor time, medians of five updates.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box

ACTORS, STEPS = 16, 512
UPDATES = 6


class Parts:
    """Seconds spent in parts of an update, wall and processor time."""

    def __init__(self) -> None:
        self.seconds: dict[str, np.ndarray] = {}

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        begin = np.array([time.perf_counter(), time.process_time()])
        yield
        spent = np.array([time.perf_counter(), time.process_time()]) - begin
        self.seconds[part] = self.seconds.get(part, np.zeros(2)) + spent

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Times every call of owner.name."""
        inner: Callable[..., Any] = getattr(owner, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            with self.timed(part):
                return inner(*arguments, **keywords)

        setattr(owner, name, call)


def stock(epochs: int, minibatch: int, fragments: list[Any], parts: Parts) -> list[dict[str, np.ndarray]]:
    """RLlib's learner with its own networks, on the same episodes: what a few updates take."""
    from bench_rllib import stock_config
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.env import INPUT_ENV_SPACES

    from nitro_rllib.episodes import episodes

    config = stock_config(0, 0)
    spaces = Box(-np.inf, np.inf, (11,), np.float32), Box(-1.0, 1.0, (3,), np.float32)
    learner = config.build_learner(spaces={INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces})
    parts.watch(learner, "_update", "steps")
    rounds = []
    for _ in range(UPDATES):
        parts.seconds = {}
        chunks = episodes(fragments)
        with parts.timed("whole"):
            learner.update(
                episodes=chunks,
                timesteps={"num_env_steps_sampled_lifetime": ACTORS * STEPS},
                num_epochs=epochs,
                minibatch_size=minibatch or None,
                shuffle_batch_per_epoch=True,
            )
        parts.seconds["beyond"] = parts.seconds["whole"] - parts.seconds["steps"]
        rounds.append(parts.seconds)
    return rounds


def median(rounds: list[dict[str, np.ndarray]], part: str, clock: int = 1) -> float:
    """Of all updates but the first; by processor time, or with `clock` 0 by wall time."""
    return statistics.median(float(found[part][clock]) for found in rounds[1:])


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    from learner_support import fragment
    from nitro_rllib import base, ppo
    from rllib_support import algorithm

    parts = Parts()
    parts.watch(base, "episodes", "our episodes")
    parts.watch(ppo, "loss_terms", "our statistics")
    parts.watch(ppo.RllibPpo, "_samples", "the detector's batch")
    columns = ["RLlib's connectors", "RLlib's minibatches, metrics"]
    columns += ["our episodes", "the detector's batch", "our statistics", "rest"]
    head = ["update of 8,192 Hopper steps", "gradient steps", "beyond them", "wall", *columns]
    print("| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1))
    fragments = [fragment(slot, length=STEPS, ends=0.01) for slot in range(ACTORS)]
    for epochs, minibatch in ((30, 0), (10, 512), (10, 128)):
        settings = {"num_epochs": epochs, "minibatch_size": minibatch}
        learner = algorithm(settings=settings, network__hiddenSizes=[256, 256])
        parts.watch(learner.learner, "_update", "steps")
        parts.watch(learner.learner, "_make_batch_if_necessary", "RLlib's connectors")
        parts.watch(learner, "learn", "learn")
        rounds = []
        for number in range(1, UPDATES + 1):
            parts.seconds = {}
            with parts.timed("whole"):
                learner.update(fragments, number)
            found = parts.seconds
            inside = found["steps"] + found["our episodes"] + found["RLlib's connectors"]
            found["RLlib's minibatches, metrics"] = found["learn"] - inside
            outside = found["learn"] + found["the detector's batch"] + found["our statistics"]
            found["rest"] = found["whole"] - outside
            found["beyond"] = found["whole"] - found["steps"]
            rounds.append(found)
        size = f"{epochs} epochs, " + (f"minibatches of {minibatch}" if minibatch else "whole batches")
        for who, found, shown in (
            (size, rounds, columns),
            ("the same by RLlib's own networks", stock(epochs, minibatch, fragments, parts), []),
        ):
            cells = [f"{median(found, part):.3f}" for part in shown] + [""] * (len(columns) - len(shown))
            print(
                f"| {who} | {median(found, 'steps'):.2f} s | {median(found, 'beyond'):.3f} s "
                f"| {median(found, 'beyond', 0):.3f} s | " + " | ".join(cells) + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
