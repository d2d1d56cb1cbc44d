"""spec.stop and spec.evaluation: when training ends, and how the policy is judged."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nitro_api.base import Model, resolved
from nitro_api.spec.quantities import seconds_of


class Evaluation(Model):
    """Episodes with the policy's mean (or most likely) actions, in environments and with seeds of their
    own."""

    episodes: Annotated[int, Field(ge=1, le=1000)] = 6
    """Episodes per evaluation. Default: 6."""

    every_rounds: int = resolved(ge=1, le=1_000_000)
    """Evaluate after every so many rounds. Unit: rounds. Default: the preset's."""


class Stop(Model):
    """Training ends when any of these holds."""

    rounds: int = resolved(ge=1, le=1_000_000)
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

    budget_dollars: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """When the cost so far, of learner and actors, reaches it. Unit: US dollars. Default: no budget."""

    duration: Annotated[str, Field(min_length=2, max_length=24)] | None = None
    """After this much training time, suspensions not counted, such as 45s, 90m or 2h30m. Default: no
    limit."""

    @property
    def duration_seconds(self) -> float | None:
        """`duration` in seconds."""
        return None if self.duration is None else seconds_of(self.duration)
