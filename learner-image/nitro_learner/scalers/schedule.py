"""A given list of actors: to replay another run's spending, or to test a shape of it."""

from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler


class ScheduleScaler(Scaler):
    """I_k = schedule[k - 1]; the last entry holds for the rounds after it."""

    def decide(self, outcome: RoundOutcome) -> Decision:
        schedule = self.scaling.schedule
        assert schedule, "the job's validation asks for a schedule where the scaler is `schedule`"
        return Decision(schedule[min(outcome.round, len(schedule) - 1)])
