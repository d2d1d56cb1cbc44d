"""Problems of pods and Revisions, each with cause and remedy. Pure functions of observed objects.

The learner's own are in learner_diagnosis.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nitro_operator.builders import actors as actor_builder
from nitro_operator.kube import names
from nitro_operator.kube.errors import over_quota
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.observed import (
    Observed,
    alive,
    condition,
    container,
    containers,
    terminating,
)
from nitro_operator.observation.reported import moment
from nitro_operator.observation.words import cut, words_of

PULL_FAILURES = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
}
_OF_PODS = re.compile(
    r"(count/)?pods|((requests|limits)\.)?(cpu|memory|ephemeral-storage)|(requests|limits)\..+/.+"
)
"""What quotas call that which fewer or smaller actors take less of."""
_OF_CLAIMS = re.compile(
    r"(count/)?persistentvolumeclaims|requests\.storage|.+\.storageclass\.storage\.k8s\.io/.+"
)

_CORDONED = "node(s) were unschedulable"
"""What the scheduler says of nodes that are cordoned, as `kubectl drain` leaves them."""


@dataclass(frozen=True)
class Problem:
    """Why something is not ready."""

    reason: str
    """One CamelCase word."""
    message: str
    """Cause and remedy."""
    warning: bool = True
    """Whether somebody has to act; False if the problem passes by itself."""


def actor_problem(pods: Iterable[Object], revision: Object | None) -> Problem | None:
    """The reason why actors do not serve, if there is one: from the pods, otherwise from the Revision."""
    for pod in pods:
        if terminating(pod) or not alive(pod):  # another pod is in its place, or will be
            continue
        problem = (
            unschedulable(pod, "an actor", "spec.actor.resources, nodeSelector, tolerations or affinity")
            or not_started(pod, "an actor")
            or _actor_crash(pod)
        )
        if problem is not None:
            return problem
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
    """What a ResourceQuota refuses, with the remedy for what it counts."""
    if "must specify" in message:  # it limits a resource, so each container must name it
        return Problem(
            "QuotaExceeded",
            f"the namespace's ResourceQuota needs resources of every container: {short(message)}. Give "
            "them in spec.learner.resources, spec.actor.resources or spec.cache.resources (redis), and those "
            "of Knative's queue-proxy by a LimitRange with defaults; it is tried again by itself.",
        )
    asked = re.search(r"requested: (.*?), used: ", message)
    counted = {amount.partition("=")[0] for amount in asked[1].split(",")} if asked else set()
    if any(_OF_CLAIMS.fullmatch(name) for name in counted):
        remedy = (
            "Raise the quota, delete a claim that nobody needs, or lower "
            "spec.learner.checkpoint.pvc.size in a new job"
        )
    elif counted and not any(_OF_PODS.fullmatch(name) for name in counted):
        remedy = "Raise the quota, or delete an object of that kind that nobody needs"
    else:
        remedy = "Raise the quota, or lower spec.scaling.maxActors or the resources"
    return Problem(
        "QuotaExceeded",
        f"the namespace's ResourceQuota leaves no room: {short(message)}. {remedy}; it is tried again by "
        "itself.",
    )


def name_taken(objects: list[Object]) -> Problem:
    """Objects that look like a job's own, and are not."""
    return Problem(
        "NameTaken",
        f"the operator has not made {listed(objects)}, though the labels say so, and does not delete what is "
        "not its own. Delete each of them, or take the label nitro.dev/job off; the job then starts by "
        "itself.",
    )


def listed(objects: list[Object]) -> str:
    """The objects by kind and name, the first of them if they are many."""
    named = [f"{obj['kind']} {obj['metadata']['name']}" for obj in objects[:5]]
    return ", ".join(named) + (f" and {len(objects) - 5} more" if len(objects) > 5 else "")


def mend(change: str) -> str:
    """The remedy for a cause that a suspended job can remove."""
    return (
        f"Remedy: set spec.suspend to true, {change}, and set spec.suspend to false; the run continues from "
        "its last checkpoint."
    )


def unschedulable(pod: Object, who: str, where: str) -> Problem | None:
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
    cause = short(scheduled.get("message", ""))
    if "persistentvolumeclaim" in cause and ("not found" in cause or "being deleted" in cause):
        remedy = (
            "Create that claim. If it is that of spec.resumeFrom, and the job has a checkpoint of its own, "
            "suspend the job and resume it instead"
        )
    elif "PersistentVolumeClaim" in cause or "persistentvolumeclaim" in cause:
        remedy = "Give the claim a storage class that exists (spec.learner.checkpoint.pvc) or a volume"
    else:
        cordoned = "end a drain that is over (kubectl uncordon NODE), " if _CORDONED in cause else ""
        remedy = f"Add such a node, {cordoned}or suspend the job, change {where}, and resume it"
    return Problem(
        "Unschedulable", f"no node can take {who}: {cause}. {remedy}; it is tried again by itself."
    )


def not_started(pod: Object, who: str) -> Problem | None:
    for status in containers(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason", ""), short(waiting.get("message", ""))
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
                + _creation_remedy(pod, message),
            )
    return None


def _creation_remedy(pod: Object, message: str) -> str:
    job = re.escape(pod["metadata"]["labels"][names.JOB_LABEL])
    if re.search(rf'secret "{job}-(\w+-)?credentials" not found', message):
        return "The operator creates this Secret again within a minute."
    return "Create the Secret or ConfigMap that is missing, or correct it: the pod then starts by itself."


def _actor_crash(pod: Object) -> Problem | None:
    status = container(pod, actor_builder.CONTAINER)
    if status is None or status.get("ready") or _was_ready_since(pod, status):
        return None
    ended = terminated(status)
    if ended.get("reason") == "OOMKilled":
        return Problem(
            "ActorOOMKilled",
            "an actor was killed because it used more memory than its limit. "
            f"{mend('raise spec.actor.resources.limits.memory')}",
        )
    if ended and ended.get("exitCode", 0) != 0:
        return Problem(
            "ActorCrashed",
            f"an actor ended with exit code {ended['exitCode']}. Last words: {words_of(ended)} Remedy: if "
            "its image is at fault, set spec.suspend to true, give spec.actor.image the mended one, and set "
            "spec.suspend to false. spec.environment cannot change: if that is wrong, delete the job, "
            "correct it and create the job again.",
        )
    return None


def _was_ready_since(pod: Object, status: Object) -> bool:
    """Whether a container that is not ready was so after its last start: then the end before that start is
    not why."""
    began = moment(((status.get("state") or {}).get("running") or {}).get("startedAt"))
    changed = moment((condition(pod, "Ready") or {}).get("lastTransitionTime"))
    return began is not None and changed is not None and changed > began


def _revision_problem(revision: Object | None) -> Problem | None:
    ready = condition(revision, "Ready")
    if ready is None or ready.get("status") != "False":
        return None
    text = f"{ready.get('reason', '')} {ready.get('message', '')}"
    if over_quota(text):
        return quota_problem(text)
    return Problem(
        ready.get("reason") or "RevisionFailed",
        f"Knative says of the actors: {short(ready.get('message', ''))}. "
        "Remove the cause. If the actors do not recover, set spec.suspend to true and back to false, "
        "which creates the Revision again.",
    )


def terminated(status: Object | None) -> Object:
    """How a container ended, now or before its last start; empty if it has not."""
    status = status or {}
    ended: Object = (
        (status.get("state") or {}).get("terminated")
        or (status.get("lastState") or {}).get("terminated")
        or {}
    )
    return ended


def short(text: str) -> str:
    return cut(text.strip().rstrip("."), 600)
