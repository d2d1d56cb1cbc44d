"""A folder as the Hugging Face Hub expects it: the policy, its job, and a model card."""

from typing import Any

import yaml

from nitro_actor.actions import action_space
from nitro_actor.masks import choices
from nitro_api.costs.amounts import dollars
from nitro_learner.api.loading import write_exported
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.api.run import Run
from nitro_learner.deployment.export.networks import as_onnx, takes_available
from nitro_learner.run.policy_file import EXPORTED
from nitro_learner.run.published import published_job
from nitro_learner.run.rundir import RunDir


def as_hub(policy: TrainedPolicy, run: Run) -> dict[str, bytes]:
    """The folder's files: README.md (the card), job.yaml, and the policy in two formats.

    Raises:
        RunDirError: the run folder is damaged.
    """
    networks = as_onnx(policy)
    job = yaml.safe_dump(published_job(run.job.to_dict()), sort_keys=False)
    return {
        "README.md": _card(policy, run, next(iter(networks))).encode(),
        "job.yaml": job.encode(),
        **networks,
        EXPORTED: write_exported(policy),
    }


def _card(policy: TrainedPolicy, run: Run, network: str) -> str:
    # Of a run that was extended later, too: its earlier end may be that of this policy.
    job, summary = run.job, RunDir(run.path).read_summary()
    rounds = summary.get("rounds", -1)
    name, environment, algorithm = job.metadata.name, job.spec.environment.id, job.spec.algorithm.name
    # The summary's figures are those of the policy that its sitting ended with: of another one they would be
    # untrue.
    of_policy, ended = rounds == policy.round, bool(summary.get("finished"))
    evaluation: dict[str, Any] | None = summary.get("evaluation") if of_policy else None
    front: dict[str, Any] = {
        "library_name": "nitro-learner",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", environment, algorithm],
    }
    rows = [
        ("Environment", f"`{environment}`"),
        ("Algorithm", f"`{algorithm}`, preset `{job.spec.algorithm.preset}`"),
        ("Round", f"{policy.round}"),
    ]
    if evaluation:
        value = f"{evaluation['mean']:.2f} +/- {evaluation['std']:.2f}"
        task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        result = {
            "task": task,
            "dataset": {"name": environment, "type": environment},
            "metrics": [{"type": "mean_reward", "value": value, "name": "mean_reward", "verified": False}],
        }
        front["model-index"] = [{"name": name, "results": [result]}]
        rows.append(
            (
                "Return at the end of training" if ended else "Return",
                f"{value}, mean and standard deviation over {evaluation['episodes']} episodes",
            )
        )
    if of_policy:
        if "envSteps" in summary:  # a run that was interrupted before its first round has none
            rows.append(("Environment steps", f"{summary['envSteps']:,}"))
        rows.append(
            ("Cost of the training", dollars(summary["cost"]["learner"], summary["cost"]["actors"])[0])
        )
    if not (of_policy and ended):
        rows.append(("Training", "went on after this round" if policy.round < rounds else "has not ended"))
    if policy.round <= rounds:  # an older summary has the versions of an earlier sitting
        versions = {key: value for key, value in summary["versions"].items() if key != "machine"}
        rows.append(("Versions", ", ".join(f"{key} {value}" for key, value in versions.items())))
    table = "\n".join(f"| {title} | {value} |" for title, value in rows)
    return f"""---
{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---

# {name}

A policy that Nitro has trained. `job.yaml` is the whole job, but for the values of `env`:
`nitro train job.yaml` trains it again.

| | |
|---|---|
{table}

## Use it

```python
{_usage(policy, network)}
```

Observations are those of the environment, any number at a time. Normalisation is inside. Actions are the
most probable or the most valuable ones. `{EXPORTED}` has the tensors, and its metadata describes the
networks.
"""


def _usage(policy: TrainedPolicy, network: str) -> str:
    """Python that plays the first agent's network."""
    spaces = policy.of(policy.agents[0])
    shape, dtype = [1, *spaces.observation["shape"]], spaces.observation["dtype"]
    feed = f'{{"observation": np.zeros({shape}, np.{dtype})}}'
    memory, outputs = policy.memory[policy.agents[0]], "actions, distribution"
    if memory:  # of an episode's first observation
        feed, outputs = f'{feed[:-1]}, "state": np.zeros([1, {memory}], np.float32)}}', f"{outputs}, state"
    if takes_available(policy, policy.agents[0]):
        feed = f'{feed[:-1]}, "available": np.ones([1, {choices(action_space(spaces.action))}], bool)}}'
    return f"""import os

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read as onnxruntime is imported
import onnxruntime

session = onnxruntime.InferenceSession("{network}")
{outputs} = session.run(None, {feed})"""
