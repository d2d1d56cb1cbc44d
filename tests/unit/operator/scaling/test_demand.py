"""How many actors a job needs, from its spec and what its learner reports."""

from __future__ import annotations

from nitro_api.spec.status import TrainingStatus
from nitro_operator.scaling import demand
from operator_objects import make_view


class TestForecast:
    def training(self, requested: int | None, *actors: int) -> TrainingStatus:
        history = [{"round": n + 1, "actors": number} for n, number in enumerate(actors)]
        return TrainingStatus.model_validate({"requestedActors": requested, "history": history})

    def test_the_forecast_is_the_larger_of_the_last_two_requests_within_the_range(self) -> None:
        spec = make_view().spec
        assert demand.forecast(spec, None) == 8
        assert demand.forecast(spec, self.training(None)) == 8
        assert demand.forecast(spec, self.training(5, 12)) == 12
        assert demand.forecast(spec, self.training(12, 5)) == 12
        assert demand.forecast(spec, self.training(4, 20, 6)) == 6
        assert demand.forecast(spec, self.training(100, 5)) == 24
        assert demand.forecast(spec, self.training(1)) == 4

    def test_no_score_counts_as_the_highest(self) -> None:
        assert demand.score(None) == 1
        assert demand.score(TrainingStatus(boosting_score=0.25)) == 0.25
