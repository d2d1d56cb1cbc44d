"""Scalers that need no measurement: a constant, a list, and Hydrozoa's doubling."""

from collections.abc import Sequence

from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler

_HYDROZOA_PERIOD = 10


def scheduled(schedule: Sequence[int], round: int) -> int:
    """The actors of round `round + 1`: schedule[round], or the last entry after the schedule's end."""
    return schedule[min(round, len(schedule) - 1)]


class FixedScaler(Scaler):
    """I_k = initialActors: the baseline."""

    def decide(self, outcome: RoundOutcome) -> Decision:  # noqa: ARG002 (nothing that happened matters)
        return Decision(self.initial)

    def foreseen(self, round: int) -> int:  # noqa: ARG002 (every round is alike)
        return self.initial


class ScheduleScaler(Scaler):
    """I_k = schedule[k - 1]; the last entry holds for the rounds after it.

    It repeats another run's spending, or tests a shape of spending. An experiment may lengthen the schedule
    of a run that has begun.
    """

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(self._after(outcome.round))

    def foreseen(self, round: int) -> int:
        return self._after(round)

    def resumed(self, round: int, actors: int) -> int:  # noqa: ARG002 (it follows from the schedule)
        return self._after(round)

    def _after(self, round: int) -> int:
        schedule = self.scaling.schedule
        assert schedule, "the job's validation asks for a schedule where the scaler is `schedule`"
        return scheduled(schedule, round)


class HydrozoaScaler(Scaler):
    """I_1 = I_min; I_{k+1} = min(2 I_k, I_max) after rounds 10, 20, ..., and I_k after the others.

    Guo et al., MLSys 2022; Nitro, section 8.3.
    """

    def decide(self, outcome: RoundOutcome) -> Decision:
        doubles = outcome.round % _HYDROZOA_PERIOD == 0
        return Decision(self.clip(2 * outcome.actors if doubles else outcome.actors))
