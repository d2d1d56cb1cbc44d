"""Actor scalers: `make` builds the one a job names."""

from nitro_api import JobSpec
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler
from nitro_learner.scalers.fixed import FixedScaler
from nitro_learner.scalers.hydrozoa import HydrozoaScaler
from nitro_learner.scalers.kungfu import KungFuScaler
from nitro_learner.scalers.minionsrl import MinionsRLScaler
from nitro_learner.scalers.minionsrl_adapt import MinionsRLAdaptScaler
from nitro_learner.scalers.nitro import NitroScaler
from nitro_learner.scalers.random_score import RandomScoreScaler
from nitro_learner.scalers.schedule import ScheduleScaler

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
