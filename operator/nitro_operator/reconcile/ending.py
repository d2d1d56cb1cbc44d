"""The end of a job: its learner is deleted, and the job itself when its time to live is over."""

from collections.abc import Iterator
from contextlib import contextmanager

from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import KNATIVE_SERVICE, LEARNER_JOB, POD, TRAINING_JOB, Kind, Object
from nitro_operator.observation import reported
from nitro_operator.observation.observed import holds, left_running, terminating
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.reconcile.trouble import refusal

GRACE_SECONDS = 30
"""Time for containers that others put into a learner's pod to end after the learner: Kubernetes' default. The
pod's own is the learner's, which needs longer."""


class Ending:
    """Deletes what a job that ends or stops leaves."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def stop(self, run: ReconcileContext) -> None:
        """Have the learner write a checkpoint and end."""
        job = run.observed.learner_job
        if job is not None and not terminating(job):
            await delete_learner(self._kube, run, job)

    async def remove_actors(self, run: ReconcileContext) -> None:
        """Delete the actors of a deleted job. They go sooner than those whose number is set to 0."""
        service = run.observed.actor_service
        if service is None or terminating(service):
            return
        with noting(run, "actors", KNATIVE_SERVICE, service):
            await self._kube.delete(KNATIVE_SERVICE, service)

    async def clean_up(self, run: ReconcileContext) -> None:
        """Delete the learner of a finished job, if it goes on, and the job when its time to live is over."""
        job = run.observed.learner_job
        if job is not None and not (holds(job, "Complete") or holds(job, "Failed") or terminating(job)):
            await delete_learner(self._kube, run, job)
        await self.end_pod(run)
        lifetime = run.job["spec"].get("ttlSecondsAfterFinished")
        completed = reported.since(run.job, "completionTime", run.server_now)
        if lifetime is None or completed is None or terminating(run.job):
            return
        left = lifetime - (run.server_now - completed).total_seconds()
        if left > 0:
            run.again.append(left + 0.1)
            return
        # Unchanged: a user may have changed the job, and the watch may not have told it yet.
        await self._kube.delete(TRAINING_JOB, run.job, unchanged=True)

    async def end_pod(self, run: ReconcileContext) -> None:
        """Delete a learner's pod that containers of others keep after its learner has ended.

        It is no eviction, which would cost no retry: the Job counts the pod by the learner's exit code. The
        status has that code by now, because the pod's log goes with the pod.
        """
        pod = run.observed.learner_pod
        if pod is None or not left_running(pod):
            return
        with noting(run, "learner", POD, pod):
            await self._kube.delete(POD, pod, grace_seconds=GRACE_SECONDS)


async def delete_learner(kube: Kube, run: ReconcileContext, job: Object) -> None:
    """Delete the learner's Job. A refusal becomes the learner's trouble."""
    # In the foreground: the Job stays until its pod has ended, so two learners never share a checkpoint.
    with noting(run, "learner", LEARNER_JOB, job):
        await kube.delete(LEARNER_JOB, job, foreground=True)


@contextmanager
def noting(run: ReconcileContext, part: str, kind: Kind, obj: Object) -> Iterator[None]:
    """Make the refusal of a write to an object the trouble of a part of the job."""
    try:
        yield
    except ApiError as error:
        run.memory.trouble[part] = refusal(kind, obj["metadata"]["name"], error)
