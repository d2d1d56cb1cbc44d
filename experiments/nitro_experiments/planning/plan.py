"""From an experiment to its runs: one resolved job each."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from nitro_api import FieldError, JobInvalid, NitroTrainingJob, ResolvedJob, load_job, resolve
from nitro_api.errors import ABSENT
from nitro_api.loading.job_file import set_field
from nitro_api.resolution.known_end import known_rounds
from nitro_api.scalers import looking_at
from nitro_api.schema.wording import value_at
from nitro_api.spec.scaling import MOST_ROUNDS
from nitro_experiments.planning.by_steps import schedule_of
from nitro_experiments.planning.controls import with_schedule
from nitro_experiments.planning.spec import Budget, ControlKind, Experiment

BACKEND = {"type": "Local", "local": {"processes": 1}}
"""One learner thread and one actor process. In an on-policy run only one of them works at a time, so the run
keeps one core busy. Results do not depend on this."""
_MOST_ROUNDS = 1_000_000
_GIVEN = {
    "spec.stop": "budget",
    "spec.seed": "seeds",
    "spec.backend": "the experiment: this machine, or with --cluster the job's own",
}
_AIMS = {f"spec.stop.{field}": looking_at(field) for field in ("targetReward", "budgetDollars")}
"""Stop conditions that some scalers look at. Other variants cannot have them: a run that one of them ends
before the budget cannot be compared."""
_ENVIRONMENT = ("spec", "environment", "id")
_CONSTRUCTOR = ("spec", "environment", "entryPoint")
_FURTHER = "spec.stop.rounds"
"""A variant may go on beyond a budget in rounds."""
_STOP = {"actorRounds": "actorRounds", "envSteps": "envSteps", "dollars": "budgetDollars"}


@dataclass(frozen=True)
class PlannedRun:
    """One run: the job it trains, resolved, and its folder below the experiment's.

    Attributes:
        control: how a control makes its actors of those of its sources; None of other runs.
        sources: the runs whose actors a control repeats. They must have ended before it begins. Until then
            `job` has a schedule of one round.
        given: the fields that the experiment and the variant give, by path; the job has more by default.
    """

    environment: str
    variant: str
    seed: int
    job: ResolvedJob
    folder: PurePosixPath
    control: ControlKind | None = None
    sources: tuple[PlannedRun, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return str(self.folder)


def plan(experiment: Experiment) -> list[PlannedRun]:
    """All runs, seed by seed, so that a stopped experiment has as many complete seeds as possible. Replayed
    controls come last, because they need all seeds of their source.

    Raises:
        JobInvalid: a variant's job is invalid. The error lists every mistake with the variant's name.
    """
    mistakes: dict[str, FieldError] = {}
    jobs: dict[tuple[str, str], ResolvedJob] = {}
    for variant, overrides in experiment.variants.items():
        for environment in experiment.environments or [""]:
            try:
                jobs[environment, variant] = resolve(_job(experiment, environment, variant, overrides))
            except JobInvalid as error:
                for item in error.errors:
                    mistake = FieldError(f"variants.{variant}: {item.path}", item.value, item.message)
                    mistakes[str(mistake)] = mistake
    if mistakes:
        raise JobInvalid(list(mistakes.values()))
    runs: list[PlannedRun] = []
    for seed in experiment.seeds:
        of_seed = {key: _run(experiment, job, key[1], seed) for key, job in jobs.items()}
        runs += of_seed.values()
        runs += [
            _control(run, name, "permuted", (run,))
            for name, variant in experiment.permuted.items()
            for (_, own), run in of_seed.items()
            if own == variant
        ]
    for name, variant in experiment.replayed.items():
        replayed = [run for run in runs if run.variant == variant]
        for run in replayed:
            sources = tuple(source for source in replayed if source.environment == run.environment)
            runs.append(_control(run, name, "replayed", sources))
    return runs


def _control(run: PlannedRun, name: str, kind: ControlKind, sources: tuple[PlannedRun, ...]) -> PlannedRun:
    """The control with the seed of a run."""
    job = with_schedule(run.job, [run.job.spec.scaling.initial_actors])
    job.metadata.name = name
    folder = run.folder.parent.parent / name / run.folder.name
    return PlannedRun(run.environment, name, run.seed, job, folder, kind, sources, run.given)


def _run(experiment: Experiment, job: ResolvedJob, variant: str, seed: int) -> PlannedRun:
    seeded = job.model_copy(deep=True)
    seeded.spec.seed = seed
    environment = job.spec.environment.id
    folder = PurePosixPath("runs", slug(environment), variant, f"seed-{seed}")
    given = {**experiment.set, **experiment.variants[variant]}
    return PlannedRun(environment, variant, seed, seeded, folder, given=given)


def slug(environment: str) -> str:
    """An environment's id as a file name: ALE/Pong-v5 becomes ALE-Pong-v5."""
    return re.sub(r"[^\w.-]+", "-", environment)


def _job(
    experiment: Experiment, environment: str, variant: str, overrides: Mapping[str, Any]
) -> NitroTrainingJob:
    data = copy.deepcopy(experiment.job)
    assert experiment.budget is not None
    wanted: dict[str, Any] = {"metadata.name": variant, **experiment.set, **overrides}
    budget = experiment.budget
    further = wanted.pop(_FURTHER, budget.rounds) if budget.unit == "rounds" else None
    mistakes = [
        FieldError(path, value, f"is given by {giver}; remove it here")
        for path, value in wanted.items()
        for field, giver in _GIVEN.items()
        if path not in _AIMS and f"{path}.".startswith(f"{field}.")
    ]
    if isinstance(further, int) and further < budget.amount:
        message = f"must not be below the budget of {budget.amount:g} rounds; raise it or remove it"
        mistakes.append(FieldError(_FURTHER, further, message))
    aims = {path: wanted.pop(path) for path in _AIMS if path in wanted}
    stop = {path.rpartition(".")[2]: value for path, value in aims.items()}
    stop |= _limits(budget) | ({"rounds": further} if further is not None else {})
    wanted |= {"spec.stop": stop, "spec.backend": BACKEND}
    before = value_at(data, _ENVIRONMENT)
    for path, value in wanted.items():
        mistakes += set_field(data, path.split("."), copy.deepcopy(value))
    if variant in experiment.by_steps:
        mistakes += _by_steps(data, variant, experiment.by_steps[variant])
    if environment:
        mistakes += _of_environments(data, before)
        mistakes += set_field(data, list(_ENVIRONMENT), environment)
    try:
        job = load_job(data)
        scaler = resolve(job).spec.scaling.scaler
    except JobInvalid as error:
        raise JobInvalid([*mistakes, *error.errors]) from None
    mistakes += [
        FieldError(path, value, _early(" and ".join(_AIMS[path])))
        for path, value in aims.items()
        if scaler not in _AIMS[path]
    ]
    if further != budget.amount and resolve(job).spec.algorithm.anneals:
        countable = budget.unit in ("actorRounds", "envSteps")
        end = known_rounds(resolve(job).spec) if countable else None
        if end is None:
            message = (
                "needs a budget in rounds, over which the rate falls, or with scaler fixed or schedule also "
                "in envSteps or actorRounds; set it to false or change the budget"
            )
            mistakes.append(FieldError("spec.algorithm.hyperparameters.learningRateAnneal", True, message))
        else:
            job.spec.stop.rounds = end
    sharing = job.spec.sharing
    if further != budget.amount and sharing and sharing.mode == "random-toggle":
        message = "needs a budget in rounds, of which the toggles are drawn; change the budget or the mode"
        mistakes.append(FieldError("spec.sharing.mode", sharing.mode, message))
    if mistakes:
        raise JobInvalid(mistakes)
    return job


def _by_steps(data: Any, variant: str, actors: Mapping[int, int]) -> Iterator[FieldError]:
    """Give a job, which may have mistakes still, a schedule of actors that follow the steps."""
    try:
        length = resolve(load_job(copy.deepcopy(data))).spec.environment.rollout_length
    except JobInvalid:
        return  # they are found again with the job
    schedule = schedule_of(actors, length)
    if len(schedule) > MOST_ROUNDS:
        message = f"has its last entry after round {MOST_ROUNDS}, the most of a schedule; grow sooner"
        yield FieldError(f"bySteps.{variant}", dict(actors), message)
        return
    scaling = {"scaler": "schedule", "schedule": schedule, "initialActors": schedule[0]}
    for name, value in scaling.items():
        yield from set_field(data, ["spec", "scaling", name], value)


def _of_environments(data: Any, before: Any) -> Iterator[FieldError]:
    """What a job cannot have beside `environments`: another environment, which they would replace, or a
    constructor, which would play in place of each of them.

    Args:
        before: the id in the base job.
    """
    other = value_at(data, _ENVIRONMENT)
    if other not in (before, ABSENT, None):
        yield FieldError(".".join(_ENVIRONMENT), other, "is given by environments; remove it here")
    constructor = value_at(data, _CONSTRUCTOR)
    if constructor not in (ABSENT, None):
        message = "plays in place of all environments; remove it, or remove environments"
        yield FieldError(".".join(_CONSTRUCTOR), constructor, message)


def _early(scalers: str) -> str:
    return (
        "could end a run before the budget, and is only allowed with the scalers that look at it "
        f"({scalers}); remove it"
    )


def _limits(budget: Budget) -> dict[str, Any]:
    """spec.stop of every run. Where the budget is not in rounds, the limit of rounds is the highest one."""
    if budget.unit == "rounds":
        return {"rounds": budget.rounds}
    return {_STOP[budget.unit]: budget.to_dict()[budget.unit], "rounds": _MOST_ROUNDS}
