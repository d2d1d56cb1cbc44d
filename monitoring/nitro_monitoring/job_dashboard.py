"""The dashboard of one job: each row is a question that its owner asks."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from nitro_monitoring import job_policies, job_resources, job_training
from nitro_monitoring.job_queries import SELECTOR
from nitro_monitoring.panels import board, choice, firing, window

UID = "nitro-job"
_ANY_JOB = '{__name__=~"nitro_job_info|nitro_round"}'


def job_dashboard() -> builders.Dashboard:
    """The dashboard of one job in one namespace."""
    found = board("Nitro / Job", UID, "One training job: progress, learning, actors, time and money.")
    found.with_variable(
        choice("namespace", "Namespace", f"label_values({_ANY_JOB}, namespace)", several=False)
    )
    jobs = _ANY_JOB.replace("}", ',namespace="$namespace"}')
    found.with_variable(choice("job", "Job", f"label_values({jobs}, job_name)", several=False))
    found.with_variable(window())
    found.annotation(firing(f'ALERTS{{alertname=~"Nitro.*",alertstate="firing",{SELECTOR}}}'))
    for part in (
        job_training.progress,
        job_training.learning,
        job_training.score,
        job_policies.policies,
        job_resources.actors,
        job_resources.time,
        job_resources.cost,
        job_resources.trouble,
    ):
        part(found)
    return found
