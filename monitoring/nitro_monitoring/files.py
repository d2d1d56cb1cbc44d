"""The generated files and their texts."""

from __future__ import annotations

from nitro_monitoring import alerts, reference
from nitro_monitoring.job_dashboard import job_dashboard
from nitro_monitoring.panels import to_json
from nitro_monitoring.platform_dashboard import platform_dashboard

DASHBOARDS = "charts/nitro/files/dashboards"
RULES = "charts/nitro/files/nitro.rules.yaml"
METRICS = "docs/metrics.md"


def generated() -> dict[str, str]:
    """Path from the repository's root -> text."""
    return {
        f"{DASHBOARDS}/nitro-platform.json": to_json(platform_dashboard()),
        f"{DASHBOARDS}/nitro-job.json": to_json(job_dashboard()),
        RULES: alerts.render(),
        METRICS: reference.render(),
    }
