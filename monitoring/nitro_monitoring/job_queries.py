"""Queries that several panels of a job's dashboard use.

The operator's metrics (nitro_job_status_*) come first, because they stay when the learner's pod ends. Without
an operator, as with `nitro train --metrics-port`, the learner's own metric is used. All queries aggregate, so
that a replaced learner pod does not appear twice.
"""

from __future__ import annotations

from nitro_monitoring.panels import WINDOW

SELECTOR = 'namespace="$namespace",job_name="$job"'
JOB = f"{{{SELECTOR}}}"
COMPONENTS = (
    f"(max by (component) (nitro_job_status_cost_dollars_total{JOB})"
    f" or max by (component) (nitro_job_cost_dollars_total{JOB}))"
)
"""Dollars so far by component."""
COST = f"sum({COMPONENTS})"
"""Dollars so far."""


PAID_CPU = (
    f"sum(rate(nitro_job_status_vcpu_seconds_total{JOB}{WINDOW}))"
    f" / max(nitro_job_status_pod_vcpu{JOB}) * max(nitro_job_spec_actors_per_pod{JOB})"
)
"""Actors whose CPU is paid: a pod that sleeps counts by the little that it requests."""


def either(status: str, learner: str | None = None) -> str:
    """One number of the job, from the operator or else from the learner."""
    return f"(max(nitro_job_status_{status}{JOB}) or max(nitro_{learner or status}{JOB}))"


def per_slot(aggregate: str, counter: str) -> str:
    """A counter's growth for each slot that was sampled."""
    slots = f"sum(rate(nitro_actor_slots_total{JOB}{WINDOW}))"
    return f"{aggregate} (rate({counter}{JOB}{WINDOW})) / on () group_left () {slots}"
