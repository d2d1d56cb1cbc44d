"""The file that describes an experiment: a base job, what varies, the seeds and the budget that all runs get.

    experiment = load(Path("experiments/paper-small.yaml"), ["seeds=[0, 1]"])
    for run in plan(experiment): ...

Nothing here loads torch.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError

from nitro_api import FieldError, JobInvalid
from nitro_api.base import Model
from nitro_api.errors import ABSENT
from nitro_api.loading import yamlfile
from nitro_api.loading.job_file import apply_override
from nitro_api.schema.openapi import schema_of
from nitro_api.schema.wording import located_errors, nearest
from nitro_api.spec.scaling import MOST_ROUNDS
from nitro_experiments.planning import by_steps, search_spec, target
from nitro_experiments.planning.by_steps import BySteps
from nitro_experiments.planning.numbers import as_stored
from nitro_experiments.planning.search_spec import Search
from nitro_experiments.planning.target import Target
from nitro_learner.training.round_report import COLUMNS

Score = Literal["reward_mean", "evaluation_mean"]
ControlKind = Literal["permuted", "replayed"]
DEFAULT = "default"
"""The variant with the job's own settings, which the best trial of a search is compared with."""
FIGURES = ("reward_mean", "evaluation_mean", "actors", "cost_total")
"""The metrics that are drawn unless the file names others."""

_Text = Annotated[str, Field(min_length=1, max_length=2000)]
_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


class Budget(Model):
    """What every run may spend. Exactly one of the fields is set.

    A run ends with the round in which it reaches the budget. The report reads every curve at exactly the
    budget.
    """

    rounds: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Rounds."""

    actor_rounds: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Rollouts that the run learned from, the unit of the paper's section 2.2. In an on-policy run it is the
    sum of the actors of all rounds."""

    env_steps: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """Environment steps trained on."""

    dollars: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Cost of learner and actors."""

    @property
    def unit(self) -> str:
        """The name of the field that is set, as the file has it."""
        return next(iter(self.to_dict()))

    @property
    def amount(self) -> float:
        return float(self.to_dict()[self.unit])


class Experiment(Model):
    """An experiment. Its runs are environments x variants x seeds. For a figure that is not made of training
    curves it has only `commands`."""

    name: _Text
    """Name of the folder with its results."""

    title: _Text | None = None
    """The question that it answers, the heading of the report. Default: the name."""

    figure: _Text | None = None
    """What it shows, and the paper's figure that it repeats."""

    scaled_down: _Text | None = None
    """What is smaller than in the paper."""

    core_hours: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Time that all its runs take, estimated from measured rates. It is printed before they start. Unit:
    hours of one core."""

    job: Any = None
    """The base job: the path of a job file, relative to this file, or the job itself."""

    set: dict[str, Any] = Field(default_factory=dict)
    """Fields of the base job that all runs override, by path as in --set."""

    environments: Annotated[list[_Text], Field(max_length=50)] = Field(default_factory=list)
    """Environment ids, each compared by itself. Default: the base job's."""

    variants: Annotated[dict[str, dict[str, Any]], Field(max_length=50)] = Field(default_factory=dict)
    """What is compared: a name, and the fields that it overrides, by path as in --set."""

    by_steps: Annotated[dict[str, BySteps], Field(max_length=50)] = Field(default_factory=dict)
    """Variants whose actors follow the environment steps: their names, and the actors from which step on. The
    job gets scaler `schedule`, with as many rounds of each number as these steps take."""

    search: Search | None = None
    """Settings that are tried, in place of variants. The best ones are then compared, over the seeds, with
    the job's own."""

    permuted: Annotated[dict[str, str], Field(max_length=50)] = Field(default_factory=dict)
    """Controls: a name, and the variant whose runs the control repeats, seed by seed. It uses the actors of
    those runs' rounds in a random order within blocks of spec.scaling.window rounds."""

    replayed: Annotated[dict[str, str], Field(max_length=50)] = Field(default_factory=dict)
    """Controls: a name, and the variant whose mean profile the control repeats with every seed: in each round
    the mean number of actors of all seeds' runs."""

    seeds: Annotated[list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(max_length=1000)] = Field(
        default_factory=list
    )
    """Seeds; the same for every variant, so that differences are paired."""

    budget: Budget | None = None
    """What every run may spend."""

    against: Annotated[list[_Text], Field(max_length=10)] = Field(default_factory=list)
    """Variants that the others are compared with. Default: the first."""

    questions: Annotated[dict[_Text, list[_Text]], Field(max_length=20)] = Field(default_factory=dict)
    """Questions, each with the two variants whose difference answers it. The report's first table says
    whether the first variant's return is better than the second's, and how their costs differ."""

    score: Score = "reward_mean"
    """What is compared: the mean return of the last 20 training episodes, or of evaluations with mean
    actions."""

    target: Target | None = None
    """Return whose price is reported: what each variant had spent when its score first reached it. One number
    for all environments, or a number by environment; those without one have no target."""

    figures: Annotated[list[str], Field(max_length=len(COLUMNS))] = Field(default_factory=lambda: [*FIGURES])
    """Columns of metrics.csv, one picture each."""

    commands: Annotated[list[_Text], Field(max_length=20)] = Field(default_factory=list)
    """Commands that make everything else, after the runs have ended. Each is `nitro` or `python` with its
    arguments; {dir} is the folder with the results."""

    @property
    def compared(self) -> list[str]:
        """The names of all variants and controls."""
        return [*self.variants, *self.permuted, *self.replayed]

    @property
    def scores(self) -> list[Score]:
        """All scores, the experiment's own first."""
        return [self.score, *(score for score in get_args(Score) if score != self.score)]

    def target_in(self, environment: str) -> float | None:
        """The target in an environment."""
        return self.target.get(environment) if isinstance(self.target, dict) else self.target

    def comparing(self, name: str, settings: dict[str, Any]) -> Experiment:
        """The experiment that compares settings that a search has found with the job's own."""
        variants = {DEFAULT: {}, name: settings}
        return self.model_copy(update={"search": None, "variants": variants})


_SCHEMA = schema_of(Experiment)


def load(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment in a file, with its base job as a mapping.

    Raises:
        JobInvalid: the file has mistakes. The error lists all of them; `plan` finds those of the jobs.
    """
    data, mistakes = yamlfile.read(path)
    if not isinstance(data, dict):
        message = "must be a mapping with name, job, variants, seeds and budget; see experiments/"
        raise JobInvalid([*mistakes, FieldError("", data, message)])
    for override in overrides:
        mistakes += apply_override(data, override)
    job = data.get("job")
    if isinstance(job, str):
        try:
            data["job"], job_mistakes = yamlfile.read(path.parent / job)
        except JobInvalid as error:
            raise JobInvalid([FieldError("job", job, f"cannot be used: {error}")]) from None
        mistakes += [FieldError(f"job.{item.path}", item.value, item.message) for item in job_mistakes]
    data = as_stored(data)
    try:
        experiment = Experiment.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise JobInvalid([*mistakes, *(item for _, item in located_errors(error, data, _SCHEMA))]) from None
    mistakes += _rules(experiment)
    if mistakes:
        raise JobInvalid(mistakes)
    return experiment


def _rules(experiment: Experiment) -> list[FieldError]:
    """Mistakes that concern several fields together."""
    mistakes: list[FieldError] = []
    named = {"name": experiment.name} | {f"variants.{name}": name for name in experiment.variants}
    controls = [
        (f"{section}.{name}", name, source)
        for section, controls in (("permuted", experiment.permuted), ("replayed", experiment.replayed))
        for name, source in controls.items()
    ]
    named |= {path: name for path, name, _ in controls}
    for path, name in named.items():
        if not _NAME.fullmatch(name):
            message = "must be named by at most 63 lower-case letters, digits, dots and hyphens; rename it"
            mistakes.append(FieldError(path, name, message))
    if not experiment.variants and not experiment.search and not experiment.commands:
        mistakes.append(FieldError("variants", ABSENT, "is required where there are no commands; add it"))
    if experiment.search:
        mistakes += search_spec.mistakes(experiment.search, experiment.seeds)
        mistakes += _beside_a_search(experiment)
    if experiment.variants or experiment.search:
        what = "is a search" if experiment.search else "are variants"
        mistakes += [
            FieldError(name, ABSENT, f"is required where there {what}; add it")
            for name in ("job", "seeds", "budget")
            if not getattr(experiment, name)
        ]
        if experiment.job is not None and not isinstance(experiment.job, dict):
            mistakes.append(FieldError("job", experiment.job, "must be the path of a job file, or a job"))
    for path, name, source in controls:
        mistakes += _among(path, source, experiment.variants, "a variant")
        if experiment.compared.count(name) > 1:
            message = "is the name of a variant or of another control as well; choose another"
            mistakes.append(FieldError(path, source, message))
    if controls and experiment.budget and (experiment.budget.rounds or 0) > MOST_ROUNDS:
        message = f"must be at most {MOST_ROUNDS}, the rounds of a control's schedule; lower it"
        mistakes.append(FieldError("budget.rounds", experiment.budget.rounds, message))
    if experiment.budget and len(experiment.budget.to_dict()) != 1:
        message = "must have exactly one of rounds, actorRounds, envSteps and dollars"
        mistakes.append(FieldError("budget", experiment.budget.to_dict(), message))
    lists: tuple[tuple[str, str, list[Any]], ...] = (
        ("seeds", "a seed", experiment.seeds),
        ("environments", "an environment", experiment.environments),
    )
    for path, entry, values in lists:
        if len(set(values)) < len(values):
            mistakes.append(FieldError(path, values, f"holds {entry} twice; remove one"))
    mistakes += target.mistakes(experiment.target, experiment.environments)
    mistakes += by_steps.mistakes(experiment.by_steps, experiment.variants)
    for index, name in enumerate(experiment.against):
        mistakes += _among(f"against[{index}]", name, experiment.compared, "a variant")
    for question, pair in experiment.questions.items():
        if len(pair) != 2:
            message = "must be two variants: the one that is asked about, and what it is compared with"
            mistakes.append(FieldError(f"questions.{question}", pair, message))
        for index, name in enumerate(pair):
            mistakes += _among(f"questions.{question}[{index}]", name, experiment.compared, "a variant")
    for index, name in enumerate(experiment.figures):
        mistakes += _among(f"figures[{index}]", name, COLUMNS, "a column of metrics.csv")
    for index, command in enumerate(experiment.commands):
        try:
            words = shlex.split(command)
        except ValueError as error:
            mistakes.append(
                FieldError(f"commands[{index}]", command, f"cannot be read ({error}); correct it")
            )
            continue
        if words[:1] not in (["nitro"], ["python"]):
            mistakes.append(FieldError(f"commands[{index}]", command, "must begin with nitro or python"))
    return mistakes


def _beside_a_search(experiment: Experiment) -> list[FieldError]:
    """What an experiment with a search cannot have."""
    mistakes = [
        FieldError(name, ABSENT, "cannot stand beside search, which compares the best trial; remove it")
        for name in ("variants", "permuted", "replayed", "against", "questions")
        if getattr(experiment, name)
    ]
    if len(experiment.environments) > 1:
        message = "has more than one entry, and a search is for one environment; leave one"
        mistakes.append(FieldError("environments", experiment.environments, message))
    return mistakes


def _among(path: str, name: str, known: Any, what: str) -> list[FieldError]:
    if name in known:
        return []
    close = nearest(name, list(known))
    remedy = f"did you mean {close}?" if close else f"there are {', '.join(known)}"
    return [FieldError(path, name, f"is not {what}; {remedy}")]
