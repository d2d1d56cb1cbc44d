"""Runs as jobs of a cluster, a NitroTrainingJob for each of them."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Self

import numpy as np

from nitro_api import FieldError, JobInvalid, load_job, resolve, resolve_stored
from nitro_experiments.planning.plan import PlannedRun, plan
from nitro_experiments.planning.spec import DEFAULT, Experiment
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.on_cluster.manifests import LABEL, RUN, digits, manifest, object_name
from nitro_experiments.running.on_cluster.retries import RetriedJobs, Waits
from nitro_experiments.running.on_cluster.run_files import RunFiles
from nitro_experiments.running.places import Columns, Ending, columns_in
from nitro_learner.backends.base import BackendError
from nitro_learner.checkpoints.store import CheckpointError
from nitro_learner.cluster.api import backoff
from nitro_learner.cluster.jobs import ClusterError, Job, NamespaceJobs, why
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.run.same_job import deciding
from nitro_learner.training.waiting import Interrupted, unless

_LOOK_SECONDS = 2.0
_SUSPEND_SECONDS = 300.0
"""How long the operator may take to suspend a job. The learner then writes its checkpoint."""
_DELETE_SECONDS = 300.0
_COPIES = 3
"""Attempts to copy a run's files."""


class ClusterRuns:
    """Jobs of a namespace. They go on when this process ends, and a later one finds them by their names.

    The files of a run are copied when it has ended, and its job is then removed. A job that has failed stays,
    so that it can be looked at, until the run is begun anew.

    Args:
        folder: of the experiment; it exists.
        experiment: whose job has the backend and the labels.
        jobs: the jobs of the namespace.
    """

    def __init__(self, folder: ExperimentDir, experiment: Experiment, jobs: NamespaceJobs) -> None:
        self._folder = folder
        self._experiment = experiment
        self._jobs = RetriedJobs(jobs)
        self._closing = threading.Event()
        self._files = RunFiles(jobs, self._closing)
        self._rounds: dict[PurePosixPath, dict[int, dict[str, Any]]] = {}

    async def __aenter__(self) -> Self:
        try:
            await self._remove_copied()
        except ClusterError as error:
            raise BackendError(str(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()

    async def train(self, run: PlannedRun, advanced: Callable[[], None], *stops: asyncio.Event) -> Ending:
        try:
            return await self._train(run, advanced, stops)
        except JobInvalid as error:
            return Ending("failed", str(error))
        except ClusterError as error:
            return Ending("failed", str(error), again=True)

    async def _train(
        self, run: PlannedRun, advanced: Callable[[], None], stops: tuple[asyncio.Event, ...]
    ) -> Ending:
        planned = resolve(load_job(self._folder.run(run).job))
        wanted = manifest(self._experiment, run, planned, self._folder.identity())
        name = str(wanted["metadata"]["name"])
        await self._begin(name, wanted, is_control=run.control is not None)
        job = await self._followed(run, name, advanced, stops)
        if job is None:
            raise ClusterError(f"job {name} was deleted before its files were copied")
        phase = job["status"]["phase"]
        if phase == "Failed":
            more = f"kubectl describe ntj {name} --namespace {self._jobs.namespace}"
            return Ending("failed", f"{why(job, 'Failed')}\n  more: {more}")
        if phase == "Suspended":
            return Ending("stopped")
        await self._gather(run, job, wanted)
        return Ending("done")

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
            values = [row.get(name) for row in ordered]
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
            if job := await self._jobs.find(object_name(self._folder.identity(), run)):
                await self._jobs.delete(job)
        except ClusterError as error:
            raise BackendError(str(error)) from None

    async def _remove_copied(self) -> None:
        """Remove jobs whose files are here: a process ended between the two."""
        for job in await self._jobs.list():
            labels, annotations = (job["metadata"].get(part) or {} for part in ("labels", "annotations"))
            path = annotations.get(RUN, "")
            ours = job["metadata"]["name"].endswith(digits(self._folder.identity(), path))
            if labels.get(LABEL) != self._experiment.name or not ours:
                continue
            with suppress(RunDirError):
                copied = RunDir(self._folder.path / path).read_summary().get("finished")
                if copied and (job.get("status") or {}).get("phase") == "Succeeded":
                    await self._jobs.delete(job)

    async def _begin(self, name: str, wanted: dict[str, Any], *, is_control: bool) -> None:
        """Make the job, or let the one go on that there is.

        A job that failed or has another budget is begun anew, and that of a control whose sources have
        changed.

        Raises:
            ClusterError: the cluster refuses it, or a job of its name is another one.
        """
        existing = await self._jobs.find(name)
        if existing:
            differing = _differing(existing, wanted)
            failed = (existing.get("status") or {}).get("phase") == "Failed"
            if differing and not (failed or is_control):
                raise ClusterError(
                    f"namespace {self._jobs.namespace} has a job {name} in which these fields differ: "
                    f"{', '.join(differing)}. To begin anew, remove it: "
                    f"kubectl delete ntj {name} --namespace {self._jobs.namespace}"
                )
            if failed or differing or existing["spec"].get("stop") != wanted["spec"]["stop"]:
                await self._jobs.delete(existing)
                await self._until_gone(existing)
                existing = None
        if not existing:
            await self._jobs.create(wanted)
        elif existing["spec"].get("suspend"):
            await self._jobs.change(name, {"suspend": False})

    async def _until_gone(self, job: Job) -> None:
        """Wait until a job that was deleted is gone: a finalizer may hold it for some time."""
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        deadline = time.monotonic() + _DELETE_SECONDS
        while (left := await self._jobs.find(name)) and left["metadata"]["uid"] == uid:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"job {name} was deleted and does not go; its finalizers: "
                    f"{', '.join(left['metadata'].get('finalizers') or ['none'])}"
                )
            await _pause()

    async def _followed(
        self, run: PlannedRun, name: str, advanced: Callable[[], None], stops: tuple[asyncio.Event, ...]
    ) -> Job | None:
        """Wait until the job has ended or is suspended, as it is when a stop is set, and return it; None
        where it is gone, or deleted and held by a finalizer."""
        rounds = self._rounds.setdefault(run.folder, {})
        stopping, deadline = False, float("inf")
        waits = Waits(name)
        while job := await self._jobs.find(name):
            status = job.get("status") or {}
            before = len(rounds)
            rounds |= {row["round"]: row for row in (status.get("training") or {}).get("history") or ()}
            if len(rounds) > before:
                advanced()
            phase = status.get("phase")
            if phase in ("Succeeded", "Failed") or (stopping and phase == "Suspended"):
                return job
            if phase == "Deleting":
                return None
            if time.monotonic() > deadline:
                raise BackendError(f"job {name} is to be suspended, and does not stop. It is left as it is.")
            if not stopping and any(stop.is_set() for stop in stops):
                stopping, deadline = True, time.monotonic() + _SUSPEND_SECONDS
                await self._jobs.change(name, {"suspend": True})
            waits.look(job)
            with suppress(Interrupted):
                await unless(_pause(), *(() if stopping else stops))
        return None

    async def _gather(self, run: PlannedRun, job: Job, wanted: Mapping[str, Any]) -> None:
        """Copy the files of a run that is done, and remove its job.

        Raises:
            ClusterError: they cannot be copied, or are not those of the whole run. The job stays.
        """
        version = await self._jobs.cluster_version()

        def accept(copied: RunDir) -> None:
            summary = copied.read_summary()
            if not summary.get("finished") or copied.read_job()["spec"].get("stop") != wanted["spec"]["stop"]:
                raise ClusterError("the copy has no end of the run, or that of another budget")
            self._folder.add_machine(_machine(version, summary.get("versions", {})))

        for left in reversed(range(_COPIES)):
            try:
                await asyncio.to_thread(self._files.copy, job, self._folder.run(run), accept)
                break
            except (ClusterError, CheckpointError, RunDirError) as error:
                if not left or not getattr(error, "passing", False):
                    message = (
                        f"the run of job {job['metadata']['name']} is done, but its files could not be copied"
                    )
                    raise ClusterError(f"{message}: {error}") from None
            await asyncio.sleep(backoff(_COPIES - left))
        del self._rounds[run.folder]
        await self._jobs.delete(job)


async def _pause() -> None:
    """Wait between two looks at a job."""
    await asyncio.sleep(_LOOK_SECONDS * random.uniform(0.8, 1.2))


def check(experiment: Experiment) -> None:
    """Make sure that the jobs of all variants can run on a cluster.

    Raises:
        JobInvalid: with every mistake.
    """
    compared = experiment if experiment.variants else experiment.comparing(DEFAULT, {})
    mistakes: dict[str, FieldError] = {}
    for run in plan(compared):
        try:
            manifest(experiment, run, run.job, "")
        except JobInvalid as error:
            mistakes |= {f"{run.variant}: {item}": item for item in error.errors}
    if mistakes:
        raise JobInvalid(list(mistakes.values()))


def _differing(existing: Job, wanted: Mapping[str, Any]) -> list[str]:
    """The fields that a run's results depend on, and in which two jobs differ."""
    old, new = (deciding(resolve_stored(job).to_dict()["spec"]) for job in (existing, dict(wanted)))
    return [f"spec.{path}" for path in sorted({*old, *new}) if old.get(path) != new.get(path)]


_NO_PACKAGES = ("python", "machine", "device")


def _machine(version: str, versions: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of machine.json."""
    device = versions.get("device", "cpu")  # versions of older summaries have none
    return {
        "cluster": f"Kubernetes {version}",
        **({"gpu": device} if device != "cpu" else {}),
        "python": versions.get("python"),
        "versions": {name: value for name, value in versions.items() if name not in _NO_PACKAGES},
    }
