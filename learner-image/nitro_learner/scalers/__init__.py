"""Actor scalers: each decides how many actors sample the next round."""

from nitro_api import JobSpec
from nitro_learner.scalers.base import Decision, PolicyOutcome, RoundOutcome, Scaler, Wish
from nitro_learner.scalers.efficient import EfficientScaler
from nitro_learner.scalers.growth import GrowthScaler
from nitro_learner.scalers.kungfu import KungFuScaler
from nitro_learner.scalers.marless import MarlessRandomScaler, MarlessScaler
from nitro_learner.scalers.minionsrl import MinionsRLAdaptScaler, MinionsRLScaler
from nitro_learner.scalers.nitro import NitroScaler, RandomScoreScaler
from nitro_learner.scalers.own import OwnScaler
from nitro_learner.scalers.predetermined import FixedScaler, HydrozoaScaler, ScheduleScaler

SCALERS: dict[str, type[Scaler]] = {
    "nitro": NitroScaler,
    "fixed": FixedScaler,
    "schedule": ScheduleScaler,
    "random-score": RandomScoreScaler,
    "marless": MarlessScaler,
    "efficient": EfficientScaler,
    "growth": GrowthScaler,
    "kungfu": KungFuScaler,
    "hydrozoa": HydrozoaScaler,
    "minionsrl": MinionsRLScaler,
    "minionsrl-adapt": MinionsRLAdaptScaler,
    "own": OwnScaler,
}
"""By spec.scaling.scaler."""


def make(spec: JobSpec) -> Scaler:
    """The scaler of a resolved job. The control `random-score` is that of `nitro`, and where there are
    several agents that of `marless`.

    Raises:
        JobInvalid: it is the user's own, and cannot be made.
    """
    if spec.scaling.scaler == "random-score" and spec.algorithm.record.agents == "several":
        return MarlessRandomScaler(spec)
    return SCALERS[spec.scaling.scaler](spec)


__all__ = ["SCALERS", "Decision", "PolicyOutcome", "RoundOutcome", "Scaler", "Wish", "make"]
