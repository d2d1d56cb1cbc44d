"""Run folders of several agents as training would leave them, without training."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from nitro_learner.run.policy_files import PolicyFiles, Toggle
from nitro_learner.run.rundir import RunDir
from nitro_learner.training.round_report import COLUMNS, PolicyReport, RoundReport

AGENTS = ("agent_0", "agent_1", "agent_2")
APART: dict[str, tuple[str, ...]] = {agent: (agent,) for agent in AGENTS}
PAIRED: dict[str, tuple[str, ...]] = {"agent_0": ("agent_0",), "agent_2": ("agent_1", "agent_2")}
TOGGLES = [
    Toggle(
        2,
        True,
        {policy: list(agents) for policy, agents in PAIRED.items()},
        "the slope of the returns, -0.0294, is below 0",
        {"agent_2": "convexity ratio"},
        [{"agents": list(AGENTS), "distances": [[0, 0.5, 0.25], [0.5, 0, 0.125], [0.25, 0.125, 0]]}],
    ),
    Toggle(4, False, {policy: list(agents) for policy, agents in APART.items()}, "the round was drawn"),
]


def report(round: int, groups: dict[str, tuple[str, ...]]) -> RoundReport:
    """A round in which everything was measured."""
    measured: dict[str, Any] = dict.fromkeys(COLUMNS, 1.0) | {
        "round": round,
        "env_steps": 100 * round,
        "wall_seconds": 2.0 * round,
        "cost_total": 0.01 * round,
        "seconds_update": 0.5,
    }
    policies = {
        name: PolicyReport(
            -20.0 - round, agents, convexity_ratio=2.0, score=0.5, wanted_actors=12.5, stats={"kl": 0.01}
        )
        for name, agents in groups.items()
    }
    return RoundReport(**measured, policies=policies)


def shared_run(path: Path, algorithm: dict[str, Any] | None = None, rounds: int = 5) -> RunDir:
    """A run of three agents, two of whom share a policy in rounds 3 and 4."""
    from nitro_learner.run.recorders import CsvMetrics

    folder = RunDir(path)
    path.mkdir(parents=True, exist_ok=True)
    spec = {
        "environment": {"id": "mpe2/simple_spread_v3"},
        "algorithm": {"name": "ippo", "preset": "tuned"} | (algorithm or {}),
        "scaling": {"scaler": "marless"},
    }
    folder.job.write_text(yaml.safe_dump({"metadata": {"name": "spread"}, "spec": spec}))
    files, metrics = PolicyFiles(folder), CsvMetrics(folder.metrics)
    for listener in (files, metrics):
        listener.on_run_started(round=0, rounds=rounds, history=[])
    for round in range(1, rounds + 1):
        for listener in (files, metrics):
            listener.on_round_done(report(round, PAIRED if round in (3, 4) else APART))
    folder.sharing.write_text("".join(json.dumps(asdict(toggle)) + "\n" for toggle in TOGGLES))
    return folder
