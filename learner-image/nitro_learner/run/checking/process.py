"""The check of a job's environment on this machine, see `nitro_actor.check_process`.

    check = EnvironmentCheck(spec.environment, seconds=1)       # at once, before anything slow is imported
    ...
    report = check.report(1)                                    # what it found; it is ended after a second

Its processor time is 0.04 (CartPole-v1), 0.06 (Hopper-v5) and 0.05 (ALE/Pong-v5) of that of a whole `nitro
train` with two rounds of 64 steps, which is nearly all its start; most of the check's time is imports.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping

from nitro_actor.check_process import CheckProcess
from nitro_api.spec.environment import Environment
from nitro_learner.run.checking.report import Report, report_of

START_SECONDS = 1.0
"""Beside a start: the time of the check itself, and the time that it has once the learner is ready."""


class EnvironmentCheck:
    """A running check.

    Args:
        environment: of a job.
        seconds: that it may take, once the environment is built.
        inherited: the variables that its process has; all of this process by default.
    """

    def __init__(
        self, environment: Environment, seconds: float, *, inherited: Mapping[str, str] = os.environ
    ) -> None:
        self._process = CheckProcess(json.dumps({**environment.to_actor(), "envs": 1}), seconds, inherited)

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def report(self, seconds: float) -> Report:
        """What it has found: at its end, or after so many seconds, when it is ended."""
        return report_of(self._process.record(seconds))

    async def found(self) -> Report:
        """What it has found a second from now, at the latest."""
        return await asyncio.to_thread(self.report, START_SECONDS)

    def whole(self) -> Report:
        """What it has found, once it had all of its time."""
        return report_of(self._process.whole())

    def close(self) -> None:
        """End the process, with those that the environment has started."""
        self._process.close()
