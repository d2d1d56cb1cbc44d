"""The operator's metrics of itself."""

from __future__ import annotations

from prometheus_client import REGISTRY

from nitro_operator.metrics import Health


def test_the_operators_health_is_read_at_the_scrape() -> None:
    resynced: list[float | None] = [None]
    health = Health(lambda: resynced[0], lambda: 2, lambda: 0.5)
    try:
        assert REGISTRY.get_sample_value("nitro_operator_resync_timestamp_seconds") is None
        resynced[0] = 10.0
        assert REGISTRY.get_sample_value("nitro_operator_resync_timestamp_seconds") == 10
        resynced[0] = 30.0
        assert REGISTRY.get_sample_value("nitro_operator_resync_timestamp_seconds") == 30
        assert REGISTRY.get_sample_value("nitro_operator_queued_jobs") == 2
        assert REGISTRY.get_sample_value("nitro_operator_longest_reconcile_seconds") == 0.5
    finally:
        health.close()
