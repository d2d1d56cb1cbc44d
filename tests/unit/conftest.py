"""The event loop of a test: the usual one, or what its module names as `loop_factory`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest


def pytest_asyncio_loop_factories(
    config: pytest.Config,  # noqa: ARG001
    item: pytest.Function,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"loop": getattr(item.module, "loop_factory", asyncio.new_event_loop)}
