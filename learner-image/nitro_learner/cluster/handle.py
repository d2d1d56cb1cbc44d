"""A job of a cluster in the hands of a user: sent, followed, suspended, resumed and removed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from nitro_api import FieldError, JobInvalid, JobStatus, NitroTrainingJob, ResolvedJob, resolve_stored
from nitro_api.spec.learner_status import HistoryEntry
from nitro_api.spec.status import Condition
from nitro_learner.cluster.api import current_namespace
from nitro_learner.cluster.jobs import ClusterError, Job, NamespaceJobs, asked_again, list_jobs, object_of

ENDED = ("Succeeded", "Failed")
"""Phases of a job that has ended."""


class JobFailed(Exception):  # noqa: N818
    """A job of a cluster failed.

    Attributes:
        reason: of its condition Failed, in one CamelCase word.
        message: cause and remedy in a sentence.
    """

    def __init__(self, job: str, reason: str, message: str) -> None:
        super().__init__(f"job {job} failed ({reason}): {message}")
        self.reason = reason
        self.message = message


class ClusterJob:
    """One job of a cluster, by its name. Blocking.

        job = ClusterJob("hopper", namespace="team-a")
        for entry in job.rounds():                  # as they end, until the job has ended
            print(entry.round, entry.reward_mean)
        job.wait()                                  # its last status

    Args:
        namespace: its namespace; that of the context if none is given.
        context: of the kubeconfig; the current one if none is given. In a pod without a kubeconfig its
            service account is used.

    Every method raises ClusterError where the API server does not do what is asked, or there is no such job.
    A job that was made anew under the same name is another one.
    """

    def __init__(self, name: str, *, namespace: str | None = None, context: str | None = None) -> None:
        self.name = name
        self.namespace = namespace or current_namespace(context)
        self.context = context
        self._uid: str | None = None

    def __repr__(self) -> str:
        return f"ClusterJob({self.name!r}, namespace={self.namespace!r})"

    @property
    def status(self) -> JobStatus:
        """What operator and learner report now."""
        return _status(self._get())

    @property
    def job(self) -> ResolvedJob:
        """The job as the cluster has it, with every default filled in."""
        return resolve_stored(self._get())

    def looks(self) -> Iterator[JobStatus]:
        """The status about every second; the last one is that of the end."""
        for stored in asked_again(self._jobs, self._get):
            status = _status(stored)
            yield status
            if status.phase in ENDED:
                return

    def rounds(self) -> Iterator[HistoryEntry]:
        """The rounds as they end, until the job has ended. It begins with the last 60 that are done already.
        Rounds that a new learner does again, from the checkpoint on, come again.

        Raises:
            JobFailed: the job failed.
        """
        seen, status = SeenRounds(), JobStatus()
        for status in self.looks():
            yield from seen.take(status)
        self._sound(status)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """The status of the job when it has ended.

        Args:
            timeout: seconds after which to give up; None waits for as long as it takes.

        Raises:
            JobFailed: the job failed.
            TimeoutError: it has not ended in that time, and goes on.
        """
        began, status = time.monotonic(), JobStatus()
        for status in self.looks():
            waited = time.monotonic() - began
            if timeout is not None and waited >= timeout and status.phase not in ENDED:
                raise TimeoutError(f"job {self.name} is {status.phase or 'Pending'} after {waited:.0f} s")
        self._sound(status)
        return status

    def suspend(self) -> None:
        """Have it release all pods. Its learner writes a checkpoint before."""
        self._change(suspend=True)

    def resume(self) -> None:
        """Have it go on from its checkpoint."""
        self._change(suspend=False)

    def delete(self) -> None:
        """Remove it, with all that runs for it. What spec.learner.checkpoint retains stays."""
        self._jobs.delete(self._get())

    def _change(self, *, suspend: bool) -> None:
        self._get()  # not another job of the same name
        self._jobs.change(self.name, {"suspend": suspend})

    @cached_property
    def _jobs(self) -> NamespaceJobs:
        return NamespaceJobs(self.namespace, self.context)

    def _get(self) -> Job:
        gone = ClusterError(f"job {self.name} of namespace {self.namespace} was deleted")
        try:
            stored = self._jobs.get(self.name)
        except ClusterError as error:
            if error.no_such_job and self._uid is not None:
                raise gone from None
            raise
        uid = stored["metadata"]["uid"]
        if self._uid not in (None, uid):
            raise gone
        self._uid = uid
        return stored

    def _sound(self, status: JobStatus) -> None:
        if status.phase == "Failed":
            raise failure(self.name, status)


def failure(name: str, status: JobStatus) -> JobFailed:
    """The error of a job that has failed."""
    why = condition_of(status, "Failed")
    return JobFailed(name, why.reason if why else "Failed", why.message if why else "nothing says why")


class SeenRounds:
    """Tells which rounds of a job's history are new."""

    def __init__(self) -> None:
        self._last = 0

    def take(self, status: JobStatus) -> list[HistoryEntry]:
        """The rounds that have ended since the status before."""
        training = status.training
        if training is None:
            return []
        self._last = min(self._last, training.round or 0)
        new = [entry for entry in training.history or [] if entry.round > self._last]
        if new:
            self._last = new[-1].round
        return new


def condition_of(status: JobStatus, kind: str) -> Condition | None:
    """A condition of the job; None where it has none of that type."""
    return next((entry for entry in status.conditions or [] if entry.type == kind), None)


def list_handles(namespace: str | None, context: str | None) -> list[ClusterJob]:
    """All jobs of a namespace, or of the cluster."""
    found = [(job["metadata"]["name"], job["metadata"]["namespace"]) for job in list_jobs(namespace, context)]
    return [ClusterJob(name, namespace=where, context=context) for name, where in found]


def send(
    job: NitroTrainingJob,
    namespace: str | None,
    context: str | None,
    code: Mapping[str, Any] | None = None,
) -> ClusterJob:
    """Make a job that was checked on the cluster.

    Args:
        code: the ConfigMap that its spec.code names. It is made before the job, if it is not there already;
            it stays if the cluster does not take the job.

    Raises:
        JobInvalid: it names another namespace.
        ClusterError: the cluster does not take it; the message says what to do.
    """
    named = job.metadata.namespace
    if named and namespace and named != namespace:
        message = f"is not the namespace {namespace} that was asked for; leave one of them out"
        raise JobInvalid([FieldError("metadata.namespace", named, message)])
    handle = ClusterJob(job.metadata.name, namespace=namespace or named, context=context)
    jobs = NamespaceJobs(handle.namespace, context)
    if code is not None:
        jobs.bring(code)
    try:
        jobs.create(object_of(job), strict=True)
    except ClusterError as error:
        raise _refused(error, jobs, handle.name) from None
    return handle


def _refused(error: ClusterError, jobs: NamespaceJobs, name: str) -> ClusterError:
    """Why a job was not made, and what to do."""
    where, told = jobs.namespace, str(error)
    if error.status == 409 and (existing := jobs.find(name)):
        phase = _status(existing).phase or "Pending"
        told = (
            f"namespace {where} has a job {name} already ({phase}). Give this one another "
            f"metadata.name, or remove that one: kubectl delete ntj {name} --namespace {where}"
        )
    elif error.status == 404 and "namespaces" in told:
        told = (
            f"there is no namespace {where}; make it, or name another one: kubectl create namespace {where}"
        )
    elif error.status == 403 and "cannot create" in told:
        told = (
            f"you may not make jobs in namespace {where}. Name another namespace, or ask for the right to "
            f"create nitrotrainingjobs.nitro.dev in this one. {told}"
        )
    elif error.status == 400 and "unknown field" in told:
        told = f"the Nitro of the cluster is older than this one. Upgrade it, or leave the fields out. {told}"
    return ClusterError(told, status=error.status, passing=error.passing)


def _status(job: Job) -> JobStatus:
    return JobStatus.model_validate(job.get("status") or {})
