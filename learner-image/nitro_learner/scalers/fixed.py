"""The same number of actors in every round: the baseline."""

from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler


class FixedScaler(Scaler):
    """I_k = initialActors."""

    def decide(self, outcome: RoundOutcome) -> Decision:  # noqa: ARG002 (nothing that happened matters)
        return Decision(self.initial)
