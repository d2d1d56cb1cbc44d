"""Events that the operator posts."""

from __future__ import annotations

import asyncio
import logging

import pytest

from nitro_operator.kube.errors import ApiError
from nitro_operator.status.conditions import Condition, from_problem
from nitro_operator.status.document import SILENT
from nitro_operator.status.events import EventPoster
from operator_objects import make_job
from reconcile_bench import GOING, FakeKube


@pytest.mark.parametrize(("message", "complaints"), [(GOING, 0), ("events is forbidden", 1)])
async def test_an_event_that_is_refused_is_sent_once(
    caplog: pytest.LogCaptureFixture, message: str, complaints: int
) -> None:
    kube = FakeKube()
    kube.refusal = ApiError(403, "Forbidden", message)
    poster = EventPoster(kube)  # type: ignore[arg-type]
    task = asyncio.create_task(poster.run())
    poster.add(make_job(), from_problem("LearnerReady", SILENT))
    poster.add(make_job(), Condition("LearnerReady", True, "Next", ""))
    async with asyncio.timeout(120):
        while kube.written[-1:] == [] or kube.written[-1]["reason"] != "Next":  # noqa: ASYNC110
            await asyncio.sleep(0)
    task.cancel()
    assert [event["reason"] for event in kube.written] == ["HeartbeatLost", "Next"]
    assert len([entry for entry in caplog.records if entry.levelno >= logging.WARNING]) == 2 * complaints
