"""Actors that follow the environment steps of a variant's training, where a job's schedule goes by rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from nitro_api import FieldError
from nitro_api.spec.scaling import MOST_ROUNDS, Actors

Steps = Annotated[int, Field(ge=0, le=10**12)]
BySteps = Annotated[dict[Steps, Actors], Field(min_length=1, max_length=50)]
"""Actors of a round by the steps that were trained on before it. An entry holds from its steps on."""


def schedule_of(actors: Mapping[int, int], length: int) -> list[int]:
    """The actors of round 1, 2, ..., whose rollouts have `length` steps, up to the first round with the last
    entry. It ends after one round more than a schedule may have."""
    schedule: list[int] = []
    steps, last = 0, max(actors)
    while len(schedule) <= MOST_ROUNDS:
        schedule.append(actors[max(step for step in actors if step <= steps)])
        if steps >= last:
            break
        steps += schedule[-1] * length
    return schedule


def mistakes(by_steps: Mapping[str, Mapping[int, int]], variants: Mapping[str, Any]) -> Iterator[FieldError]:
    """What is wrong with an experiment's `bySteps`."""
    for name, actors in by_steps.items():
        path, given = f"bySteps.{name}", dict(actors)
        if name not in variants:
            yield FieldError(path, given, f"is not a variant; there are {', '.join(variants)}")
        if 0 not in given:
            yield FieldError(path, given, "must say how many actors there are from step 0 on; add 0")
