"""Actor scalers: each decides how many actors sample the next round."""

from nitro_api import JobSpec
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler
from nitro_learner.scalers.kungfu import KungFuScaler
from nitro_learner.scalers.minionsrl import MinionsRLScaler
from nitro_learner.scalers.minionsrl_adapt import MinionsRLAdaptScaler
from nitro_learner.scalers.nitro import NitroScaler
from nitro_learner.scalers.predetermined import FixedScaler, HydrozoaScaler, ScheduleScaler
from nitro_learner.scalers.random_score import RandomScoreScaler

SCALERS: dict[str, type[Scaler]] = {
    "nitro": NitroScaler,
    "fixed": FixedScaler,
    "schedule": ScheduleScaler,
    "random-score": RandomScoreScaler,
    "kungfu": KungFuScaler,
    "hydrozoa": HydrozoaScaler,
    "minionsrl": MinionsRLScaler,
    "minionsrl-adapt": MinionsRLAdaptScaler,
}
"""By spec.scaling.scaler."""


def make(spec: JobSpec) -> Scaler:
    """The scaler of a resolved job."""
    return SCALERS[spec.scaling.scaler](spec)


__all__ = ["SCALERS", "Decision", "RoundOutcome", "Scaler", "make"]
