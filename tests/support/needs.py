"""What tests need of the machine: without it they are skipped, or fail where it is required."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def without(missing: str, requirement: str) -> NoReturn:
    """Skip the test, or fail it where the environment variable `requirement` is 1.

    `missing` says what is missing, and where to get it.
    """
    if os.environ.get(requirement) == "1":
        pytest.fail(f"{requirement}=1, but {missing}", pytrace=False)
    pytest.skip(missing)


def program(name: str, missing: str, requirement: str) -> str:
    """A program's path, from the PATH; `without` it as above."""
    return shutil.which(name) or without(missing, requirement)
