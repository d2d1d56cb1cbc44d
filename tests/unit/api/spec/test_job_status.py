"""Reading a status, which its author's code may have written: what is wrong is left out, the rest is kept."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nitro_api import load_job
from nitro_api.spec.learner_status import TrainingStatus
from nitro_api.spec.status import JobStatus

TIME = "2026-11-20T12:00:00.123456Z"


def test_a_wrong_field_is_left_out_and_the_others_are_kept() -> None:
    training = TrainingStatus.model_validate(
        {
            "round": 3,
            "boostingScore": 1e308,
            "rewardMean": -1e308,
            "requestedAt": "2026-11-20T12:00:00+99:99",
            "updatedAt": TIME,
            "envSteps": -1,
            "convexityRatio": 1e38,
            "newer": {"field": 1},
        }
    )
    assert training.to_dict() == {"round": 3, "updatedAt": TIME, "convexityRatio": 1e38}


def test_a_wrong_entry_of_a_list_is_left_out_and_a_wrong_field_in_an_entry() -> None:
    rounds = [{"round": 1, "score": 7}, {"round": -2}, {"score": 0.5}, 5, {"round": 4, "actors": 8}]
    status = JobStatus.model_validate(
        {
            "training": {"history": rounds},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Failed", "status": "Perhaps"}],
            "cost": "much",
            "phase": "Dancing",
        }
    )
    assert status.training is not None
    assert status.conditions is not None
    assert [entry.to_dict() for entry in status.training.history or []] == [
        {"round": 1},
        {"round": 4, "actors": 8},
    ]
    assert [condition.type for condition in status.conditions] == ["Ready"]
    assert (status.cost, status.phase) == (None, None)


@pytest.mark.parametrize("time", [TIME, "2026-11-20T12:00:00Z", "2026-11-20T12:00:00.1+14:00"])
def test_times_that_can_be_read_are_kept(time: str) -> None:
    assert TrainingStatus.model_validate({"updatedAt": time}).updated_at == time


@pytest.mark.parametrize(
    "time",
    ["2026-02-30T12:00:00Z", "2026-11-20T12:00:00", "2026-11-20T12:00:00+15:00", "now", TIME + "\n", 5],
)
def test_times_that_cannot_be_read_are_left_out(time: Any) -> None:
    assert TrainingStatus.model_validate({"updatedAt": time}).updated_at is None


def test_a_job_with_a_wrong_status_can_be_loaded() -> None:
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "a"},
        "spec": {"environment": {"id": "Hopper-v5"}},
        "status": {"phase": "Running", "training": {"boostingScore": 2, "round": 1}},
    }
    status = load_job(job).status
    assert status is not None
    assert status.to_dict() == {"phase": "Running", "training": {"round": 1}}


def test_a_status_that_is_no_mapping_is_empty() -> None:
    with pytest.raises(ValidationError):
        JobStatus.model_validate([1])


NAMES = st.sampled_from(
    ["training", "cost", "conditions", "history", "round", "score", "actors", "boostingScore", "rewardMean",
     "updatedAt", "policies", "sharing", "name", "agents", "toggles", "groups",
     "type", "status", "phase", "checkpoint", "requestedActors", "podSeconds", "message"]
)  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(TIME),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(NAMES, below, max_size=6),
)


@pytest.mark.slow
@given(st.dictionaries(NAMES, ANY, max_size=6))
def test_any_stored_status_is_read_within_the_limits(stored: dict[str, Any]) -> None:
    status = JobStatus.model_validate(stored)
    training = status.training or TrainingStatus()
    assert training.boosting_score is None or 0 <= training.boosting_score <= 1
    assert training.reward_mean is None or math.isfinite(training.reward_mean**2)
    assert JobStatus.model_validate(status.to_dict()) == status
