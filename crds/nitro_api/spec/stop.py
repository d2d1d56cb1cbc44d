"""spec.stop and spec.evaluation: when training ends, and how the policy is judged."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from nitro_api.base import NAME_PATTERN, Model
from nitro_api.quantities import seconds_of
from nitro_api.spec.free_json import FreeJson, with_floats

Rounds = Annotated[int, Field(ge=1, le=1_000_000)]


class EvaluationEnvironment(Model):
    """The environment of a named set of evaluation episodes."""

    name: Annotated[str, Field(min_length=1, max_length=32, pattern=NAME_PATTERN)]
    """Name of the set in the columns evaluation_NAME_mean and evaluation_NAME_std."""

    kwargs: Annotated[
        dict[str, Any], Field(max_length=64), FreeJson(levels=2), AfterValidator(with_floats)
    ] = Field(default_factory=dict)
    """Keyword arguments that differ from environment.kwargs, of at most 2 levels. Default: none."""

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    """Every evaluation plays the same episodes, which follow from this seed. Default: new ones each time."""


class GivenEvaluation(Model):
    """Episodes with the policy's mean (or most likely) actions, in environments and with seeds of their
    own."""

    environment: Annotated[list[EvaluationEnvironment], Field(min_length=1, max_length=8)] | None = None
    """Sets of episodes. The first one is the evaluation that decides: stop.targetReward, stop.patience, the
    best policy and the status are by it. Default: one set with environment.kwargs."""

    episodes: Annotated[int, Field(ge=1, le=1000)] = 6
    """Episodes per evaluation and set. Default: 6."""

    every_rounds: Rounds | None = None
    """Evaluate after every so many rounds. Unit: rounds. Default: the preset's."""


class Evaluation(GivenEvaluation):
    """The evaluation of a resolved job."""

    every_rounds: Rounds


class GivenStop(Model):
    """Training ends when any of these holds."""

    rounds: Rounds | None = None
    """After so many rounds. Unit: rounds. Default: the preset's."""

    actor_rounds: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """After the round with which so many rollouts have been learned from: the actors of all rounds added up,
    but of an off-policy round, which ends before all of its actors have answered, only those that had. Unit:
    actors times rounds. Default: no limit."""

    env_steps: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """After the round in which so many environment steps have been trained on. Unit: steps. Default: no
    limit."""

    target_reward: float | None = None
    """When an evaluation's mean return reaches it. Unit: return of an episode. Default: no target."""

    patience: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """When the evaluations of so many rounds were not better than the best one before. Unit: rounds. Default:
    no limit."""

    budget_dollars: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """When the cost so far, of learner and actors, reaches it. Unit: US dollars. Default: no budget."""

    duration: Annotated[str, Field(min_length=2, max_length=24)] | None = None
    """After this much training time, suspensions not counted, such as 45s, 90m or 2h30m. Default: no
    limit."""

    @property
    def duration_seconds(self) -> float | None:
        """`duration` in seconds."""
        return None if self.duration is None else seconds_of(self.duration)


class Stop(GivenStop):
    """The stop conditions of a resolved job."""

    rounds: Rounds
