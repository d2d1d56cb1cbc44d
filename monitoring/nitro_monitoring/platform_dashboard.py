"""The dashboard of the whole platform, for whoever runs it: each row is a question.

Everything here comes from the operator, so jobs whose learner is away are in it as well.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from nitro_monitoring import job_dashboard
from nitro_monitoring.panels import (
    GREEN,
    RED,
    WIDTH,
    WINDOW,
    YELLOW,
    Column,
    Query,
    board,
    choice,
    firing,
    graph,
    listing,
    number,
    row,
    window,
)

UID = "nitro-platform"
_JOBS = '{namespace=~"$namespace"}'
_BY_JOB = "by (namespace, job_name)"
_WHO = "{{namespace}}/{{job_name}}"


def platform_dashboard() -> builders.Dashboard:
    """The dashboard of the chosen namespaces. Panels about the operator itself ignore the choice."""
    found = board("Nitro / Platform", UID, "All training jobs, the actors they share, and the operator.")
    found.with_variable(
        choice(
            "namespace",
            "Namespace",
            "label_values(nitro_job_info, namespace)",
            several=True,
            all_value=".*",
        )
    )
    found.with_variable(window())
    found.annotation(firing('ALERTS{alertname=~"Nitro.*",alertstate="firing"}'))
    for part in (_jobs, _actors, _cost, _speed, _operator):
        part(found)
    return found


def _jobs(found: builders.Dashboard) -> None:
    found.with_row(row("What runs, and what waits?"))
    for phase, description, steps in (
        ("Running", "Jobs whose learner's pod runs.", ((None, GREEN),)),
        (
            "Pending",
            "Jobs that wait: for actors of the platform, or for what their condition names.",
            ((None, GREEN), (1, YELLOW)),
        ),
        ("Failed", "Jobs that will not go on by themselves.", ((None, GREEN), (1, RED))),
    ):
        of_phase = f'nitro_job_status_phase{{phase="{phase}",namespace=~"$namespace"}}'
        # No job has a phase's series while no job is in it.
        query = Query(f"count(max {_BY_JOB} ({of_phase})) or vector(0)", phase)
        found.with_panel(number(phase, description, "none", query, width=WIDTH // 3, steps=steps))
    found.with_panel(
        graph(
            "Jobs by phase",
            "The chosen namespaces' jobs that exist; a deleted one leaves at once.",
            "none",
            Query(
                f"count by (phase) (max by (namespace, job_name, phase) (nitro_job_status_phase{_JOBS}))",
                "{{phase}}",
            ),
            width=WIDTH,
            stacked=True,
            whole=True,
        )
    )
    jobs = listing(
        "Jobs",
        "Every job with what `kubectl get ntj` shows. The name leads to its own dashboard.",
        [
            Column(None, f"max by (namespace, job_name, phase) (nitro_job_status_phase{_JOBS})", "none"),
            Column("round", f"max {_BY_JOB} (nitro_job_status_round{_JOBS})", "none"),
            Column("progress", f"max {_BY_JOB} (nitro_job_progress_ratio{_JOBS})", "percentunit"),
            Column("return", f"max {_BY_JOB} (nitro_job_status_reward_mean{_JOBS})", "none"),
            Column("score", f"max {_BY_JOB} (nitro_job_status_boosting_score{_JOBS})", "none"),
            Column("granted", f"max {_BY_JOB} (nitro_job_status_actors_granted{_JOBS})", "none"),
            Column("cost", _COST, "currencyUSD"),
        ],
    )
    target = f"/d/{job_dashboard.UID}?var-namespace=${{__data.fields.namespace}}&var-job=${{__value.raw}}"
    link = {"title": "Dashboard of this job", "url": target}
    found.with_panel(jobs.override_by_name("job", [DynamicConfigValue("links", [link])]))


def _actors(found: builders.Dashboard) -> None:
    found.with_row(row("Are there enough actors for all?"))
    found.with_panel(
        graph(
            "Actors granted, against the limit",
            "What all jobs hold together, and platform.maxActors; sums, where several operators serve a "
            "cluster. At the limit jobs sample in waves, and new ones wait for their minimum.",
            "none",
            Query("sum(nitro_operator_granted_actors)", "granted"),
            # An operator that waits for its Lease has a limit, too, but no resync.
            Query(
                "sum(nitro_operator_platform_limit_actors > 0 and nitro_operator_resync_timestamp_seconds)",
                "limit",
            ),
            whole=True,
        )
    )
    found.with_panel(
        graph(
            "Actors granted by job",
            "Each job has its minimum, then those with the highest boosting score get the rest.",
            "none",
            Query(f"max {_BY_JOB} (nitro_job_status_actors_granted{_JOBS})", _WHO),
            stacked=True,
            whole=True,
        )
    )
    found.with_panel(
        graph(
            "Actors requested, granted, ready",
            "Sums of all jobs. Ready below granted for minutes: nodes are full, or pods do not start.",
            "none",
            *(
                Query(f"sum(max {_BY_JOB} (nitro_job_status_actors_{name}{_JOBS}))", name)
                for name in ("requested", "granted", "ready")
            ),
            width=WIDTH,
            whole=True,
        )
    )


def _cost(found: builders.Dashboard) -> None:
    found.with_row(row("What does it cost, and who spends it?"))
    spent = f"sum {_BY_JOB} (rate(nitro_job_status_cost_dollars_total{_JOBS}{WINDOW}))"
    found.with_panel(
        graph(
            "Cost per hour by job",
            "Dollars per hour, learner and actors, at the prices of the job's spec.pricing.",
            "currencyUSD",
            Query(f"3600 * {spent}", _WHO),
            stacked=True,
        )
    )
    found.with_panel(
        graph(
            "Cost so far by job",
            "Dollars since each job began, of the jobs that still exist.",
            "currencyUSD",
            Query(_COST, _WHO),
            stacked=True,
        )
    )


def _speed(found: builders.Dashboard) -> None:
    found.with_row(row("Do actors follow the score in time?"))
    bucket = f"sum by (le) (rate(nitro_operator_score_to_scale_seconds_bucket{WINDOW}))"
    found.with_panel(
        graph(
            "Score-to-scale latency",
            "From the operator's first sight of a learner's request to the patched Revision. Pods then take "
            "seconds to start.",
            "s",
            Query(f"histogram_quantile(0.5, {bucket})", "median"),
            Query(f"histogram_quantile(0.99, {bucket})", "p99"),
            steps=((None, GREEN), (0.5, YELLOW)),
        )
    )
    found.with_panel(
        graph(
            "Changes of scale",
            "Requests for another number of actors that were answered, per second.",
            "ops",
            Query(f"sum(rate(nitro_operator_score_to_scale_seconds_count{WINDOW}))", "changes"),
        )
    )


def _operator(found: builders.Dashboard) -> None:
    found.with_row(row("Is the operator well?"))
    bucket = f"sum by (le) (rate(nitro_operator_reconcile_duration_seconds_bucket{WINDOW}))"
    found.with_panel(
        graph(
            "Duration of reconciles",
            "Time for one look at one job, with what it changes.",
            "s",
            Query(f"histogram_quantile(0.5, {bucket})", "median"),
            Query(f"histogram_quantile(0.99, {bucket})", "p99"),
            steps=((None, GREEN), (1, YELLOW)),
        )
    )
    found.with_panel(
        graph(
            "Reconciles and errors",
            "Errors are tried again, up to a minute apart; a job whose children are refused counts as well.",
            "ops",
            Query(f"sum(rate(nitro_operator_reconcile_duration_seconds_count{WINDOW}))", "reconciles"),
            Query(f"sum(rate(nitro_operator_reconcile_errors_total{WINDOW}))", "errors"),
        )
    )
    found.with_panel(
        graph(
            "Since the last resync",
            "The loop comes by every 20 s. Above 90 s the liveness probe restarts the operator. Of several "
            "operators, the one that is furthest behind.",
            "s",
            Query("time() - min(nitro_operator_resync_timestamp_seconds)", "age"),
            width=WIDTH // 4,
            steps=((None, GREEN), (60, YELLOW), (90, RED)),
        )
    )
    found.with_panel(
        graph(
            "Queue",
            "Jobs that wait for a reconcile, and for how long the longest of those under way has been "
            "running.",
            "none",
            Query("sum(nitro_operator_queued_jobs)", "jobs waiting"),
            Query("max(nitro_operator_longest_reconcile_seconds)", "longest, in seconds"),
            width=WIDTH // 4,
        )
    )
    found.with_panel(
        graph(
            "Requests to the API server",
            "By status; 0 = it did not answer. 409 and 404 are part of ordinary work.",
            "reqps",
            Query(f"sum by (status) (rate(nitro_operator_api_requests_total{WINDOW}))", "{{status}}"),
            width=WIDTH // 4,
            stacked=True,
        )
    )
    found.with_panel(
        graph(
            "Requests to AWS",
            "For the functions of Lambda jobs, by AWS' error code; empty without such jobs. Learners' "
            "invocations are not among them.",
            "reqps",
            Query(f"sum by (code) (rate(nitro_operator_aws_requests_total{WINDOW}))", "{{code}}"),
            width=WIDTH // 4,
            stacked=True,
        )
    )


_COST = (
    f"sum {_BY_JOB} (max by (namespace, job_name, component) (nitro_job_status_cost_dollars_total{_JOBS}))"
)
