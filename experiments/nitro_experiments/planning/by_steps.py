"""Actors that follow the environment steps of a variant's training, where a job's schedule goes by rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nitro_api import FieldError
from nitro_api.spec.scaling import MAX_ACTORS, MOST_ROUNDS

BySteps = dict[Any, Any]
"""Actors of a round by the steps that were trained on before it, both integers as `mistakes` checks. An entry
holds from its steps on."""


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


def mistakes(by_steps: Mapping[str, BySteps], variants: Mapping[str, Any]) -> Iterator[FieldError]:
    """What is wrong with an experiment's `bySteps`."""
    for name, given in by_steps.items():
        path = f"bySteps.{name}"
        if name not in variants:
            yield FieldError(path, given, f"is not a variant; there are {', '.join(variants)}")
        integers = all(type(number) is int for number in (*given, *given.values()))
        if not integers or min(given, default=0) < 0 or not all(1 <= n <= MAX_ACTORS for n in given.values()):
            message = f"must have integers: steps, and after each the actors, from 1 to {MAX_ACTORS}"
            yield FieldError(path, given, f"{message}; write it as {{0: 4, 204800: 8}}")
        elif 0 not in given:
            yield FieldError(path, given, "must say how many actors there are from step 0 on; add 0")
