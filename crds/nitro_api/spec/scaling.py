"""spec.scaling: how many actors sample in a round."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from nitro_api.base import Model
from nitro_api.scalers import RECORDS, ScalerName, ScalerRecord
from nitro_api.spec.free_json import FreeJson, with_floats

MAX_ACTORS = 4096
MOST_ROUNDS = 1000
"""Entries of a schedule at most."""
LONGEST_HOLD = 86_400
HOLD_PATTERN = "^auto$"
_HOLD_SCHEMA: dict[str, Any] = {
    "x-kubernetes-int-or-string": True,
    "pattern": HOLD_PATTERN,
    "maxLength": 4,
    "minimum": 0,
    "maximum": LONGEST_HOLD,
}
Hold = Annotated[Annotated[int, Field(ge=0, le=LONGEST_HOLD)] | Literal["auto"], WithJsonSchema(_HOLD_SCHEMA)]
Actors = Annotated[int, Field(ge=1, le=MAX_ACTORS)]
Decay = Annotated[float, Field(gt=0, le=1)]
Window = Annotated[int, Field(ge=2, le=1000)]


class GivenScaling(Model):
    """The scaler and its range. The boosting score and its symbols are those of the Nitro paper, section
    4."""

    scaler: ScalerName | None = None
    """Who decides: `nitro` the boosting score, `fixed` always initialActors, `schedule` the list in
    `schedule`, `random-score` as nitro, or with several agents as marless, with a score drawn from its own
    history (the control experiment), `efficient` as many as make PPO's improvement cheapest, by the
    gradient's noise and by what rounds cost, `growth` twice as many where the returns no longer rise and half
    as many where they rise steeply. The paper's other scalers: `kungfu` more as the gradient noise
    scale grows, never fewer; `hydrozoa` from minActors on twice as many every ten rounds; `minionsrl` as the
    pre-trained `agent` chooses; `minionsrl-adapt` in proportion to how near the reward is to
    stop.targetReward. For several agents: `marless` what all policies' scores ask for together, as the
    MARLess paper has it. `own` a class of yours, which entryPoint names. Default: own with entryPoint,
    otherwise the preset's."""

    min_actors: Actors | None = None
    """I_min, fewest actors of a round. Unit: actors. Default: the preset's, but never above maxActors."""

    max_actors: Actors | None = None
    """I_max, most actors of a round. Unit: actors. Default: the preset's, but never below minActors."""

    initial_actors: Actors | None = None
    """Actors of the first round, and of every round with `fixed`. Unit: actors. Default: the preset's,
    clipped to the range; the schedule's first entry with `schedule`, minActors with `hydrozoa`."""

    decay: Decay | None = None
    """d, factor by which the score fades per round. At round k no more than maxActors * d^k actors can be
    asked for; not so with mode `artifact`, where maxActors * d^(k^2) is what is asked for at least. Default:
    the preset's."""

    window: Window | None = None
    """Number of values n that the score compares a new value with; the new value is one of them. The values
    are convexity ratios, or those of the mode's statistic; with `growth` the returns of rounds, at least 4.
    Unit: rounds. Default: 10 with scaler `marless`, and with `random-score` of several agents, 40 with
    `growth`, otherwise 6."""

    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    """MARLess' beta. The next round has as many actors as the policy that asks for the most, if the policies
    ask for threshold * (maxActors - minActors) on average, or for more; otherwise it has that average. Only
    with scaler `marless`, and with `random-score` of several agents. Default: 0.5 with them."""

    mode: Literal["paper", "artifact", "lambda-min", "noise", "explained-variance"] = "paper"
    """Statistic and formula of the score. `paper`: the convexity ratio by the paper's formula. `artifact`:
    the convexity ratio by the formula of the authors' released code. The other modes use another statistic
    in the paper's formula; its low values boost: `lambda-min` the smallest eigenvalue alone, `noise` the
    signal-to-noise ratio of the policy's gradient, `explained-variance` how much of the variance of the
    returns the critic explains. Default: paper."""

    normalise: Literal["linear", "log"] = "linear"
    """Scale on which values are compared within the window. Default: linear."""

    surrogate: Literal["clip", "ratio1"] = "clip"
    """Policy objective whose curvature or gradient is measured: `clip` is PPO's clipped surrogate, `ratio1`
    takes the ratio at 1. Default: clip."""

    hold: Hold = "auto"
    """How long an actor that no round needs is kept ready: so many seconds, or `auto`, which weighs what it
    costs idle against what it costs to let it go and to start another. 0 follows the requests. It may change
    while the job runs; results do not depend on it. Default: auto."""

    sleep: Literal["auto", "never"] = "auto"
    """Whether a ready actor gives back its CPU while the learner does not need it, and keeps its memory:
    `auto` where that costs less than to keep it awake or to let it go, `never` not at all. It may change
    while the job runs; results do not depend on it, except where the job itself decides by dollars. Default:
    auto."""

    schedule: Annotated[list[Actors], Field(min_length=1, max_length=MOST_ROUNDS)] | None = None
    """Actors of round 1, 2, ...; later rounds use the last entry. Only with scaler `schedule`, which requires
    it. Unit: actors. Default: none."""

    agent: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """File of the scaling agent that `nitro pretrain-scaler` made, absolute or relative to where the learner
    is started. On a cluster: in the learner's image, or on a claim of yours
    (learner.checkpoint.pvc.claimName), which is mounted at /checkpoints. Only with scaler `minionsrl`, which
    needs it. Default: none."""

    cost_ratio: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """K, what a round costs whatever its actors over what one more actor adds to it. Where actors are cheap
    beside the learner's time, K is large and rounds have more actors. Only with scaler `efficient`. Unit:
    actors. Default: with it, by the prices in spec.pricing of the learner and of invocations on demand (with
    model `vm`, of machines), and by the seconds of machines that were measured, an H200 where the learner
    asks for a GPU."""

    costs: Literal["given", "measured"] | None = None
    """Where scaler `efficient` has its costs from. `given`: costRatio in all rounds, so that the same job
    decides alike everywhere. `measured`: fitted to what the run's rounds cost, so that decisions follow the
    backend, its cold starts and the learner's machine. Only with scaler `efficient`. Default: given."""

    entry_point: Annotated[str, Field(min_length=3, max_length=253)] | None = None
    """Scaler of your own as `module:Class`, a subclass of nitro_learner.scalers.Scaler. The module must be
    importable in the learner's image. Only with scaler `own`. Default: none."""

    settings: (
        Annotated[dict[str, Any], Field(max_length=64), FreeJson(levels=2), AfterValidator(with_floats)]
        | None
    ) = None
    """Keyword arguments of the class that entryPoint names, behind the job's spec: any JSON of at most 2
    levels of mappings and lists, settings itself the first, and of at most 124 KiB. The API server stores 1.0
    as 1; {$float: 1} arrives as 1.0 everywhere. Only with entryPoint. Default: none."""


class Scaling(GivenScaling):
    """The scaler and its range in a resolved job."""

    scaler: ScalerName
    min_actors: Actors
    max_actors: Actors
    initial_actors: Actors
    decay: Decay
    window: Window

    @property
    def record(self) -> ScalerRecord:
        """The record of the scaler with that name."""
        return RECORDS[self.scaler]

    @property
    def decider(self) -> str:
        """Who decides the number of actors, for people: the scaler's name, or the user's own class."""
        return self.entry_point or self.scaler

    @property
    def planned(self) -> list[int] | None:
        """The actors of round 1, 2, ..., the last entry for all later ones, where they are known before the
        run."""
        return {"constant": [self.initial_actors], "schedule": self.schedule, None: None}[self.record.plan]
