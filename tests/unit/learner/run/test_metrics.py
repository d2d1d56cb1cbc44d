"""The learner's Prometheus series: names, bounded labels, and what a restart does to them."""

from __future__ import annotations

import ast
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest

import nitro_learner
from nitro_api.costs.prices import RoundCost
from nitro_learner.run.metrics import ACTOR_STATES, COMPONENTS, RETRY_REASONS, TRACKERS, LearnerMetrics
from nitro_learner.sampling.drop_reasons import DROP_REASONS
from nitro_learner.training.costs import ActorWork
from nitro_learner.training.round_report import STAGES, Outcome
from report_support import report

KNOWN = {
    "state": ACTOR_STATES,
    "stage": STAGES,
    "component": COMPONENTS,
    "tracker": TRACKERS,
    "reason": (*RETRY_REASONS, *DROP_REASONS),
}


def _value(metrics: LearnerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"namespace": "ml", "job_name": "hopper", **labels})


def _samples(metrics: LearnerMetrics) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in metrics.registry.collect():
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def test_every_series_has_the_job_and_labels_of_known_values() -> None:
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    metrics.on_run_started(round=0, rounds=5, history=[])
    metrics.on_round_requested(round=1, actors=8)
    seen = {"dropped": {"duplicate": 2}, "retried": {"timeout": 1}, "work": ActorWork(70.0, 9, 1)}
    metrics.on_round_done(report(1, reward_std=2.5, **seen))
    for _, labels, _ in _samples(metrics):
        assert (labels.pop("namespace"), labels.pop("job_name")) == ("ml", "hopper")
        labels.pop("le", None)
        for label, value in labels.items():
            assert value in KNOWN[label]
    assert _value(metrics, "nitro_episode_reward_mean") == 20.0
    assert _value(metrics, "nitro_episode_reward_std") == 2.5
    assert _value(metrics, "nitro_env_steps_total") == 4096
    assert _value(metrics, "nitro_actor_slots_total") == 8
    assert _value(metrics, "nitro_actor_invocations_total") == 9
    assert _value(metrics, "nitro_actor_invocations_estimated_total") == 1
    assert _value(metrics, "nitro_actor_retries_total", reason="timeout") == 1
    assert _value(metrics, "nitro_round_actors", state="requested") == 12
    assert _value(metrics, "nitro_round_actors", state="succeeded") == 8
    assert _value(metrics, "nitro_fragments_dropped_total", reason="duplicate") == 2
    assert _value(metrics, "nitro_round_duration_seconds_sum", stage="update") == 0.7
    assert _value(metrics, "nitro_job_cost_dollars_total", component="actors") == 0.0005


def test_slots_succeed_that_were_learned_from() -> None:
    """An off-policy round goes on without half of its slots, and loses slots of earlier rounds as well."""
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    metrics.on_round_done(report(1, actors=2, learned=1, lost=5))
    assert _value(metrics, "nitro_round_actors", state="succeeded") == 1
    assert _value(metrics, "nitro_round_actors", state="lost") == 5


def test_rollouts_that_go_on_in_the_next_round_are_counted_once() -> None:
    """An off-policy round of eight actors ends with four rollouts. With eight slots the alert NitroRetryStorm
    would see half of its retries."""
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    for number in (1, 2):
        metrics.on_round_done(
            report(number, actors=8, learned=4, retried={"timeout": 4}, dropped={"stale": 1})
        )
    assert _value(metrics, "nitro_actor_retries_total", reason="timeout") == 8
    assert _value(metrics, "nitro_actor_slots_total") == 10, "those that were given up are over, too"
    assert _value(metrics, "nitro_actor_slots_ready_total") == 8


def test_rollouts_that_waited_or_were_lost_had_no_ready_actor() -> None:
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    metrics.on_round_done(report(1, actors=8, learned=7, lost=1, late=2))
    assert _value(metrics, "nitro_actor_slots_total") == 8
    assert _value(metrics, "nitro_actor_slots_ready_total") == 5


def test_no_series_comes_with_a_round_that_was_not_there_before() -> None:
    """`increase` does not see a counter's step from nothing to a number."""
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    metrics.on_run_started(round=0, rounds=5, history=[])
    counters = {line for line in generate_latest(metrics.registry).decode().splitlines() if "_total{" in line}
    before = {line.rpartition(" ")[0] for line in counters}
    metrics.on_round_done(report(1, dropped={"truncated": 2}, retried={"busy": 1}, deadline_misses=3))
    after = {line for line in generate_latest(metrics.registry).decode().splitlines() if "_total{" in line}
    assert {line.rpartition(" ")[0] for line in after} == before


def test_a_restart_resets_counters_except_the_cost() -> None:
    first = LearnerMetrics("ml", "hopper", begun=False)
    first.on_run_started(round=0, rounds=5, history=[])
    for number in (1, 2, 3):
        first.on_round_done(report(number))
    again = LearnerMetrics("ml", "hopper", begun=True)
    again.on_run_started(round=2, rounds=5, history=[report(1).row(), report(2).row()])
    assert _value(again, "nitro_env_steps_total") == 0
    assert _value(again, "nitro_actor_cold_starts_total") == 0
    # Round 3 was paid twice: the journal goes on, and so does the series, never to a smaller number.
    assert _value(again, "nitro_job_cost_dollars_total", component="learner") is None
    again.on_round_done(report(3, cost_learner=0.004))
    assert _value(again, "nitro_env_steps_total") == 4096
    before = _value(first, "nitro_job_cost_dollars_total", component="learner")
    after = _value(again, "nitro_job_cost_dollars_total", component="learner")
    assert before == pytest.approx(0.003)
    assert after == pytest.approx(0.004)


def test_a_restart_before_the_first_checkpoint_counts_nothing_again() -> None:
    """The run begins anew, without a history, but the ledger has what was paid."""
    metrics = LearnerMetrics("ml", "hopper", begun=True)
    metrics.on_run_started(round=0, rounds=5, history=[])
    assert _value(metrics, "nitro_job_cost_dollars_total", component="learner") is None, "0 would be a reset"
    metrics.on_round_done(report(1, work=ActorWork(70.0, 9, 1), cost_learner=0.009))
    assert _value(metrics, "nitro_env_steps_total") == 4096
    assert _value(metrics, "nitro_actor_busy_seconds_total") == 0
    assert _value(metrics, "nitro_job_cost_dollars_total", component="learner") == 0.009
    metrics.on_round_done(report(2, work=ActorWork(80.0, 12, 1)))
    assert _value(metrics, "nitro_actor_busy_seconds_total") == 10
    assert _value(metrics, "nitro_actor_invocations_total") == 3


def test_a_ratio_that_only_sharing_asked_for_is_not_shown() -> None:
    """It would stay until the next toggle, like that of a detector which always finds the same."""
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    metrics.on_round_done(report(1, convexity_ratio=1.25, ratio_wanted=False))
    assert _value(metrics, "nitro_convexity_ratio") is None
    metrics.on_round_done(report(2, convexity_ratio=1.25))
    assert _value(metrics, "nitro_convexity_ratio") == 1.25


def test_what_is_billed_after_the_last_round_counts() -> None:
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    metrics.on_round_done(report(1, work=ActorWork(70.0, 9, 1), cost_actors=0.001))
    work = ActorWork(76.0, 11, 1)  # an evaluation
    metrics.on_run_ended(Outcome("RoundsDone", "done", True, 1, RoundCost(0.0, 0.003), 0.0, work=work))
    assert _value(metrics, "nitro_actor_invocations_total") == 11
    assert _value(metrics, "nitro_actor_busy_seconds_total") == 76
    assert _value(metrics, "nitro_job_cost_dollars_total", component="actors") == pytest.approx(0.003)


def test_the_final_evaluation_is_the_newest() -> None:
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    metrics.on_round_done(report(1))
    ended = Outcome("RoundsDone", "done", True, 1, RoundCost(0.0, 0.0), 0.0, evaluation=(40.0, 50.0))
    metrics.on_run_ended(ended)
    assert _value(metrics, "nitro_evaluation_reward_mean") == 45.0
    assert _value(metrics, "nitro_evaluation_reward_std") == 5.0


def test_a_failed_detector_is_counted_and_leaves_the_last_ratio() -> None:
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    metrics.on_run_started(round=0, rounds=5, history=[])
    metrics.on_round_done(report(1, detector_seconds=0.1))
    metrics.on_round_done(report(2, detector_seconds=0.1, detector_failed=True, convexity_ratio=None))
    assert _value(metrics, "nitro_detector_failures_total") == 1
    assert _value(metrics, "nitro_convexity_ratio") == 1.25


def test_all_reasons_in_the_code_have_a_label() -> None:
    """A reason that is not in the lists would be a series that appears with its first number."""
    drops, retries = set(), set()
    for path in Path(nitro_learner.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name("FragmentRefused" | "ResultRefused"), args=[reason, *_]):
                    drops |= _texts(reason)
                case ast.Call(func=ast.Name("RetryableError"), args=[reason, *_]):
                    retries |= _texts(reason)
                case ast.Call(func=ast.Attribute(attr="_note"), args=[_, reason, *_]):
                    retries |= _texts(reason)
                case ast.Assign(targets=[ast.Name("_REASONS" | "_CODES" | "_WORK_CODES")]):
                    retries |= _texts(node.value)
                case ast.Assign(targets=[ast.Name("reason")], value=ast.Constant() as reason):
                    retries |= _texts(reason)
                case ast.Assign(targets=[ast.Name("_THROTTLES")], value=ast.Dict(values=entries)):
                    retries |= {text for entry in entries for text in _texts(entry.elts[0])}
                case ast.AugAssign(target=ast.Subscript(value=ast.Attribute(attr="retries"))):
                    retries |= _texts(node.target)
    assert drops >= {"duplicate", "garbage"}, "the search finds nothing any more"
    assert retries >= {"timeout", "missing", "cache"}, "the search finds nothing any more"
    assert drops <= set(DROP_REASONS), "add the new ones to nitro_learner.sampling.drop_reasons"
    assert retries <= set(RETRY_REASONS), "add the new ones to nitro_learner.run.metrics"


def _texts(node: ast.AST) -> set[str]:
    found = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return {text for text in found if isinstance(text, str)}


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_metrics_are_served_on_both_ip_versions(host: str) -> None:
    port = LearnerMetrics("ml", "hopper", begun=False).serve(0)
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
        assert b"nitro_job_cost_dollars" in answer.read()


def test_a_port_that_is_taken_is_said() -> None:
    metrics = LearnerMetrics("ml", "hopper", begun=False)
    with pytest.raises(OSError, match="in use"):
        metrics.serve(metrics.serve(0))
