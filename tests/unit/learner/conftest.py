"""A cache and actors that are functions, and the threads of a training."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from dispatch_support import FunctionBackend, RecordingCache


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Train as the learner does; small steps are several times slower on more threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
async def cache() -> RecordingCache:
    return await RecordingCache.published()


@pytest.fixture
def backend(cache: RecordingCache) -> FunctionBackend:
    return FunctionBackend(cache)
