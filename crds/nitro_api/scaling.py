"""spec.scaling: how many actors sample in a round."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Model, resolved

MAX_ACTORS = 4096
Actors = Annotated[int, Field(ge=1, le=MAX_ACTORS)]


class Scaling(Model):
    """The scaler and its range. The boosting score and its symbols are those of the Nitro paper, section
    4."""

    scaler: Literal[
        "nitro", "fixed", "schedule", "random-score", "kungfu", "hydrozoa", "minionsrl", "minionsrl-adapt"
    ] = "nitro"
    """Who decides: `nitro` the boosting score, `fixed` always initialActors, `schedule` the list in
    `schedule`, `random-score` as nitro with a score drawn from its own history (the control experiment). The
    paper's other scalers: `kungfu` more as the gradient noise scale grows, never fewer; `hydrozoa` from
    minActors on twice as many every ten rounds; `minionsrl` as the pre-trained `agent` chooses;
    `minionsrl-adapt` in proportion to how near the reward is to stop.targetReward. Default: nitro."""

    min_actors: Actors = resolved()
    """I_min, fewest actors of a round. Unit: actors. Default: the preset's, but never above maxActors."""

    max_actors: Actors = resolved()
    """I_max, most actors of a round. Unit: actors. Default: the preset's, but never below minActors."""

    initial_actors: Actors = resolved()
    """Actors of the first round, and of every round with `fixed`. Unit: actors. Default: the preset's,
    clipped to the range; the schedule's first entry with `schedule`, minActors with `hydrozoa`."""

    decay: float = resolved(gt=0, le=1)
    """d, factor by which the score fades per round. At round k no more than maxActors * d^k actors can be
    asked for; not so with mode `artifact`, where maxActors * d^(k^2) is what is asked for at least. Default:
    the preset's."""

    window: Annotated[int, Field(ge=2, le=1000)] = 6
    """n, convexity ratios, or values of the mode's statistic, that a new one is compared with, itself
    included. Unit: rounds. Default: 6."""

    mode: Literal["paper", "artifact", "lambda-min", "noise", "explained-variance"] = "paper"
    """What is scored: `paper` the convexity ratio by the paper's formula, `artifact` by that of the authors'
    released code. The others put another statistic into the paper's formula, whose low values boost:
    `lambda-min` the smallest eigenvalue alone, `noise` the signal-to-noise ratio of the policy's gradient,
    `explained-variance` how much of the returns the critic foresees. Default: paper."""

    normalise: Literal["linear", "log"] = "linear"
    """Scale on which values are compared within the window. Default: linear."""

    surrogate: Literal["clip", "ratio1"] = "clip"
    """Policy objective whose curvature or gradient is measured: PPO's clipped surrogate, or the ratio taken
    at 1. Default: clip."""

    schedule: Annotated[list[Actors], Field(min_length=1, max_length=1000)] | None = None
    """Actors of round 1, 2, ...; the last entry holds for the rounds after it. Only with scaler `schedule`,
    which needs it. Unit: actors. Default: none."""

    agent: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """File of the scaling agent that `nitro pretrain-scaler` made, absolute or relative to where the learner
    is started. On a cluster: in the learner's image, or on a claim of yours
    (learner.checkpoint.pvc.claimName), which is mounted at /checkpoints. Only with scaler `minionsrl`, which
    needs it. Default: none."""
