"""The check of an environment beside a run's start. Round 1 does not wait for it, and no result changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from nitro_api import JobSpec
from nitro_learner.checking import job_fit
from nitro_learner.checking.process import START_SECONDS, EnvironmentCheck
from nitro_learner.checking.report import Report
from nitro_learner.training.round_report import Listener, Row

logger = logging.getLogger(__name__)


def begin(
    spec: JobSpec, inherited: Mapping[str, str] = os.environ, *, seconds: float = START_SECONDS
) -> EnvironmentCheck:
    """Begin the check of a job's environment, at once; see `EnvironmentCheck`."""
    return EnvironmentCheck(spec.environment, seconds, inherited=inherited)


def begin_beside(spec: JobSpec, inherited: Mapping[str, str] = os.environ) -> EnvironmentCheck | None:
    """Begin the check beside a start, which goes on without it where no other process can be started."""
    try:
        return begin(spec, inherited)
    except OSError as error:
        logger.warning("the environment is not checked: %s", error)
        return None


def fitting(environment: Mapping[str, Any], spec: JobSpec, *, new: bool = True) -> list[str]:
    """Warnings of how an environment fits a job; see `job_fit`."""
    return job_fit.warnings(environment, spec, new=new)


class CheckListener(Listener):
    """Tell what a check has found, a second after the learner is ready at the latest.

        async with CheckListener(check, spec) as listener:
            ...                 # the trainer calls its listeners

    Args:
        check: running; None where nothing is checked.
        spec: of the resolved job.
        new: whether the policies know nothing yet.

    Attributes:
        environment: returns the EnvironmentSpec of the actors.
    """

    def __init__(self, check: EnvironmentCheck | None, spec: JobSpec, *, new: bool) -> None:
        self.environment: Callable[[], Mapping[str, Any]] = dict
        self._new = new
        self._check = check
        self._spec = spec
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._task is not None:
                await self._task
        finally:
            if self._check is not None:
                self._check.close()

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        for warning in fitting(self.environment(), self._spec, new=self._new):
            logger.warning("%s", warning)
        if self._check is not None:
            self._task = asyncio.create_task(self._conclude(self._check))

    async def _conclude(self, check: EnvironmentCheck) -> None:
        with contextlib.suppress(RuntimeError):  # the interpreter ends, and starts no threads any more
            _tell(await asyncio.to_thread(check.report, START_SECONDS))


def _tell(report: Report) -> None:
    """Log what a check has found; remarks and costs go to the run's log only."""
    for fault in [report.error, *report.faults]:
        if fault:
            logger.warning("The environment has a fault: %s", fault)
    for warning in report.warnings:
        logger.warning("The environment: %s", warning)
    for remark in [*report.remarks, *report.costs()]:
        logger.info("environment: %s", remark)
    if report.unchecked:
        left = "; ".join(f"{part} ({why})" for part, why in report.unchecked.items())
        logger.warning("Not checked of the environment: %s. `nitro check-env` checks all of it.", left)
