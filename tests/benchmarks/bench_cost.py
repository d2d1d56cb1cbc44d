"""What a million steps of three environments take and cost, updates included, by `nitro train` and by a peer.

    make build/peers/installed
    python tests/benchmarks/bench_cost.py build/peers/bin/python

The argument is an interpreter with Stable-Baselines3. Both learn by PPO: 2,048 steps a round, 10 epochs,
minibatches of 64, two layers of 64 units. Nitro plays 32 copies of the environment, the peer one. Each
program has one thread for learning. Seconds are processor time, so that other work on the machine changes
little. What a program takes beside its steps, such as its start, is not in them: of two runs of `nitro
train` the shorter one is taken off, and the peer counts from the end of its first rollout. A core costs a
sixteenth of the paper's price of a machine of 16.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SB3 = Path(__file__).parent / "peers" / "sb3.py"
JOBS = {
    "CartPole-v1": "examples/cartpole.yaml",
    "Hopper-v5": "examples/hopper.yaml",
    "Walker2d-v5": "examples/walker2d.yaml",
}
ROUND, SHORT, LONG = 2048, 2, 12
"""Steps of a round, and the rounds of the two runs."""
CORE_HOUR = 0.68 / 16
"""Dollars: a c5.4xlarge of AWS, as the Nitro paper pays it (footnote 3)."""


def nitro(job: str, rounds: int, folder: Path) -> float:
    """Processor seconds of `nitro train` with 4 actors in every round, its start included."""
    settings = (
        "spec.scaling={scaler: fixed}",
        f"spec.stop={{rounds: {rounds}}}",
        "spec.evaluation={everyRounds: 1000, episodes: 1}",
        "spec.environment.rolloutLength=512",
    )
    command = [str(Path(sys.executable).with_name("nitro")), "train", job, "--run-dir", str(folder)]
    command += [word for setting in settings for word in ("--set", setting)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=one_thread())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    steps = json.loads((folder / "summary.json").read_text())["envSteps"]
    assert steps == rounds * ROUND, steps
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peer(python: str, environment: str) -> float:
    """Processor seconds of a step."""
    command = [python, str(SB3), "train", "sb3", str(LONG * ROUND), "0", environment, "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread())
    first, *_, last = json.loads(done.stdout.splitlines()[-1])["curve"]
    return float(last[2] - first[2]) / float(last[0] - first[0])


def one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def row(environment: str, program: str, seconds: float) -> None:
    """A line of the table, of the processor seconds of a step."""
    dollars = seconds * 1e6 / 3600 * CORE_HOUR
    print(
        f"| {environment} | {program} | {1 / seconds:,.0f} | {seconds * 1e6:,.0f} | ${dollars:.4f} |",
        flush=True,
    )


def main(python: str) -> None:
    print("| environment | program | steps/s | seconds | dollars |\n|---|---|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for environment, job in JOBS.items():
            short, long = (
                nitro(job, rounds, Path(folder) / f"{environment}-{rounds}") for rounds in (SHORT, LONG)
            )
            row(environment, "nitro train", (long - short) / ((LONG - SHORT) * ROUND))
            row(environment, "Stable-Baselines3", peer(python, environment))


if __name__ == "__main__":
    main(*sys.argv[1:])
