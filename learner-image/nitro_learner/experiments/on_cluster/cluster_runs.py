"""Runs as jobs of a cluster, a NitroTrainingJob for each of them."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Self, TypeVar

import numpy as np

from nitro_api import FieldError, JobInvalid, load_job, resolve, resolve_stored
from nitro_learner.backends.base import BackendError
from nitro_learner.checkpoints.store import CheckpointError
from nitro_learner.cluster.api import backoff
from nitro_learner.cluster.jobs import ClusterError, Job, NamespaceJobs
from nitro_learner.experiments.folder import ExperimentDir
from nitro_learner.experiments.on_cluster.manifests import manifest, object_name
from nitro_learner.experiments.on_cluster.run_files import RunFiles
from nitro_learner.experiments.places import Columns, Ending, columns_in
from nitro_learner.experiments.plan import PlannedRun
from nitro_learner.experiments.spec import Experiment
from nitro_learner.run.same_job import deciding

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_LOOK_SECONDS = 2.0
_SILENCE_SECONDS = 600.0
"""How long the API server may give no answer."""
_WAIT_SECONDS = 60.0
"""After so long it is said what a job waits for."""
_SUSPEND_SECONDS = 300.0
"""How long a learner may take to write its checkpoint and to end."""


class ClusterRuns:
    """Jobs of a namespace. They go on when this process ends, and a later one finds them by their names.

    The files of a run are copied when it has ended, and its job is then removed. A job that has failed stays,
    so that it can be looked at, until the run is begun anew.

    Args:
        folder: of the experiment.
        experiment: whose job has the backend and the labels.
        jobs: the jobs of the namespace.
    """

    def __init__(self, folder: ExperimentDir, experiment: Experiment, jobs: NamespaceJobs) -> None:
        self._folder = folder
        self._experiment = experiment
        self._jobs = jobs
        self._closing = threading.Event()
        self._files = RunFiles(jobs.client, jobs.namespace, self._closing)
        self._rounds: dict[PurePosixPath, dict[int, dict[str, Any]]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()

    async def train(self, run: PlannedRun, advanced: Callable[[], None], *stops: asyncio.Event) -> Ending:
        try:
            return await self._train(run, advanced, stops)
        except (JobInvalid, ClusterError) as error:
            return Ending("failed", str(error))

    async def _train(
        self, run: PlannedRun, advanced: Callable[[], None], stops: tuple[asyncio.Event, ...]
    ) -> Ending:
        planned = resolve(load_job(self._folder.run(run).job))
        name = await self._begin(manifest(self._experiment, run, planned))
        job = await self._followed(run, name, advanced, stops)
        if job is None:
            return Ending("failed", f"job {name} was deleted before its files were copied", again=True)
        phase = job["status"]["phase"]
        if phase == "Failed":
            more = f"kubectl describe ntj {name} --namespace {self._jobs.namespace}"
            return Ending("failed", f"{_condition(job, 'Failed')}\n  more: {more}")
        if phase == "Suspended":
            return Ending("stopped")
        return await self._gather(run, job)

    def columns(self, run: PlannedRun) -> Columns | None:
        """The columns in the run's folder; of a run that still goes on those that its job reports, rounded:
        `round`, what was spent, and the returns."""
        rounds = self._rounds.get(run.folder)
        if rounds is None:
            return columns_in(self._folder, run)
        if not rounds:
            return None
        ordered = [rounds[number] for number in sorted(rounds)]

        def column(name: str) -> Any:
            values = [one.get(name) for one in ordered]
            return np.array([np.nan if value is None else float(value) for value in values])

        steps = column("envSteps")
        return {
            "round": column("round"),
            "env_steps": steps,
            "actor_rounds": steps / run.job.spec.environment.rollout_length,
            "actors": column("actors"),
            "reward_mean": column("rewardMean"),
            "evaluation_mean": column("evaluationMean"),
            "cost_total": column("cost"),
            "wall_seconds": np.nancumsum(column("seconds")),
        }

    async def discard(self, run: PlannedRun) -> None:
        try:
            if job := await self._asked(self._jobs.find, object_name(self._experiment, run)):
                await self._asked(self._jobs.delete, job)
        except ClusterError as error:
            raise BackendError(str(error)) from None

    async def _begin(self, wanted: dict[str, Any]) -> str:
        """Make the job, or let the one go on that there is. Return its name.

        Raises:
            ClusterError: the cluster refuses it, or another job has its name.
        """
        name = str(wanted["metadata"]["name"])
        found = await self._asked(self._jobs.find, name)
        if found and _useless(found, wanted):
            await self._asked(self._jobs.delete, found)
            found = None
        if not found:
            await self._asked(self._jobs.create, wanted)
            return name
        if differing := _differing(found, wanted):
            raise ClusterError(
                f"namespace {self._jobs.namespace} has another job {name}; these fields differ: "
                f"{', '.join(differing)}. Remove it: kubectl delete ntj {name} -n {self._jobs.namespace}"
            )
        changed = {"suspend": False, "stop": wanted["spec"]["stop"]}
        await self._asked(self._jobs.change, name, changed)
        return name

    async def _followed(
        self, run: PlannedRun, name: str, advanced: Callable[[], None], stops: tuple[asyncio.Event, ...]
    ) -> Job | None:
        """Wait until the job has ended or is suspended, as it is when a stop is set, and return it; None
        where it is gone."""
        rounds = self._rounds.setdefault(run.folder, {})
        stopping, deadline = False, float("inf")
        waits = _Waits(name)
        while job := await self._asked(self._jobs.find, name):
            status = job.get("status") or {}
            before = len(rounds)
            rounds |= {one["round"]: one for one in (status.get("training") or {}).get("history") or ()}
            if len(rounds) > before:
                advanced()
            phase = status.get("phase")
            if phase in ("Succeeded", "Failed") or (stopping and phase == "Suspended"):
                return job
            if time.monotonic() > deadline:
                raise BackendError(f"job {name} is to be suspended, and does not stop. It is left as it is.")
            if not stopping and any(stop.is_set() for stop in stops):
                stopping, deadline = True, time.monotonic() + _SUSPEND_SECONDS
                await self._asked(self._jobs.change, name, {"suspend": True})
            waits.look(_condition(job, "Ready") if phase in ("Pending", "Starting") else "")
            await _first(() if stopping else stops, _LOOK_SECONDS * random.uniform(0.8, 1.2))
        return None

    async def _gather(self, run: PlannedRun, job: Job) -> Ending:
        """Copy the files of a run that is done, and remove its job."""
        folder = self._folder.run(run)
        try:
            await asyncio.to_thread(self._files.copy, job, folder)
        except (ClusterError, CheckpointError) as error:
            return Ending("failed", f"it is trained, but its files could not be copied: {error}", again=True)
        del self._rounds[run.folder]
        version = await self._asked(self._jobs.cluster_version)
        self._folder.add_machine(_machine(version, folder.read_summary().get("versions", {})))
        await self._asked(self._jobs.delete, job)
        return Ending("done")

    async def _asked(self, request: Callable[..., Answer], *arguments: Any) -> Answer:
        """The API server's answer. A request that may pass is tried again, with growing random pauses.

        Raises:
            ClusterError: the request is refused.
            BackendError: there was no answer for long, or this user may not do it.
        """
        began, failures = time.monotonic(), 0
        while True:
            try:
                return await asyncio.to_thread(request, *arguments)
            except ClusterError as error:
                if error.status in (401, 403) and "quota" not in str(error):
                    raise BackendError(str(error)) from None
                if not error.passing:
                    raise
                if time.monotonic() - began > _SILENCE_SECONDS:
                    raise BackendError(f"{error}. The jobs on the cluster go on.") from None
                failures += 1
            await asyncio.sleep(backoff(failures))


class _Waits:
    """Say once what a job waits for, when that has lasted some time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._why, self._since = "", 0.0

    def look(self, why: str) -> None:
        if why != self._why:
            self._why, self._since = why, time.monotonic()
        elif why and time.monotonic() - self._since > _WAIT_SECONDS:
            logger.warning("%s: %s", self._name, why)
            self._since = float("inf")


def check(experiment: Experiment, runs: Sequence[PlannedRun]) -> None:
    """Make sure that every variant's job can run on a cluster.

    Raises:
        JobInvalid: with every mistake.
    """
    mistakes: dict[str, FieldError] = {}
    for run in runs:
        try:
            manifest(experiment, run, run.job)
        except JobInvalid as error:
            mistakes |= {f"{run.variant}: {item}": item for item in error.errors}
    if mistakes:
        raise JobInvalid(list(mistakes.values()))


def _useless(found: Job, wanted: Mapping[str, Any]) -> bool:
    """Whether a job has ended without what is wanted: it has failed, or it had another budget."""
    phase = (found.get("status") or {}).get("phase")
    return phase == "Failed" or (phase == "Succeeded" and found["spec"].get("stop") != wanted["spec"]["stop"])


def _differing(found: Job, wanted: Mapping[str, Any]) -> list[str]:
    """The fields that a run's results depend on, and in which two jobs differ."""
    old, new = (deciding(resolve_stored(job).to_dict()["spec"]) for job in (found, dict(wanted)))
    return [f"spec.{path}" for path in sorted({*old, *new}) if old.get(path) != new.get(path)]


def _condition(job: Job, kind: str) -> str:
    """What a condition of the job says; empty where it has no such condition."""
    conditions = (job.get("status") or {}).get("conditions") or []
    told = [one.get("message") or one.get("reason") or "" for one in conditions if one["type"] == kind]
    return told[0] if told else ""


def _machine(version: str, versions: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of machine.json."""
    return {
        "cluster": f"Kubernetes {version}",
        "python": versions.get("python"),
        "versions": {name: value for name, value in versions.items() if name not in ("python", "machine")},
    }


async def _first(stops: tuple[asyncio.Event, ...], seconds: float) -> None:
    """Wait until one of the events is set, at most so long."""
    waiting = [asyncio.ensure_future(stop.wait()) for stop in stops]
    try:
        if waiting:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(seconds)
    finally:
        for one in waiting:
            one.cancel()
