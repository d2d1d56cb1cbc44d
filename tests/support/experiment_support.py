"""A small experiment, and run folders as training would leave them, without training."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.reading.folder import ExperimentDir
from nitro_learner.training.round_report import COLUMNS


def spec(**changes: Any) -> dict[str, Any]:
    """Two variants of a job in an environment of two states, over two seeds, to 8 actor-rounds."""
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "two-state"},
        "spec": {
            "environment": {
                "id": "two-state",
                "entryPoint": "learner_environments:TwoState",
                "rolloutLength": 96,
                "envsPerActor": 4,
            },
            "algorithm": {"hyperparameters": {"epochs": 2, "minibatchSize": 64}},
            "network": {"hiddenSizes": [8]},
            "evaluation": {"episodes": 2, "everyRounds": 1},
            "scaling": {"scaler": "nitro", "minActors": 1, "maxActors": 4, "initialActors": 2},
            "learner": {"checkpoint": {"keepLast": 100}},
        },
    }
    return {
        "name": "two",
        "figure": "Two variants.",
        "coreHours": 0.01,
        "job": job,
        "variants": {"fixed": {"spec.scaling.scaler": "fixed"}, "nitro": {}},
        "seeds": [0, 1],
        "budget": {"actorRounds": 8},
        **changes,
    }


def preset_job() -> dict[str, Any]:
    """The job of `spec` with its preset's layers, epochs and minibatches: price lists have seconds for it."""
    job: dict[str, Any] = spec()["job"]
    del job["spec"]["algorithm"], job["spec"]["network"]
    return job


def write_spec(directory: Path, **changes: Any) -> Path:
    path = directory / "two.yaml"
    path.write_text(yaml.safe_dump(spec(**changes)))
    return path


def write_prices(directory: Path, **changes: object) -> Path:
    """A learner of a dollar per second, and actors of a dollar per GB-second and a tenth per request."""
    path = directory / "prices.yaml"
    pricing = {"learnerDollarsPerHour": 3600, "lambdaGBSecond": 1, "lambdaRequest": 0.1, "actorMemoryGB": 1}
    whole = {"name": "round", "learner": "a machine", "source": "Made up.", "pricing": pricing, **changes}
    path.write_text(yaml.safe_dump(whole))
    return path


def pretend(
    folder: ExperimentDir,
    run: PlannedRun,
    *,
    actors: Sequence[int],
    returns: Sequence[float],
    evaluations: Sequence[float] = (),
    final: float | None = None,
    finished: bool = True,
    cents: float = 1,
    learned: Sequence[int] | None = None,
    ended: Mapping[str, Any] | None = None,
) -> None:
    """Leaves a run folder with these rounds; a round costs `cents` per actor and has the rollouts of all of
    them, or those `learned` from. `ended` is more of its summary."""
    place = folder.prepare(run)
    rows = []
    for index, count in enumerate(actors):
        spent = sum(actors[: index + 1])
        rollouts = sum((learned or actors)[: index + 1])
        known = {
            "round": index + 1,
            "actors": count,
            "env_steps": run.job.spec.environment.rollout_length * rollouts,
            "cost_total": 0.01 * cents * spent,
            "wall_seconds": 36.0 * (index + 1),
            "reward_mean": returns[index],
            "evaluation_mean": evaluations[index] if evaluations else "",
        }
        rows.append({name: known.get(name, "") for name in COLUMNS})
    with place.metrics.open("w") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    evaluation = {} if final is None else {"evaluation": {"mean": final}}
    place.summary.write_text(json.dumps({"finished": finished, **evaluation, **(ended or {})}))


def no_overview(_results: object, _experiment: object, path: Path) -> Path:
    """In place of draw_overview: an empty file, because pictures take most of a report's time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path
