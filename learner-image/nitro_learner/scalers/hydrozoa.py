"""Hydrozoa's scaler: twice the actors every ten rounds (Guo et al., MLSys 2022; Nitro, section 8.3)."""

from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler

_PERIOD = 10


class HydrozoaScaler(Scaler):
    """I_1 = I_min; I_{k+1} = min(2 I_k, I_max) after rounds 10, 20, ..., and I_k after the others."""

    def decide(self, outcome: RoundOutcome) -> Decision:
        doubles = outcome.round % _PERIOD == 0
        return Decision(self.clip(2 * outcome.actors if doubles else outcome.actors))
