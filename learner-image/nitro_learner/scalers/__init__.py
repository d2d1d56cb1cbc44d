"""Actor scalers: `make` builds the one a job names."""

from nitro_api.scaling import Scaling
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler
from nitro_learner.scalers.fixed import FixedScaler
from nitro_learner.scalers.nitro import NitroScaler
from nitro_learner.scalers.random_score import RandomScoreScaler
from nitro_learner.scalers.schedule import ScheduleScaler

SCALERS: dict[str, type[Scaler]] = {
    "nitro": NitroScaler,
    "fixed": FixedScaler,
    "schedule": ScheduleScaler,
    "random-score": RandomScoreScaler,
}
"""By spec.scaling.scaler."""


def make(scaling: Scaling, seed: int) -> Scaler:
    """The scaler of a resolved job: `spec.scaling` and `spec.seed`."""
    return SCALERS[scaling.scaler](scaling, seed)


__all__ = ["SCALERS", "Decision", "RoundOutcome", "Scaler", "make"]
