"""status.policies and status.sharing as the learner reports them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nitro_api.spec.learner_status import MOST_AGENTS
from nitro_api.spec.sharing import Sharing
from nitro_api.spec.status import JobStatus
from nitro_learner.cluster.report_fields import PolicyStatus
from nitro_learner.training.round_report import PolicyReport
from nitro_learner.training.sharing.toggles import Regrouping

NAMES = ("a_0", "a_1", "a_2")
SHARED = Regrouping(
    number=1,
    round=12,
    shared=True,
    groups={"a_1": ("a_0", "a_1"), "a_2": ("a_2",)},
    fresh=frozenset(["a_1"]),
    reason="the returns' slope -0.0100 was below 0",
    version=13,
)
SEPARATE = Regrouping(
    2, 20, False, {name: (name,) for name in NAMES}, frozenset(NAMES), "returns fell again", 22
)


def alone(**values: Any) -> dict[str, PolicyReport]:
    return {name: PolicyReport(-61.23456, (name,), **values) for name in NAMES}


def test_a_single_agent_has_neither() -> None:
    status = PolicyStatus({})
    status.starting(None)
    status.played({"default": PolicyReport(1.0, ("agent",))})
    assert status.body() == {}


def test_policies_and_sharing_are_reported_from_the_first_round() -> None:
    status = PolicyStatus({})
    status.starting(Sharing(mode="dynamic"))
    assert status.body() == {"sharing": {"mode": "dynamic", "toggles": 0}}
    status.played(alone(convexity_ratio=1.5))
    assert status.body() == {
        "policies": [
            {"name": name, "agents": [name], "rewardMean": -61.235, "convexityRatio": 1.5} for name in NAMES
        ],
        "sharing": {"mode": "dynamic", "toggles": 0, "groups": 3, "shared": False},
    }


def test_a_toggle_is_reported_with_its_groups_and_reason() -> None:
    status = PolicyStatus({})
    status.starting(Sharing(mode="dynamic"))
    status.played(alone())
    status.regrouped(SHARED)
    assert status.body() == {
        "policies": [
            {"name": "a_1", "agents": ["a_0", "a_1"]},
            {"name": "a_2", "agents": ["a_2"], "rewardMean": -61.235},
        ],
        "sharing": {
            "mode": "dynamic",
            "toggles": 1,
            "groups": 2,
            "shared": True,
            "round": 12,
            "message": "Since round 13 agents share policies, because the returns' slope -0.0100 was below "
            "0: a_0, a_1; a_2.",
        },
    }
    status.regrouped(SEPARATE)
    sharing = status.body()["sharing"]
    assert (sharing["toggles"], sharing["groups"], sharing["shared"]) == (2, 3, False)
    assert sharing["message"] == "Since round 21 each agent has its own policy, because returns fell again."


def test_another_pod_goes_on_with_what_was_reported() -> None:
    first = PolicyStatus({})
    first.starting(Sharing(mode="dynamic"))
    first.regrouped(SHARED)
    again = PolicyStatus(JobStatus.model_validate(first.body()).to_dict())
    again.starting(Sharing(mode="dynamic"))
    assert again.body() == first.body()


@pytest.mark.parametrize("ratio", [math.nan, math.inf, 1e200, None])
def test_a_ratio_that_the_status_does_not_take_is_left_out(ratio: float | None) -> None:
    status = PolicyStatus({})
    status.played(alone(convexity_ratio=ratio))
    assert all("convexityRatio" not in policy for policy in status.body()["policies"])


def test_many_agents_stay_within_the_limits() -> None:
    many = tuple(f"a_{index}" for index in range(3 * MOST_AGENTS))
    status = PolicyStatus({})
    status.starting(Sharing(mode="always"))
    status.played({name: PolicyReport(1.0, (name,)) for name in many})
    status.regrouped(Regrouping(1, 1, True, {"a_0": many}, frozenset(["a_0"]), "why not", 2))
    body = status.body()
    kept = JobStatus.model_validate(body).to_dict()
    assert kept == body
    assert len(body["sharing"]["message"]) <= 1000
    assert body["policies"][0]["agents"] == list(many[:MOST_AGENTS])
