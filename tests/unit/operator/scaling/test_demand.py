"""How many actors a job needs, from its spec and what its learner reports."""

from __future__ import annotations

import math

from nitro_api.pools.holding import Demand, PastRound
from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.observation.lifetimes import USUAL
from nitro_operator.scaling import demand
from operator_objects import make_view


class TestDemand:
    def training(self, requested: int | None, *actors: int) -> TrainingStatus:
        history = [{"round": n + 1, "actors": number} for n, number in enumerate(actors)]
        return TrainingStatus.model_validate({"requestedActors": requested, "history": history})

    def test_a_request_outside_the_range_counts_as_its_end(self) -> None:
        spec = make_view().spec
        assert demand.requested(spec, None) == 8
        assert demand.requested(spec, self.training(None)) == 8
        assert demand.requested(spec, self.training(100)) == 24
        assert demand.requested(spec, self.training(1)) == 4
        found = demand.demand_of(spec, self.training(5, 100, 1), 0.0)
        assert [one.actors for one in found.past] == [24, 4]

    def test_what_the_learner_reports_becomes_a_demand(self) -> None:
        """A learner of an older release reports no times: rounds then count as of a usual length."""
        spec = make_view().spec
        history = [
            {"round": 1, "actors": 8, "seconds": 3.5, "actorSeconds": 1.0},
            {"round": 2, "actors": 20, "seconds": 6.5, "actorSeconds": 2.0},
        ]
        training = TrainingStatus.model_validate({"round": 2, "requests": {"actors": 6}, "history": history})
        most = math.floor(24 * spec.scaling.decay**3)
        assert demand.demand_of(spec, training, 1.5) == Demand(
            6, 1.5, [PastRound(8, 3.5), PastRound(20, 6.5)], 1.5, 4, most
        )
        old = demand.demand_of(spec, self.training(6, 8), 0.0)
        assert (old.past, old.actor_seconds) == ([PastRound(8, demand.ROUND_SECONDS)], 0.0)

    def test_the_job_s_hold_decides_how_long(self) -> None:
        training = self.training(4, 20)
        for hold, after, expected in (("auto", 30, 20), (10, 30, 4), (40, 30, 20), (0, 0, 4)):
            spec = make_view(scaling={"scaler": "nitro", "minActors": 4, "maxActors": 24, "hold": hold}).spec
            assert demand.holding(spec, training, after, 20, USUAL).actors == expected, hold

    def test_no_score_counts_as_the_highest(self) -> None:
        assert demand.score(None) == 1
        assert demand.score(TrainingStatus(boosting_score=0.25)) == 0.25
