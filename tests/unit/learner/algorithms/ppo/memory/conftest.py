"""One thread for torch, as in training: sequences are many small operations, which threads make slower."""

import pytest


@pytest.fixture(autouse=True)
def always_one_thread(one_thread: None) -> None:
    """Every test of this folder has the fixture."""
