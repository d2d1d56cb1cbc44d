"""What a user would pick instead of Nitro's parts, measured beside them: SB3 and RLlib. Prints a table.

    python tests/benchmarks/bench_peers.py build/peers/bin/python

The argument is an interpreter with tests/benchmarks/peers/requirements.txt installed. Run it in one go with
bench_actor.py and bench_learner.py, as `make bench` does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
MEASUREMENTS = (
    ("sb3.py", "loop", "Hopper-v5"),
    ("sb3.py", "loop", "Humanoid-v5"),
    ("rllib.py", "loop"),
    ("sb3.py", "epoch"),
)


def main(python: str) -> None:
    print("| peer | figure | value |\n|---|---|---:|")
    for script, *what in MEASUREMENTS:
        done = subprocess.run(
            [python, str(PEERS / script), *what],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            peer = " ".join([script.removesuffix(".py"), *what])
            print(f"| {peer} | {name.replace('_', ' ')} | {value:,.3f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
