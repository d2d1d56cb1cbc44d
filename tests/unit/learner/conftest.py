"""A cache and actors that are functions."""

from __future__ import annotations

import pytest

from dispatch_support import FunctionBackend, RecordingCache


@pytest.fixture
async def cache() -> RecordingCache:
    return await RecordingCache.published()


@pytest.fixture
def backend(cache: RecordingCache) -> FunctionBackend:
    return FunctionBackend(cache)
