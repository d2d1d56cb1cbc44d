"""The check of an environment beside a run's start. Round 1 does not wait for it, and no result changes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, Self

from nitro_actor.check_process import Record
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_learner.backends.base import BackendError
from nitro_learner.run.checking import job_fit
from nitro_learner.run.checking.process import START_SECONDS, EnvironmentCheck
from nitro_learner.run.checking.report import NOTHING_YET, Report, report_of
from nitro_learner.training.round_report import Listener, Row

logger = logging.getLogger(__name__)

_END_SECONDS = 5.0
"""How long the end of a run waits for a check; a run that fails or is aborted does not."""


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


class Check(Protocol):
    """A check that a run's start takes the findings of."""

    async def found(self) -> Report:
        """Wait for what it finds, once."""

    def close(self) -> None:
        """End it. May be called twice."""


class ActorCheck:
    """The check that one actor makes of the environment in its image.

    Args:
        ask: returns what the actor's check has told.
    """

    def __init__(self, ask: Callable[[], Awaitable[Record]]) -> None:
        self._ask = ask

    async def found(self) -> Report:
        """See `Check`."""
        try:
            return report_of(await self._ask())
        except BackendError as error:
            return not_checked(str(error))

    def close(self) -> None:
        """Nothing runs here; the actor ends its check by itself."""


class NotChecked:
    """A check that is not made; `why` says the cause."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def found(self) -> Report:
        """See `Check`."""
        return not_checked(self._why)

    def close(self) -> None:
        """Nothing runs."""


class CheckListener(Listener):
    """Tell what a check has found: where it runs on this machine, a second after the learner is ready.

        async with CheckListener(check, spec) as listener:
            ...                 # the trainer calls its listeners

    Args:
        check: of the environment; None where nothing is checked.
        spec: of the resolved job.
        new: whether the policies know nothing yet.
        told: is called with what the check has found.

    Attributes:
        environment: returns that of the actors.
    """

    def __init__(
        self,
        check: Check | None,
        spec: JobSpec,
        *,
        new: bool,
        told: Callable[[Report], None] = lambda _: None,
    ) -> None:
        self.environment: Callable[[], DescribedEnvironment | None] = lambda: None
        self._new = new
        self._check = check
        self._spec = spec
        self._told = told
        self._task: asyncio.Task[Report] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._check is None:
            return
        try:
            if self._task is not None and not self._task.done():
                await asyncio.wait([self._task], timeout=_END_SECONDS if kind is None else 0)
                if not self._task.done():
                    self._task.cancel()
                    self._conclude(not_checked("the run has ended before it was"))
        finally:
            self._check.close()

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        environment = self.environment()
        for warning in job_fit.warnings(environment, self._spec, new=self._new) if environment else ():
            logger.warning("%s", warning)
        if self._check is not None:
            self._task = asyncio.create_task(self._check.found())
            self._task.add_done_callback(self._take)

    def _take(self, task: asyncio.Task[Report]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._conclude(task.result())
        else:
            self._conclude(not_checked(f"{type(error).__name__}: {error}"))

    def _conclude(self, report: Report) -> None:
        _tell(report)
        self._told(report)


def not_checked(why: str) -> Report:
    """The report of a check that has found nothing."""
    return Report(unchecked={NOTHING_YET: why})


def _tell(report: Report) -> None:
    """Log what a check has found; remarks and costs go to the run's log only."""
    for fault in report.wrong():
        logger.warning("The environment has a fault: %s", fault)
    for warning in report.warnings:
        logger.warning("The environment: %s", warning)
    for remark in [*report.remarks, *report.costs()]:
        logger.info("environment: %s", remark)
    if report.unchecked:
        logger.warning(
            "Not checked of the environment: %s. `nitro check-env` checks all of it.", report.left_out()
        )
