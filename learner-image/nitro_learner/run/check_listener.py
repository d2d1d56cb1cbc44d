"""The check of an environment beside a run's start. Round 1 does not wait for it, and no result changes."""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, Self

from nitro_actor.check_process import CheckProcess, Record
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_api.spec.environment import Environment
from nitro_learner.backends.base import BackendError
from nitro_learner.run.checking import job_fit
from nitro_learner.run.checking.report import NOTHING_YET, Report, report_of
from nitro_learner.training.round_report import Listener, Row

logger = logging.getLogger(__name__)

START_SECONDS = 1.0
"""Beside a start: the time of the check itself, and the time that it has once the learner is ready."""
_END_SECONDS = 5.0
"""How long the end of a run waits for a check; a run that fails or is aborted does not."""


class EnvironmentCheck:
    """The check of a job's environment in a process of this machine, see `nitro_actor.check_process`.

        check = EnvironmentCheck(spec.environment)          # at once, before anything slow is imported
        ...
        report = await check.early_report()                 # what it found; it is ended after a second

    Its processor time is 0.04 (CartPole-v1), 0.06 (Hopper-v5) and 0.05 (ALE/Pong-v5) of that of a whole
    `nitro train` with two rounds of 64 steps, which is nearly all its start; most of the check's time is
    imports.

    Args:
        seconds: that it may take, once the environment is built.
    """

    def __init__(
        self,
        environment: Environment,
        seconds: float = START_SECONDS,
        *,
        inherited: Mapping[str, str] = os.environ,
    ) -> None:
        self._process = CheckProcess(json.dumps({**environment.to_actor(), "envs": 1}), seconds, inherited)

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def report(self, seconds: float) -> Report:
        """What it has found: at its end, or after so many seconds, when it is ended."""
        return report_of(self._process.record(seconds))

    async def early_report(self) -> Report:
        """What it has found a second from now, at the latest."""
        return await asyncio.to_thread(self.report, START_SECONDS)

    def final_report(self) -> Report:
        """What it has found, once it had all of its time."""
        return report_of(self._process.final_record())

    def close(self) -> None:
        """End the process, with those that the environment has started."""
        self._process.close()


def begin_beside(spec: JobSpec, inherited: Mapping[str, str] = os.environ) -> EnvironmentCheck | None:
    """Begin the check beside a start, which goes on without it where no other process can be started."""
    try:
        return EnvironmentCheck(spec.environment, inherited=inherited)
    except OSError as error:
        logger.warning("the environment is not checked: %s", error)
        return None


class Check(Protocol):
    """A check that a run's start takes the findings of."""

    async def early_report(self) -> Report:
        """Wait for what it finds, once."""

    def close(self) -> None:
        """End it. May be called twice."""


class ActorCheck:
    """The check that one actor makes of the environment in its image."""

    def __init__(self, ask: Callable[[], Awaitable[Record]]) -> None:
        self._ask = ask

    async def early_report(self) -> Report:
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

    async def early_report(self) -> Report:
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
            self._task = asyncio.create_task(self._check.early_report())
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
