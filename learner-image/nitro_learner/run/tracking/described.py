"""What trackers are told of a run besides its rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.run.policy_file import EXPORTED, policy_file
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.same_job import leaves


def flattened(config: Mapping[str, Any]) -> dict[str, str]:
    """The leaves of a config by their paths, such as `algorithm.learningRate`, as text."""
    fields = leaves(config) if config else ()
    return {path: value if isinstance(value, str) else json.dumps(value) for path, value in fields}


def final_figures(folder: RunDir) -> dict[str, float]:
    """Figures of the run's end: return of the final policy, and cost in US dollars."""
    summary = folder.read_summary()
    figures = {"final/cost": summary["cost"]["total"]}
    evaluation = summary.get("evaluation", {})
    figures |= {f"final/return_{name}": evaluation[name] for name in ("mean", "std") if name in evaluation}
    figures |= {f"final/agent/{name}": value for name, value in evaluation.get("agents", {}).items()}
    return {name: float(value) for name, value in figures.items()}


def write_policy(folder: RunDir, config: Mapping[str, Any], target: Path) -> list[Path]:
    """Write the final policy and its job, under the names that `nitro export --format hub` gives them.

    Raises:
        CheckpointError: all checkpoints are damaged.
    """
    checkpoint = CheckpointStore(folder.checkpoints, keep_last=1).latest(attached=False, only=["played"])
    assert checkpoint is not None, "a run that has finished has a checkpoint"
    job, policy = target / "job.yaml", target / EXPORTED
    job.write_text(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True), encoding="utf-8")
    policy.write_bytes(policy_file(checkpoint.state["played"], checkpoint.round))
    return [job, policy]
