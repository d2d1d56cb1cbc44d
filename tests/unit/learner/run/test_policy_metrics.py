"""The series of policies, and what sharing does to them."""

from __future__ import annotations

from nitro_learner.run.metrics import LearnerMetrics
from nitro_learner.training.round_report import PolicyReport
from nitro_learner.training.sharing.toggles import Regrouping
from report_support import report

ALONE = {name: PolicyReport(-60.0, (name,), score=0.5, stats={"kl": 0.1}) for name in ("a_0", "a_1", "a_2")}


def regrouping(number: int, shared: bool, groups: dict[str, tuple[str, ...]]) -> Regrouping:
    return Regrouping(number, 7, shared, groups, frozenset(groups), "returns fall", 8)


def value(metrics: LearnerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"namespace": "ml", "job_name": "spread", **labels})


def agents(metrics: LearnerMetrics) -> dict[str, float]:
    """Agents by policy."""
    found = metrics.registry.collect()
    samples = [sample for family in found for sample in family.samples]
    return {one.labels["policy"]: one.value for one in samples if one.name == "nitro_policy_agents"}


def test_a_toggle_changes_the_groups_and_ends_the_series_of_policies_that_are_gone() -> None:
    metrics = LearnerMetrics("ml", "spread", begun=False)
    metrics.on_run_started(round=0, rounds=5, history=[])
    assert value(metrics, "nitro_sharing_toggles_total") == 0
    metrics.on_round_done(report(1, policies=ALONE))
    assert agents(metrics) == {"a_0": 1, "a_1": 1, "a_2": 1}
    assert value(metrics, "nitro_sharing_state") == 0
    assert value(metrics, "nitro_policy_boosting_score", policy="a_1") == 0.5

    metrics.on_policies_regrouped(regrouping(1, True, {"a_0": ("a_0", "a_1"), "a_2": ("a_2",)}))
    assert agents(metrics) == {"a_0": 2, "a_2": 1}
    assert value(metrics, "nitro_sharing_state") == 1
    assert value(metrics, "nitro_sharing_groups") == 2
    assert value(metrics, "nitro_sharing_toggles_total") == 1
    assert value(metrics, "nitro_policy_kl", policy="a_1") is None
    assert value(metrics, "nitro_policy_kl", policy="a_2") == 0.1

    metrics.on_policies_regrouped(regrouping(2, False, {name: (name,) for name in ALONE}))
    assert value(metrics, "nitro_sharing_state") == 0
    assert value(metrics, "nitro_sharing_groups") == 3


def test_a_single_agent_has_no_groups() -> None:
    metrics = LearnerMetrics("ml", "spread", begun=False)
    metrics.on_run_started(round=0, rounds=5, history=[])
    metrics.on_round_done(report(1, policies={"default": PolicyReport(1.0, ("agent",))}))
    assert agents(metrics) == {}
    assert value(metrics, "nitro_sharing_groups") is None
    assert value(metrics, "nitro_policy_episode_reward_mean", policy="default") == 1.0
