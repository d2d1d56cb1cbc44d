"""Every alert, firing and not firing, by `promtool test rules`; jobs of one name in several namespaces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_learner.run.metrics import RETRY_REASONS
from nitro_monitoring import files
from nitro_monitoring.alerts import ALERTS, JOB_ALERTS, Alert
from prometheus_support import promtool

ROOT = Path(__file__).parents[3]
RULES = ROOT / files.RULES
STEP = "15s"


@dataclass(frozen=True)
class Case:
    """Series from minute 0, 15 s apart, and who is alerted about at `at`: namespace -> the value as told."""

    alert: str
    at: str
    series: dict[str, str]
    fires: dict[str, str] = field(default_factory=dict)


def job(namespace: str, phase: str = "Running", **series: str) -> dict[str, str]:
    """Series of the job `hopper` of a namespace, with the labels that a scrape adds; "__" in a name begins a
    label: retries__reason__timeout.
    """
    of_job = f'namespace="{namespace}",job_name="hopper"'
    operator, learner = (
        'pod="operator-1",instance="10.0.0.1:8080"',
        'pod="learner-1",instance="10.0.0.2:9090"',
    )
    found = {f'nitro_job_status_phase{{{of_job},{operator},phase="{phase}"}}': "1x200"}
    for name, values in series.items():
        metric, *label = name.split("__")
        target = operator if metric.startswith("job_") else learner
        more = f',{label[0]}="{label[1]}"' if label else ""
        found[f"nitro_{metric}{{{of_job},{target}{more}}}"] = values
    return found


def operator(namespace: str, **series: str) -> dict[str, str]:
    """Series of the operator that is installed in a namespace."""
    labels = f'namespace="{namespace}",pod="operator-1",instance="10.0.0.1:8080"'
    return {f"nitro_operator_{name}{{{labels}}}": values for name, values in series.items()}


CASES = [
    Case(
        "NitroLearnerSilent",
        "10m",
        job("team", job_status_heartbeat_timestamp_seconds="1000x200")
        | job("rivals", job_status_heartbeat_timestamp_seconds="1000+15x200")
        | job("resting", "Suspended", job_status_heartbeat_timestamp_seconds="1000x200"),
        {"team": ""},
    ),
    Case(  # a pod that is not seen for a scrape or two says nothing yet
        "NitroLearnerSilent",
        "4m",
        job("team", job_status_heartbeat_timestamp_seconds="1000+15x7 1105x5 1300+15x200"),
    ),
    Case(
        "NitroJobNotStarting",
        "11m",
        job("team", "Starting") | job("rivals") | job("queued", "Pending") | job("ended", "Failed"),
        {"team": ""},
    ),
    Case(  # most of them are only slow
        "NitroJobNotStarting",
        "9m",
        job("team", "Starting"),
    ),
    Case(
        "NitroJobFailed",
        "2m",
        job("team", "Failed") | job("rivals") | job("done", "Succeeded") | job("new", "Starting"),
        {"team": ""},
    ),
    Case(  # one that is resumed starts again
        "NitroJobFailed",
        "20m",
        job("team", "Starting"),
    ),
    Case(
        "NitroActorsBelowGranted",
        "12m",
        job("team", job_status_actors_ready="5x200", job_status_actors_granted="8x200")
        | job("rivals", job_status_actors_ready="3 5 8 5 3 8x200", job_status_actors_granted="8x200")
        | job("resting", "Suspended", job_status_actors_ready="0x200", job_status_actors_granted="8x200")
        | job("new", job_status_actors_ready="0x200", job_status_actors_granted="0x200"),
        {"team": "62.5%"},
    ),
    Case(  # a grant that has just grown is not missed yet
        "NitroActorsBelowGranted",
        "12m",
        job("team", job_status_actors_ready="8x200", job_status_actors_granted="8x40 24x200"),
    ),
    Case(  # a silent learner keeps its grant, without pods
        "NitroActorsBelowGranted",
        "12m",
        job(
            "silent",
            job_status_actors_ready="0x200",
            job_status_actors_granted="8x200",
            job_status_heartbeat_timestamp_seconds="1000x200",
        )
        | job(
            "team",
            job_status_actors_ready="4x200",
            job_status_actors_granted="8x200",
            job_status_heartbeat_timestamp_seconds="1000+15x200",
        ),
        {"team": "50%"},
    ),
    Case(
        "NitroActorsPaidIdle",
        "50m",
        job(
            "team",
            actor_busy_seconds_total="0+15x300",
            job_status_pod_seconds_total="0+300x300",
            job_spec_actors_per_pod="1x300",
        )
        | job(  # four actors in a pod
            "rivals",
            actor_busy_seconds_total="0+120x300",
            job_status_pod_seconds_total="0+150x300",
            job_spec_actors_per_pod="4x300",
        ),
        {"team": "5%"},
    ),
    Case(  # nothing is paid
        "NitroActorsPaidIdle",
        "50m",
        job(
            "team",
            actor_busy_seconds_total="0x300",
            job_status_pod_seconds_total="100x300",
            job_spec_actors_per_pod="1x300",
        ),
    ),
    Case(  # pods that sleep exist, and are paid for the little that they request
        "NitroActorsPaidIdle",
        "50m",
        job(
            "team",
            actor_busy_seconds_total="0+30x300",
            job_status_pod_seconds_total="0+600x300",
            job_status_vcpu_seconds_total__state__awake="0+30x300",
            job_status_vcpu_seconds_total__state__asleep="0+15x300",
            job_status_pod_vcpu="0.5x300",
            job_spec_actors_per_pod="1x300",
        )
        | job(
            "rivals",
            actor_busy_seconds_total="0+30x300",
            job_status_pod_seconds_total="0+600x300",
            job_status_vcpu_seconds_total__state__awake="0+300x300",
            job_status_pod_vcpu="0.5x300",
            job_spec_actors_per_pod="1x300",
        ),
        {"rivals": "5%"},
    ),
    Case(
        "NitroWakesDeferred",
        "11m",
        job("team", job_status_actors_deferred="3x20 2x200")
        | job("rivals", job_status_actors_deferred="3x20 0x200"),
        {"team": "2"},
    ),
    Case(  # one that comes and goes is nothing to act on
        "NitroWakesDeferred",
        "30m",
        job("team", job_status_actors_deferred="3x3 0x2 3x3 0x2 3x3 0x2 3x200")
        | job("ended", "Failed", job_status_actors_deferred="3x200"),
        {"team": "3"},
    ),
    Case(
        "NitroRoundDeadlineMisses",
        "20m",
        job("team", round_deadline_misses_total="0x20 3x200")
        | job("rivals", round_deadline_misses_total="0x20 1x200"),
        {"team": "3"},
    ),
    Case(  # `increase` extrapolates two misses to more than two
        "NitroRoundDeadlineMisses",
        "20m7s",
        job("team", round_deadline_misses_total="5x21 6x20 7x200"),
    ),
    Case(  # one that is over is over
        "NitroRoundDeadlineMisses",
        "50m",
        job("team", round_deadline_misses_total="0x20 3x200"),
    ),
    Case(  # a restarted learner's counter begins anew
        "NitroRoundDeadlineMisses",
        "50m",
        job("team", round_deadline_misses_total="1000x150 0x60"),
    ),
    Case(
        "NitroRetryStorm",
        "16m",
        job(
            "team",
            actor_retries_total__reason__timeout="0+6x200",
            actor_retries_total__reason__busy="0+2x200",
            actor_slots_total="0+8x200",
        )
        | job("rivals", actor_retries_total__reason__timeout="0+1x200", actor_slots_total="0+8x200")
        | job("idle", actor_retries_total__reason__timeout="5x200", actor_slots_total="80x200"),
        {"team": "1"},
    ),
    Case(
        "NitroBudgetNearlySpent",
        "5m",
        job(
            "team",
            job_status_cost_dollars_total__component__learner="8x200",
            job_status_cost_dollars_total__component__actors="1.5x200",
            job_spec_budget_dollars="10x200",
        )
        | job(
            "rivals",
            job_status_cost_dollars_total__component__learner="5x200",
            job_spec_budget_dollars="10x200",
        )
        | job("rich", job_status_cost_dollars_total__component__learner="5000x200")
        | job(
            "ended",
            "Succeeded",
            job_status_cost_dollars_total__component__learner="10x200",
            job_spec_budget_dollars="10x200",
        ),
        {"team": "95%"},
    ),
    Case(
        "NitroRedisMemoryHigh",
        "5m",
        job("team", redis_memory_bytes="100 900x200", redis_memory_limit_bytes="1000x200")
        | job("rivals", redis_memory_bytes="100x200", redis_memory_limit_bytes="1000x200")
        | job("free", redis_memory_bytes="100x200", redis_memory_limit_bytes="0x200"),
        {"team": "90%"},
    ),
    Case(
        "NitroScoreConstant",
        "30m",
        job("team", convexity_ratio="1.25x200", boosting_score="1-0.01x90", round="0+1x200")
        | job("blind", boosting_score="0x200", round="0+1x200")
        | job("rivals", convexity_ratio="1+0.1x200", boosting_score="0.5x200", round="0+1x200")
        | job("waiting", convexity_ratio="1.25x200", boosting_score="0.5x200", round="3x200")
        | job("fixed", round="0+1x200"),
        {"team": "0", "blind": "0"},
    ),
    Case("NitroOperatorDown", "6m", job("team", round="1x200"), {"": ""}),
    Case("NitroOperatorDown", "6m", {"nitro_operator_resync_timestamp_seconds": "0+15x200"}),
    Case(  # one of two operators
        "NitroOperatorStuck",
        "5m",
        operator("one", resync_timestamp_seconds="0x200")
        | operator("two", resync_timestamp_seconds="0+15x200"),
        {"one": "5m 0s"},
    ),
    Case(
        "NitroReconcileErrors",
        "25m",
        operator("one", reconcile_errors_total="0+3x200", reconcile_duration_seconds_count="0+4x200")
        | operator("two", reconcile_errors_total="0+1x200", reconcile_duration_seconds_count="0+40x200"),
        {"one": "75%"},
    ),
]


def expected(alert: Alert, namespace: str, value: str) -> dict[str, Any]:
    labels = {"severity": alert.severity}
    if namespace:
        labels["namespace"] = namespace
    if namespace and alert in JOB_ALERTS:
        labels["job_name"] = "hopper"

    def told(text: str) -> str:
        text = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], text)
        return re.sub(r"{{ \$value[^}]*}}", value, text)

    annotations = {name: told(text) for name, text in alert.rule()["annotations"].items()}
    return {"exp_labels": labels, "exp_annotations": annotations}


def test_promtool_accepts_the_rules() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", RULES)


def test_every_alert_fires_and_stays_silent_in_its_cases(tmp_path: Path) -> None:
    """All cases in one run of promtool, which names the one that fails."""
    by_name = {alert.name: alert for alert in ALERTS}
    tests = [
        {
            "name": f"{case.alert} at {case.at} for {sorted(case.fires)}",
            "interval": STEP,
            "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
            "alert_rule_test": [
                {
                    "eval_time": case.at,
                    "alertname": case.alert,
                    "exp_alerts": [
                        expected(by_name[case.alert], namespace, value)
                        for namespace, value in case.fires.items()
                    ],
                }
            ],
        }
        for case in CASES
    ]
    document = {"rule_files": [str(RULES)], "evaluation_interval": STEP, "tests": tests}
    file = tmp_path / "alerts.test.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    promtool("test", "rules", file)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_both_cases(alert: Alert) -> None:
    own = [case for case in CASES if case.alert == alert.name]
    assert any(case.fires for case in own)
    assert any(_namespaces(case) - set(case.fires) or not case.fires for case in own)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_a_runbook(alert: Alert) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    section = re.search(rf"^### {alert.name}\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, f"docs/operations.md has no section {alert.name}"
    for part in ("Means", "Panel", "Command", "Do"):
        assert f"**{part}" in section[1], f"what it means, which panel, which command, what to do: no {part}"
    assert alert.rule()["annotations"]["runbook_url"] == f"docs/operations.md#{alert.name.lower()}"


def test_the_page_says_how_severe_each_alert_is() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    sentence = page.partition("The label `severity` is ")[2].partition(".\n")[0]
    told = re.findall(r"`(\w+)` for ([^`]+)", sentence)
    named = {name: severity for severity, names in told for name in re.findall(r"Nitro\w+", names)}
    assert {one.name: named.get(one.name, "warning") for one in ALERTS} == {
        one.name: one.severity for one in ALERTS
    }


def test_the_runbook_of_retries_has_every_reason() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.partition("### NitroRetryStorm\n")[2].partition("\n### ")[0]
    assert {reason for reason in RETRY_REASONS if f"`{reason}`" not in section} == set()


def _namespaces(case: Case) -> set[str]:
    return {found[1] for name in case.series if (found := re.search(r'namespace="(\w+)"', name))}
