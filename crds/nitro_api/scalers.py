"""The record of each scaler: what models, rules, presets, the learner and the operator ask about it, without
its code."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

WINDOW, MARLESS_WINDOW, GROWTH_WINDOW = 6, 10, 40
"""spec.scaling.window: the Nitro paper's, the MARLess paper's, and that of scaler growth."""

OWN = "own"
"""The scaler of a user's own class, which spec.scaling.entryPoint names."""

SCORE_SETTINGS = ("window", "mode", "normalise", "surrogate")
"""The settings of spec.scaling from which scores are made."""


@dataclass(frozen=True)
class ScalerRecord:
    """A scaler.

    Attributes:
        name: spec.scaling.scaler.
        plan: whether all rounds' actors are known before the run, initialActors or the schedule; None of a
            scaler that chooses from minActors to maxActors.
        monotone: whether a round never has fewer actors than the one before.
        starts_low: whether the first round has minActors.
        fades: whether its score falls by scaling.decay per round.
        scores_policies: whether it has a score of each policy.
        window: scaling.window where the job leaves it out.
        settings: those of SCORE_SETTINGS that it uses.
        fields: further fields of spec.scaling that it has; other scalers refuse them, unless they have them.
        required: fields of spec.scaling that it needs.
        aims: fields of spec.stop that it looks at.
        several: the record where there are several agents, if that is another one.
    """

    name: str
    plan: Literal["constant", "schedule"] | None = None
    monotone: bool = False
    starts_low: bool = False
    fades: bool = False
    scores_policies: bool = False
    window: int = WINDOW
    settings: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    aims: tuple[str, ...] = ()
    several: "ScalerRecord | None" = None


_NITRO = ScalerRecord("nitro", fades=True, settings=SCORE_SETTINGS)
_MARLESS = ScalerRecord(
    "marless",
    scores_policies=True,
    window=MARLESS_WINDOW,
    settings=("window", "surrogate"),
    fields=("threshold",),
)
_RANDOM = "random-score"

ALL = (
    _NITRO,
    ScalerRecord("fixed", plan="constant"),
    ScalerRecord("schedule", plan="schedule", fields=("schedule",), required=("schedule",)),
    replace(_NITRO, name=_RANDOM, fields=_MARLESS.fields, several=replace(_MARLESS, name=_RANDOM)),
    ScalerRecord("efficient", settings=("surrogate",), fields=("costRatio", "costs")),
    ScalerRecord("growth", window=GROWTH_WINDOW, settings=("window",)),
    ScalerRecord("kungfu", monotone=True),
    ScalerRecord("hydrozoa", monotone=True, starts_low=True),
    ScalerRecord("minionsrl", fields=("agent",), required=("agent",), aims=("targetReward", "budgetDollars")),
    ScalerRecord("minionsrl-adapt", aims=("targetReward",)),
    _MARLESS,
    ScalerRecord(OWN, settings=SCORE_SETTINGS, required=("entryPoint",)),
)
"""In the order in which they are listed."""

RECORDS: dict[str, ScalerRecord] = {record.name: record for record in ALL}
"""By spec.scaling.scaler."""


def having(field: str) -> list[str]:
    """The names of the scalers that have a field of spec.scaling, in alphabetical order."""
    return sorted(record.name for record in ALL if field in record.fields)


def looking_at(field: str) -> tuple[str, ...]:
    """The names of the scalers that look at a field of spec.stop."""
    return tuple(record.name for record in ALL if field in record.aims)


if TYPE_CHECKING:
    ScalerName = str
else:
    ScalerName = Literal[tuple(RECORDS)]
