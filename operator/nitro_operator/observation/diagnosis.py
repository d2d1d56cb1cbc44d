"""Problems of pods and Revisions, each with cause and remedy. Pure functions of observed objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nitro_operator.builders import actors as actor_builder
from nitro_operator.builders import learner as learner_builder
from nitro_operator.builders import redis as redis_builder
from nitro_operator.kube import names
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.observed import (
    Observed,
    condition,
    container,
    containers,
    redis_status,
    terminating,
)

PULL_FAILURES = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
}
LAST_LINES, LAST_CHARACTERS = 4, 600


@dataclass(frozen=True)
class Problem:
    """Why something is not ready."""

    reason: str
    """One CamelCase word."""
    message: str
    """Cause and remedy."""
    warning: bool = True
    """Whether somebody has to act; False if the problem passes by itself."""


def learner_problem(observed: Observed, backoff_limit: int) -> Problem | None:
    """The reason why the learner does not run, if there is one."""
    pod = observed.learner_pod
    if pod is None or terminating(pod):
        return None
    return (
        _unschedulable(pod, "the learner", "spec.learner.resources, nodeSelector, tolerations or affinity")
        or _not_started(pod, "the learner")
        or _redis(observed)
        or _crashed(observed, pod, backoff_limit)
    )


def actor_problem(pods: Iterable[Object], revision: Object | None) -> Problem | None:
    """The reason why actors do not serve, if there is one: from the pods, otherwise from the Revision."""
    alive = [pod for pod in pods if not terminating(pod)]
    for pod in alive:
        found = (
            _unschedulable(pod, "an actor", "spec.actor.resources, nodeSelector, tolerations or affinity")
            or _not_started(pod, "an actor")
            or _actor_crash(pod)
        )
        if found is not None:
            return found
    return _revision_problem(revision)


def queue_problem(observed: Observed) -> Problem:
    """Why the learner has no pod while its Job is suspended."""
    meta = (observed.learner_job or {})["metadata"]
    queue = (meta.get("labels") or {}).get(f"{names.KUEUE_LABELS}queue-name")
    by = f"it waits in Kueue's queue {queue!r}" if queue else "it waits until the Job's spec.suspend is false"
    return Problem(
        "Queued",
        f"the Job {meta['name']} of the learner is suspended, so it has no pod: {by}. "
        f"`kubectl -n {meta['namespace']} get workloads` shows what Kueue knows of it. The run goes on by "
        "itself, from its last checkpoint if it has one.",
        warning=False,
    )


def quota_problem(message: str) -> Problem:
    return Problem(
        "QuotaExceeded",
        f"the namespace's ResourceQuota leaves no room: {_short(message)}. Raise the quota, or lower "
        "spec.scaling.maxActors or the resources; it is tried again by itself.",
    )


def finished_message(job: Object, pod: Object | None) -> Problem:
    """Why a learner Job failed, with the learner's last words."""
    failed = condition(job, "Failed") or {}
    status = container(pod, learner_builder.CONTAINER)
    words = _last_words(status)
    code = _exit_code(status)
    if failed.get("reason") == "DeadlineExceeded":
        return deadline_problem()
    if failed.get("reason") == "PodFailurePolicy" or code == learner_builder.INVALID_JOB_EXIT_CODE:
        remedy = (
            "Remedy: delete the job, correct this and create the job again. If the image is at fault, "
            "set spec.suspend to true, correct it (spec.learner.image), and set spec.suspend to false."
        )
        return Problem("InvalidJob", f"the learner refused the job: {words} {remedy}")
    tries = f"{failed.get('reason') or 'Failed'}: {failed.get('message') or 'the learner Job failed'}"
    return Problem("LearnerFailed", f"{tries}. Last exit code {code}. Last words: {words} {REVIVE}")


def _mend(change: str) -> str:
    """The remedy for a cause that a suspended job can remove."""
    return (
        f"Remedy: set spec.suspend to true, {change}, and set spec.suspend to false; the run continues from "
        "its last checkpoint."
    )


REVIVE = _mend("remove the cause (images, resources and pod settings can change now)")


def deadline_problem() -> Problem:
    return Problem(
        "DeadlineExceeded",
        "the job did not finish within spec.activeDeadlineSeconds. Remedy: raise it, then set "
        "spec.suspend to true and back to false; the run continues from its last checkpoint.",
    )


def _unschedulable(pod: Object, who: str, where: str) -> Problem | None:
    scheduled = condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False" and scheduled.get("reason") == "SchedulingGated":
        return Problem(
            "SchedulingGated",
            f"{who} may not be scheduled yet: whoever gave its pod a scheduling gate, such as Kueue, has to "
            "remove the gate. Kueue does so when its queue has room for the pod.",
            warning=False,
        )
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return None
    cause = _short(scheduled.get("message", ""))
    if "persistentvolumeclaim" in cause and ("not found" in cause or "being deleted" in cause):
        remedy = (
            "Create that claim. If it is that of spec.resumeFrom, and the job has a checkpoint of its own, "
            "suspend the job and resume it instead"
        )
    elif "PersistentVolumeClaim" in cause or "persistentvolumeclaim" in cause:
        remedy = "Give the claim a storage class that exists (spec.learner.checkpoint.pvc) or a volume"
    else:
        remedy = f"Add such a node, or suspend the job, change {where}, and resume it"
    return Problem(
        "Unschedulable", f"no node can take {who}: {cause}. {remedy}; it is tried again by itself."
    )


def _not_started(pod: Object, who: str) -> Problem | None:
    for status in containers(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason", ""), _short(waiting.get("message", ""))
        if reason in PULL_FAILURES:
            return Problem(
                "ImagePullFailed",
                f"the image {status.get('image')!r} of {who} cannot be pulled ({reason}: "
                f"{message}). Push it, or give the namespace's service account a pull secret; the node tries "
                "again by itself. If its name is wrong, suspend the job, correct it, and resume the job.",
            )
        if reason in {"CreateContainerConfigError", "CreateContainerError"}:
            return Problem(
                "ContainerNotCreated",
                f"the container {status['name']} of {who} cannot be created ({reason}: {message}). "
                "A missing Secret is created again within a minute; correct anything else in the cluster.",
            )
    return None


def _redis(observed: Observed) -> Problem | None:
    status = redis_status(observed)
    if status is None:
        return None
    state = status.get("state") or {}
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    crashing = (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff" or (
        ended is not None and not status.get("started")
    )
    learner = container(observed.learner_pod, learner_builder.CONTAINER) or {}
    if not crashing or "terminated" in (learner.get("state") or {}):
        return None
    log = ((ended or {}).get("message") or "").strip().splitlines()
    words = _short(log[-1] if log else "it ends again and again")
    return Problem(
        "RedisUnreachable",
        f"Redis beside the learner is not reachable: {words}. Check the operator's Redis image "
        f"({status.get('image')}) and the learner pod's {redis_builder.CONTAINER} container; it "
        "restarts by itself.",
    )


def _crashed(observed: Observed, pod: Object, backoff_limit: int) -> Problem | None:
    status = container(pod, learner_builder.CONTAINER)
    code = _exit_code(status)
    if code in (None, 0):
        return None
    failures = ((observed.learner_job or {}).get("status") or {}).get("failed", 0)
    cause = _terminated(status).get("reason")
    if cause == "OOMKilled":
        return Problem(
            "LearnerOOMKilled",
            f"the learner was killed for memory (failure {failures}). It used more memory than its limit. "
            f"{_mend('raise spec.learner.resources.limits.memory')}",
        )
    return Problem(
        "LearnerCrashed",
        f"the learner ended with exit code {code} (failure {failures}, {backoff_limit} retries "
        "allowed). Last words: "
        f"{_last_words(status)} It is started again from its last checkpoint.",
    )


def _actor_crash(pod: Object) -> Problem | None:
    status = container(pod, actor_builder.CONTAINER)
    if status is None or status.get("ready"):
        return None
    ended = _terminated(status)
    if ended.get("reason") == "OOMKilled":
        return Problem(
            "ActorOOMKilled",
            "an actor was killed because it used more memory than its limit. "
            f"{_mend('raise spec.actor.resources.limits.memory')}",
        )
    if ended and ended.get("exitCode", 0) != 0:
        return Problem(
            "ActorCrashed",
            f"an actor ended with exit code {ended['exitCode']}. Last words: {_last_words(status)} "
            "Remedy: set spec.suspend to true, correct the image (spec.actor.image) or the environment, and "
            "set spec.suspend to false.",
        )
    return None


def _revision_problem(revision: Object | None) -> Problem | None:
    found = condition(revision, "Ready")
    if found is None or found.get("status") != "False":
        return None
    text = f"{found.get('reason', '')} {found.get('message', '')}"
    if "exceeded quota" in text:
        return quota_problem(text)
    return Problem(
        found.get("reason") or "RevisionFailed",
        f"Knative says of the actors: {_short(found.get('message', ''))}. "
        "Remove the cause. If the actors do not recover, set spec.suspend to true and back to false, "
        "which creates the Revision again.",
    )


def _terminated(status: Object | None) -> Object:
    status = status or {}
    ended: Object = (
        (status.get("state") or {}).get("terminated")
        or (status.get("lastState") or {}).get("terminated")
        or {}
    )
    return ended


def _exit_code(status: Object | None) -> int | None:
    code: int | None = _terminated(status).get("exitCode")
    return code


def _last_words(status: Object | None) -> str:
    """The last lines of the container's message: a traceback's end is where the error is."""
    lines = [line.strip() for line in (_terminated(status).get("message") or "").splitlines() if line.strip()]
    words = " / ".join(lines[-LAST_LINES:])[-LAST_CHARACTERS:]
    return f'"{words}".' if words else "none."


def _short(text: str) -> str:
    return text.strip().rstrip(".")[:600]
