"""Scoring: a scaler's needs are measured and nothing else, and what could not be measured is said."""

from typing import Any

import pytest

from learner_support import HOPPER, fragment, job, learner_of
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner import scalers
from nitro_learner.backends.cache.memory_cache import MemoryCache
from nitro_learner.training.compute import Compute
from nitro_learner.training.listeners import Listeners
from nitro_learner.training.round_report import Listener, PolicyReport, RoundReport
from nitro_learner.training.scoring import Scoring
from report_support import report

CURVATURE = {"convexity_ratio", "lambda_min", "lambda_max"}
NOISE = {"gradient_signal", "gradient_noise", "gradient_snr"}
EMPTY = dict.fromkeys(CURVATURE | NOISE)


class RecordingListener(Listener):
    def __init__(self) -> None:
        self.reports: list[RoundReport] = []

    def on_round_done(self, report: RoundReport) -> None:
        self.reports.append(report)


async def score(fragments: int, **scaling: Any) -> RoundReport:
    """The report of one round that so many slots sampled."""
    chosen = {"scaling__minActors": 2, "environment__rolloutLength": 64, "network__hiddenSizes": [8]}
    spec = job("paper", **chosen | {f"scaling__{name}": value for name, value in scaling.items()}).spec
    algorithm, listener = learner_of(spec, HOPPER), RecordingListener()
    updates = algorithm.update([fragment(slot) for slot in range(fragments)], 1)
    with Compute() as compute:
        scoring = Scoring(spec, scalers.make(spec), compute, MemoryCache("run"), Listeners([listener]))
        assert await scoring.settle() is None, "nothing to score yet"
        policies = {DEFAULT_POLICY: PolicyReport(None)}
        scoring.measure(report(1, **EMPTY, boosting_score=None, policies=policies), updates)
        assert scoring.pending
        actors = await scoring.settle()
        assert not scoring.pending
    (done,) = listener.reports
    assert done.next_actors == actors
    return done


@pytest.mark.parametrize(
    ("scaling", "measured"),
    [
        ({}, CURVATURE),
        ({"mode": "lambda-min"}, CURVATURE),
        ({"mode": "noise"}, NOISE),
        ({"mode": "explained-variance"}, set()),
        ({"scaler": "random-score", "mode": "noise"}, NOISE),
        ({"scaler": "kungfu"}, NOISE),
        ({"scaler": "efficient"}, NOISE),
        ({"scaler": "hydrozoa"}, set()),
        ({"scaler": "growth"}, set()),
        ({"scaler": "fixed"}, set()),
    ],
    ids=lambda value: str(sorted(value.items() if isinstance(value, dict) else value)),
)
async def test_only_the_statistic_that_the_scaler_needs_is_measured(
    scaling: dict[str, Any], measured: set[str]
) -> None:
    done = await score(2, **scaling)
    assert {name for name in CURVATURE | NOISE if getattr(done, name) is not None} == measured
    assert (done.counters.detector_seconds is not None) == bool(measured)
    assert not done.counters.detector_failed
    scored = scaling.get("scaler", "nitro") in ("nitro", "random-score")
    assert done.boosting_score == (0.96 if scored else None)


async def test_a_failed_measurement_is_reported_and_never_boosts() -> None:
    done = await score(1, mode="noise", minActors=1)
    assert done.gradient_snr is None
    assert done.counters.detector_failed
    assert done.boosting_score == 0.0
    assert done.next_actors == 1


async def test_a_round_with_too_few_transitions_is_a_failed_measurement() -> None:
    """An off-policy round that its deadline cut: one fragment where minActors is 2."""
    done = await score(1)
    assert done.counters.detector_failed
    assert done.boosting_score == 0.0
    assert done.next_actors == 2
    unasked = await score(1, mode="explained-variance")
    assert not unasked.counters.detector_failed
