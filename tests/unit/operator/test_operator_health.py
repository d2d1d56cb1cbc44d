"""The operator's metrics of itself."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

from prometheus_client import REGISTRY

from nitro_operator.metrics import Health, MetricsServer
from ports import free_ports


def test_the_operators_health_is_read_at_the_scrape() -> None:
    resynced = [10.0]
    health = Health(lambda: resynced[0], lambda: 2, lambda: 0.5)
    try:
        assert REGISTRY.get_sample_value("nitro_operator_resync_timestamp_seconds") == 10
        resynced[0] = 30.0
        assert REGISTRY.get_sample_value("nitro_operator_resync_timestamp_seconds") == 30
        assert REGISTRY.get_sample_value("nitro_operator_queued_jobs") == 2
        assert REGISTRY.get_sample_value("nitro_operator_longest_reconcile_seconds") == 0.5
    finally:
        health.close()


async def test_the_operator_is_ready_when_it_has_seen_all_jobs() -> None:
    (port,) = free_ports(1)
    filled = False
    server = MetricsServer(port, lambda: filled)
    await server.start()

    def status(path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    try:
        assert await asyncio.to_thread(status, "/readyz") == 503
        assert await asyncio.to_thread(status, "/metrics") == 200
        filled = True
        assert await asyncio.to_thread(status, "/readyz") == 200
    finally:
        await server.stop()
