"""Is `nitro plan` right? Its wall clock and dollars beside those of real runs here, as a Markdown table.

    python tests/benchmarks/bench_plan.py                   # the jobs that the model was made with
    python tests/benchmarks/bench_plan.py --draw 1          # five that a seed draws
    python tests/benchmarks/bench_plan.py --jobs hopper --seconds 20 --repeats 1

A job is planned and then trained for as many rounds as fill the seconds by the plan, in turns, so that both
meet the same machine. The time of a run is that of its rounds and of its last evaluation; the start, which
the plan measures, is in neither. A plan is right if wall clock and dollars are within 15 % of the run's, each
the median of its repeats. Use it on a machine without other work.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import yaml

SUPPORT = Path(__file__).resolve().parents[1] / "support"
NITRO = str(Path(sys.executable).with_name("nitro"))
WITHIN = 0.15


def job(environment: dict[str, Any], actors: int, **spec: Any) -> dict[str, Any]:
    """The spec of a job with so many actors in every round."""
    scaling = {"scaler": "fixed", "minActors": 1, "maxActors": actors, "initialActors": actors}
    return {"environment": environment, "algorithm": {"preset": "tuned"}, "scaling": scaling, **spec}


NAMED = {
    "hopper": job({"id": "Hopper-v5"}, 4),
    "humanoid": job({"id": "Humanoid-v5"}, 16, network={"hiddenSizes": [256, 256]}),
    "spaceinvaders": job({"id": "ALE/SpaceInvaders-v5"}, 4),
    "spread": job(
        {"id": "mpe2/simple_spread_v3", "kwargs": {"N": 3}}, 40, algorithm={"name": "ippo", "preset": "tuned"}
    ),
    "slow-steps": job(
        {
            "entryPoint": "sleeping_environment:Sleeping",
            "kwargs": {"seconds": 0.02},
            "rolloutLength": 128,
            "envsPerActor": 1,
        },
        4,
    ),
}
ENVIRONMENTS = ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "Swimmer-v5", "HalfCheetah-v5", "Walker2d-v5")


def drawn(seed: int) -> dict[str, dict[str, Any]]:
    """Five jobs: environment, algorithm, actors, length of a rollout and epochs by the seed."""
    chance = random.Random(seed)
    jobs = {}
    for environment in chance.sample(ENVIRONMENTS, 5):
        actors, steps = chance.choice((1, 2, 3, 6, 12)), chance.choice((128, 256, 512, 1024))
        epochs, algorithm = chance.choice((1, 4, 10)), chance.choice(("ppo", "ppo", "impact"))
        settings = {"epochs": epochs} if algorithm == "ppo" else {}
        name = f"{environment}, {algorithm}, {actors} actors of {steps} steps, {epochs} epochs"
        jobs[name] = job(
            {"id": environment, "rolloutLength": steps},
            actors,
            algorithm={"name": algorithm, "preset": "tuned", "hyperparameters": settings},
        )
    return jobs


def nitro(*arguments: str, folder: Path) -> str:
    """What a command prints."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SUPPORT)}
    command = [NITRO, *arguments]
    return subprocess.run(
        command, cwd=folder, env=variables, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def planned(folder: Path, spec: dict[str, Any], stop: dict[str, Any]) -> dict[str, Any]:
    """The plan's line of the job itself on this machine, and the seconds of its start."""
    about = {"apiVersion": "nitro.dev/v1alpha1", "kind": "NitroTrainingJob", "metadata": {"name": "planned"}}
    (folder / "job.yaml").write_text(yaml.safe_dump({**about, "spec": {**spec, "stop": stop}}))
    plan = json.loads(nitro("plan", "job.yaml", "--json", folder=folder))
    actors = spec["scaling"]["initialActors"]
    line = next(one for one in plan["choices"] if (one["backend"], one["actors"]) == ("local", actors))
    return {**line, "seconds": line["seconds"] - plan["measured"]["start"], "interval": plan["interval"]}


def trained(folder: Path, rounds: int, name: str) -> tuple[float, float]:
    """Seconds and dollars of a run of so many rounds."""
    stops = ("--set", f"spec.stop={{rounds: {rounds}}}")
    nitro("train", "job.yaml", *stops, "--run-dir", name, folder=folder)
    lines = [json.loads(line) for line in (folder / name / "ledger.jsonl").read_text().splitlines()]
    return (
        math.fsum(line["details"]["seconds"] for line in lines),
        math.fsum(line["learner"] + line["actors"] for line in lines),
    )


def compare(name: str, spec: dict[str, Any], seconds: int, repeats: int) -> bool:
    """Print the line of a job, and return whether its plan is right."""
    plans, runs = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for repeat in range(repeats):
            plan = planned(folder, spec, {"rounds": 100_000, "duration": f"{seconds}s"})
            runs.append(trained(folder, plan["rounds"], f"run-{repeat}"))
            # Plans of different repeats have different numbers of rounds: what is compared is relative.
            plans.append((plan["seconds"] / runs[-1][0], plan["dollars"] / runs[-1][1], plan))
    wall, dollars = median(one[0] for one in plans), median(one[1] for one in plans)
    right = abs(wall - 1) <= WITHIN and abs(dollars - 1) <= WITHIN
    plan, (took, cost) = plans[-1][2], runs[-1]
    low, high = plan["interval"]["low"], plan["interval"]["high"]
    print(
        f"| {name} | {plan['rounds']} | {plan['seconds']:.1f} | {took:.1f} | {wall:.2f} "
        f"| {plan['dollars']:.4f} | {cost:.4f} | {dollars:.2f} | {low:.2f}–{high:.2f} "
        f"| {'yes' if right else 'no'} |",
        flush=True,
    )
    return right


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", type=int, metavar="SEED", help="five jobs that this seed draws")
    parser.add_argument("--jobs", nargs="*", default=[*NAMED], choices=[*NAMED])
    parser.add_argument("--seconds", type=int, default=60, help="of a run, by its plan")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    jobs = {name: NAMED[name] for name in given.jobs} if given.draw is None else drawn(given.draw)
    print(
        "| job | rounds | planned s | run s | planned / run | planned $ | run $ | planned / run | interval "
        "| within 15 % |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
        flush=True,
    )
    right = [compare(name, spec, given.seconds, given.repeats) for name, spec in jobs.items()]
    print(f"\n{sum(right)} of {len(right)} plans are within 15 %.")


if __name__ == "__main__":
    main()
