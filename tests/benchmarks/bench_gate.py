"""What the gate in front of Redis costs an actor: the same exchange with Redis itself and through the gate.

    python tests/benchmarks/bench_gate.py [--weights 250000] [--fragment 1500000] [--turns 30]

Both ways take turns within one run, each turn on connections of its own, so that what else the machine does
meets both. The exchange is an actor's: it fetches weights and stores a fragment, and the learner takes it.
All of them are on one machine and on loopback, where an exchange is shortest, so the ratio is the largest
that it can be. A round's part is that of its actors, one after the other, which is the most.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

for folder in ("integration", "support"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

from test_strangers import GatedRedis  # noqa: E402

from nitro_actor.store import Store  # noqa: E402
from operator_objects import UID  # noqa: E402

EXCHANGES = 20
"""Exchanges of a turn."""


def turn(url: str, learner: Store, fragment: bytes) -> list[float]:
    """Seconds of each exchange."""
    store, key, found = Store(url), f"nitro:{UID}:round:1", []
    for _ in range(EXCHANGES):
        begun = time.perf_counter()
        store.get(f"nitro:{UID}:weights:1")
        store.append(key, fragment, 60)
        found.append(time.perf_counter() - begun)
        learner._retried([("LPOP", key)])
    store.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="The gate's cost.")
    parser.add_argument(
        "--weights", type=int, default=250_000, help="bytes of weights (default: %(default)s)"
    )
    parser.add_argument("--fragment", type=int, default=1_500_000, help="bytes of a fragment")
    parser.add_argument("--turns", type=int, default=30, help="turns of each way (default: %(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gated = GatedRedis(Path(folder))
        try:
            learner = Store(gated.learner)
            learner._retried([("SET", f"nitro:{UID}:weights:1", os.urandom(given.weights))])
            fragment = os.urandom(given.fragment)
            ways = {"Redis itself": gated.actor.replace("127.0.0.8", "127.0.0.1"), "the gate": gated.actor}
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(given.turns):
                for way, url in ways.items():
                    seconds[way] += turn(url, learner, fragment)
        finally:
            gated.stop()
    for way, found in seconds.items():
        found.sort()
        tenth = found[len(found) // 10] * 1e3
        print(
            f"{way:13} {statistics.median(found) * 1e3:.2f} ms median, {tenth:.2f} ms at the tenth percentile"
        )
    direct, through = (found[len(found) // 10] for found in seconds.values())
    print(f"ratio {through / direct:.2f}; {16 * (through - direct) * 1e3:.1f} ms for a round of 16 actors")


if __name__ == "__main__":
    main()
