"""The learner's Prometheus series: names, labels, and totals that go on after a resume."""

from prometheus_client import generate_latest

from nitro_learner.metrics import LearnerMetrics
from report_support import report


def _value(metrics: LearnerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"namespace": "ml", "job_name": "hopper", **labels})


def test_every_series_has_the_job_and_nothing_that_grows() -> None:
    metrics = LearnerMetrics("ml", "hopper")
    metrics.started(round=0, rounds=5, history=[])
    metrics.requested(round=1, actors=8)
    metrics.round_done(report(1, dropped={"duplicate": 2}))
    lines = [
        line for line in generate_latest(metrics.registry).decode().splitlines() if not line.startswith("#")
    ]
    assert all('job_name="hopper"' in line and 'namespace="ml"' in line for line in lines)
    allowed = {"job_name", "namespace", "state", "stage", "component", "reason", "le"}
    for line in lines:
        assert {
            part.split("=")[0] for part in line[line.index("{") + 1 : line.index("}")].split(",")
        } <= allowed
    assert _value(metrics, "nitro_episode_reward_mean") == 20.0
    assert _value(metrics, "nitro_env_steps_total") == 4096
    assert _value(metrics, "nitro_round_actors", state="requested") == 8
    assert _value(metrics, "nitro_round_actors", state="succeeded") == 8
    assert _value(metrics, "nitro_fragments_dropped_total", reason="duplicate") == 2
    assert _value(metrics, "nitro_round_duration_seconds_sum", stage="update") == 0.7
    assert _value(metrics, "nitro_job_cost_dollars_total", component="actors") == 0.0005


def test_totals_go_on_after_a_resume() -> None:
    metrics = LearnerMetrics("ml", "hopper")
    metrics.started(round=2, rounds=5, history=[report(1).row(), report(2).row()])
    assert _value(metrics, "nitro_env_steps_total") == 8192
    metrics.round_done(report(3))
    assert _value(metrics, "nitro_env_steps_total") == 3 * 4096
    assert _value(metrics, "nitro_actor_cold_starts_total") == 6
    cost = _value(metrics, "nitro_job_cost_dollars_total", component="learner")
    assert cost is not None
    assert abs(cost - 0.003) < 1e-12


def test_a_failed_detector_is_counted_and_leaves_the_last_ratio() -> None:
    metrics = LearnerMetrics("ml", "hopper")
    metrics.started(round=0, rounds=5, history=[])
    metrics.round_done(report(1, detector_seconds=0.1))
    metrics.round_done(report(2, detector_seconds=0.1, convexity_ratio=None))
    assert _value(metrics, "nitro_detector_failures_total") == 1
    assert _value(metrics, "nitro_convexity_ratio") == 1.25
