"""A status may hold anything: nothing of it raises, or gets a job more than it may have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.observation import reported
from nitro_operator.observation.heartbeat import Heartbeat
from nitro_operator.observation.lifetimes import LONGEST_SECONDS, USUAL, PodLifetimes
from nitro_operator.observation.metering import PodMeter
from nitro_operator.observation.observed import Observed
from nitro_operator.reconcile.memory import JobMemory
from nitro_operator.scaling import demand
from nitro_operator.status import document
from nitro_operator.status.conditions import MESSAGE_LENGTH, Condition, news, to_status
from nitro_operator.status.difference import difference
from nitro_operator.status.phase import phase_of, seconds_left
from operator_objects import CONFIG, make_job, make_view

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
FIELDS = sorted({field.alias or name for name, field in TrainingStatus.model_fields.items()})
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": SCALARS,
        "startTime": SCALARS,
        "completionTime": SCALARS,
        "training": st.dictionaries(st.sampled_from(FIELDS), JSON) | JSON,
        "actors": st.dictionaries(st.sampled_from(["requested", "granted", "ready", "podSeconds"]), JSON)
        | JSON,
        "cost": JSON,
        "checkpoint": st.none() | st.dictionaries(st.text(), JSON),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["Failed", "Complete", "Ready", "Suspended"]) | st.text()},
                optional=dict.fromkeys(("status", "reason", "lastTransitionTime"), SCALARS),
            )
        ),
    },
)


@pytest.mark.slow
@given(STATUSES)
@example(found={"training": 1})
@example(found={"training": {"round": 1, "rolloutLength": 256, "envsPerActor": "2"}})
def test_any_status_can_be_read_scaled_and_published(found: Any) -> None:
    job = make_job(found, activeDeadlineSeconds=3600, ttlSecondsAfterFinished=60)
    spec = make_view().spec
    training = reported.training(job)
    scaling_ = spec.scaling
    holding_ = demand.holding(spec, training, 0.0, scaling_.max_actors, USUAL).actors
    assert scaling_.min_actors <= demand.requested(spec, training) <= scaling_.max_actors
    assert scaling_.min_actors <= holding_ <= scaling_.max_actors
    assert 0 <= demand.score(training) <= 1
    assert reported.waiting_since(job, NOW) <= NOW
    meter = PodMeter.restored(job, [], NOW)
    assert 0 <= meter.total <= reported.MOST_POD_SECONDS
    Heartbeat().see(job, Observed(), 0.0)
    lifetimes = PodLifetimes.restored(job, [], NOW)
    assert 0 <= lifetimes.times.start <= LONGEST_SECONDS
    assert 0 <= lifetimes.times.drain <= LONGEST_SECONDS
    memory = JobMemory("uid", meter, lifetimes)
    memory.read(job, CONFIG)
    memory.requests.see(job, 0.0)
    judgement = phase_of(job, Observed(), None, NOW)
    left = seconds_left(job, NOW)
    assert left is not None
    assert left <= 3600
    situation = document.Situation(judgement, Observed(), memory.view)
    written = document.build(situation, job, NOW)
    difference(written, job)
    news(document.conditions(situation), reported.status(job).get("conditions") or [])
    for name in ("startTime", "completionTime"):
        assert name not in written or reported.moment(written[name]) is not None


@pytest.mark.parametrize(
    ("suspended", "changed", "since"),
    [
        ("False", "2026-01-01T00:00:07Z", "2026-01-01T00:00:00Z"),  # never suspended
        ("False", "2026-01-01T08:00:00Z", "2026-01-01T08:00:00Z"),  # resumed
        ("False", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),  # as no operator writes it
        ("True", "2026-01-01T08:00:00Z", "2026-01-02T00:00:00Z"),  # resumed, and not yet published
    ],
)
def test_a_job_waits_since_its_creation_or_since_it_was_resumed(
    suspended: str, changed: str, since: str
) -> None:
    conditions = [
        {"type": "Suspended", "status": suspended, "lastTransitionTime": changed},
        {"type": "Complete", "status": "False", "lastTransitionTime": "2026-01-01T00:00:07Z"},
    ]
    found = reported.waiting_since(make_job({"conditions": conditions}), NOW)
    assert found == datetime.fromisoformat(since)


@pytest.mark.parametrize(
    ("claimed", "meant"),
    [(1e308, 1.0), (-1e308, 1.0), (1.0, 1.0), (0.25, 0.25), (0.0, 0.0), (None, 1.0)],
)
def test_a_score_that_is_not_from_zero_to_one_counts_as_none(claimed: float | None, meant: float) -> None:
    job = make_job({"training": {"boostingScore": claimed, "round": 1}})
    assert demand.score(reported.training(job)) == meant


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00+99:99", "0000-01-01T00:00:00Z", "2026-01-01T23:59:60Z", "", None, 3, ["x"]]
)
def test_an_invalid_time_is_read_as_none_and_replaced(text: Any) -> None:
    assert reported.moment(text) is None
    job = make_job({"startTime": text}, activeDeadlineSeconds=3600)
    assert seconds_left(job, NOW) == 3600


def test_an_implausible_start_time_does_not_extend_the_deadline() -> None:
    made = NOW - timedelta(seconds=600)

    def left(start: str) -> float | None:
        job = make_job({"startTime": start}, activeDeadlineSeconds=3600)
        job["metadata"]["creationTimestamp"] = made.isoformat()
        return seconds_left(job, NOW)

    assert left("0001-01-01T00:00:00Z") == 3000
    assert left("9999-12-31T23:59:59Z") == 3600


def test_a_long_message_is_cut_to_the_limit_of_the_status() -> None:
    long = Condition("ActorsReady", False, "ActorsSilent", "x" * MESSAGE_LENGTH + " remedy")
    (written,) = to_status([long], [], 1, "2026-01-01T00:00:00Z")
    assert len(written["message"]) <= MESSAGE_LENGTH
    assert written["message"].endswith(" remedy")
