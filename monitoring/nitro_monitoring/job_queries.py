"""What several panels of a job's dashboard ask.

What the operator exports (nitro_job_status_*) stays when the learner's pod goes and is preferred; where there
is no operator, as with `nitro train --metrics-port`, the learner's own metric takes its place. Everything is
aggregated, so that a learner's pod that was replaced does not show twice.
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


def either(status: str, learner: str | None = None) -> str:
    """One number of the job, from the operator or else from the learner."""
    return f"(max(nitro_job_status_{status}{JOB}) or max(nitro_{learner or status}{JOB}))"


def per_slot(aggregate: str, counter: str) -> str:
    """A counter's growth for each slot that was sampled."""
    slots = f"sum(rate(nitro_actor_slots_total{JOB}{WINDOW}))"
    return f"{aggregate} (rate({counter}{JOB}{WINDOW})) / on () group_left () {slots}"
