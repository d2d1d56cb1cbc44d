"""Round reports for tests, and run folders full of them."""

import csv
from dataclasses import fields
from pathlib import Path
from typing import Any

from nitro_learner.training.round_report import COLUMNS, RoundCounters, RoundReport

JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: hopper}
spec:
  environment: {id: Hopper-v5}
  algorithm: {name: ppo, preset: tuned}
  scaling: {scaler: nitro}
"""


_COUNTERS = {item.name for item in fields(RoundCounters)}


def report(number: int, **values: Any) -> RoundReport:
    """A plausible report of round `number`, with some values replaced."""
    base: dict[str, Any] = {
        "round": number,
        "env_steps": 4096 * number,
        "wall_seconds": 1.25 * number,
        "reward_mean": 20.0 * number,
        "reward_round": 21.0 * number,
        "cut_share": 0.0,
        "evaluation_mean": 25.0 * number if number % 2 else None,
        "evaluation_std": 3.0 if number % 2 else None,
        "actors": 8,
        "next_actors": 12,
        "boosting_score": 0.5,
        "convexity_ratio": 1.25,
        "lambda_min": -0.02,
        "lambda_max": 0.025,
        "gradient_signal": 0.02,
        "gradient_noise": 800.0,
        "gradient_snr": 0.1,
        "lost": 0,
        "retries": 1,
        "cold_starts": 2,
        "fragment_bytes": 1000,
        "cost_learner": 0.001 * number,
        "cost_actors": 0.0005 * number,
        "cost_total": 0.0015 * number,
        "seconds_dispatch": 0.01,
        "seconds_sample": 0.5,
        "seconds_update": 0.7,
        "seconds_detect": 0.0,
        "seconds_evaluate": 0.02,
        "seconds_checkpoint": 0.0,
        "seconds_total": 1.25,
        "seconds_overhead": 0.003,
        "seconds_actor": 0.4,
        "kl": 0.01,
        "entropy": 1.2,
        "value_loss": 0.4,
        "policy_loss": -0.01,
        "explained_variance": 0.9,
        "advantage_std": 12.0,
    }
    counted = {"learned": 8} | {name: values.pop(name) for name in _COUNTERS & values.keys()}
    return RoundReport(**base | values, counters=RoundCounters(**counted))


def run_folder(path: Path, rounds: int, job: str = JOB) -> Path:
    """What a run of so many rounds leaves: job.yaml and metrics.csv."""
    path.mkdir()
    (path / "job.yaml").write_text(job)
    with (path / "metrics.csv").open("w") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", restval="")
        writer.writeheader()
        for k in range(1, rounds + 1):
            row = dict.fromkeys(COLUMNS, "0.5") | {"round": k, "reward_mean": 2 * k, "env_steps": 512 * k}
            row |= {"cost_learner": 0.001 * k, "cost_actors": 0.003 * k, "cost_total": 0.004 * k, "actors": 8}
            row |= {} if k % 10 == 0 else {"evaluation_mean": "", "evaluation_std": ""}
            writer.writerow(row)
    return path
