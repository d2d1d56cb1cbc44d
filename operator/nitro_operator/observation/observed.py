"""A job's children as the watches last reported them."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nitro_api.spec.pods import MOST_PER_POD
from nitro_operator.builders import learner as learner_builder
from nitro_operator.builders import redis as redis_builder
from nitro_operator.kube import names
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.kinds import (
    KNATIVE_SERVICE,
    LEARNER_JOB,
    POD,
    REVISION,
    TRAINING_JOB,
    VOLUME_CLAIM,
    JobKey,
    Object,
)


@dataclass(frozen=True)
class LearnerEnd:
    """The end of the newest learner pod."""

    pod: Object
    """As it was when its learner had ended, or as it was last seen."""
    by_itself: bool
    """Whether its learner ended before anybody asked the pod to end."""
    at: datetime | None = None
    """The time at which all of the pod had ended; None before."""
    next_start: datetime | None = None
    """The time at which Kubernetes starts the next pod, about; None while the pod has not ended."""


@dataclass(frozen=True)
class Observed:
    """The children that decisions depend on. They belong to this job, not to a deleted job of the same
    name."""

    learner_job: Object | None = None
    learner_pod: Object | None = None
    """The newest one of that Job. None if it is gone, also where older ones have stayed."""
    learner_end: LearnerEnd | None = None
    """Of that pod, or of one that is gone; None while it has not ended."""
    claim: Object | None = None
    """The job's own claim for its checkpoints."""
    former_pods: list[Object] = field(default_factory=list)
    """Where there is no Job: pods that a deleted one of this run has left. They may still train."""
    actor_service: Object | None = None
    revision: Object | None = None
    actor_pods: list[Object] = field(default_factory=list)
    foreign: list[Object] = field(default_factory=list)
    """What a deleted job of the same name has left, or a backup has brought back. All of it has to be gone
    before a learner starts."""


def observe(cache: Cache, job: Object) -> Observed:
    key = JobKey(job["metadata"]["namespace"], job["metadata"]["name"])
    uid = job["metadata"]["uid"]
    foreign: list[Object] = []

    def own(kind: Any, name: str) -> Object | None:
        child = cache.get(kind, key, name)
        if child is None or names.owned_by(child, uid):
            return child
        foreign.append(child)
        return None

    learner_job = own(LEARNER_JOB, names.learner(key.name))
    service = own(KNATIVE_SERVICE, names.actors(key.name))
    claim = cache.get(VOLUME_CLAIM, key, names.checkpoint_claim(key.name))
    if learner_job is None and claim is not None and _goes_with_another(claim, uid):
        # The claim is being removed. A learner that mounts it would lose its checkpoints at its next pause.
        foreign.append(claim)
    revision = cache.get(REVISION, key, names.revision(key.name))
    if learner_job is None and revision is not None and not revision["metadata"].get("ownerReferences"):
        foreign.append(revision)  # restored from a backup: it would go with no Knative Service
    pods = [pod for pod in cache.children(POD, key) if _component(pod) in (names.LEARNER, names.ACTOR)]
    foreign += [pod for pod in pods if alive(pod) and not _is_of_run(pod, job)]
    learners = [pod for pod in pods if _component(pod) == names.LEARNER and _is_of_run(pod, job)]
    former = [pod for pod in learners if alive(pod)]
    return Observed(
        learner_job=learner_job,
        learner_pod=max((p for p in learners if _is_of(p, learner_job)), key=created, default=None),
        claim=claim,
        former_pods=former if learner_job is None else [],
        actor_service=service,
        revision=revision,
        actor_pods=[pod for pod in actor_pods(cache, key) if _is_of_run(pod, job)],
        foreign=foreign,
    )


def actor_pods(cache: Cache, key: JobKey) -> list[Object]:
    """All actor pods of a job's name: also those that a deleted job has left, which still take room."""
    return [pod for pod in cache.children(POD, key) if _component(pod) == names.ACTOR]


def _component(pod: Object) -> str | None:
    component: str | None = pod["metadata"].get("labels", {}).get(names.COMPONENT_LABEL)
    return component


def created(obj: Object) -> str:
    """The time at which the API server stored an object, in whole seconds of UTC."""
    return str(obj["metadata"]["creationTimestamp"])


def _is_of_run(pod: Object, job: Object) -> bool:
    """Whether a pod is this job's, not that of a deleted one of the same name. Pods of earlier releases have
    no label that says it, but they are not older than their job."""
    run = pod["metadata"].get("labels", {}).get(names.RUN_LABEL)
    return bool(run == job["metadata"]["uid"]) if run is not None else created(pod) >= created(job)


def _goes_with_another(child: Object, uid: str) -> bool:
    """Whether a child is removed with a deleted job. A claim that outlives its job has no owner, so it is
    not."""
    owners = child["metadata"].get("ownerReferences") or []
    return any(ref.get("kind") == TRAINING_JOB.kind and ref["uid"] != uid for ref in owners)


def stranger(foreign: Object) -> bool:
    """Whether nobody deletes an object that stands in the way: the operator has not made it, for whatever
    labels it has. A pod goes with its owner."""
    meta = foreign["metadata"]
    if foreign["kind"] == POD.kind:
        mine = bool(meta.get("ownerReferences"))
    else:
        mine = names.made_for(foreign, meta["labels"][names.JOB_LABEL])
    return not mine and not terminating(foreign)


def _is_of(pod: Object, owner: Object | None) -> bool:
    return owner is not None and names.owned_by(pod, owner["metadata"]["uid"])


# ---------------------------------------------------------------- questions about objects


def condition(obj: Object | None, kind: str) -> Object | None:
    """The condition of that type, or None."""
    status = (obj or {}).get("status") or {}
    return next((c for c in status.get("conditions") or [] if c.get("type") == kind), None)


def holds(obj: Object | None, kind: str) -> bool:
    state = condition(obj, kind)
    return state is not None and state.get("status") == "True"


def terminating(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def alive(pod: Object) -> bool:
    """Whether a pod has not ended."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def ready(pod: Object) -> bool:
    return holds(pod, "Ready") and not terminating(pod)


def actors_of(pod: Object) -> int:
    """Number of actors in a pod, or in each pod of a Revision. Anybody may have written the annotation."""
    number = str((pod["metadata"].get("annotations") or {}).get(names.ACTORS_PER_POD, ""))
    return min(int(number), MOST_PER_POD) if re.fullmatch("[0-9]{1,3}", number) else 1


def containers(pod: Object) -> list[Object]:
    """The statuses of all containers, sidecars first."""
    status = pod.get("status") or {}
    statuses: list[Object] = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    return statuses


def container(pod: Object | None, name: str) -> Object | None:
    return next((c for c in containers(pod or {}) if c["name"] == name), None)


def named_secret(observed: Observed) -> str | None:
    """Name of the Secret with the token that the learner, or without one the actors, were made with."""
    for child in (observed.learner_job, observed.actor_service):
        if child is None or terminating(child):
            continue
        for variable in _variables(child):
            source = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
            if variable["name"] == learner_builder.TOKEN and "name" in source:
                return str(source["name"])
    return None


def _variables(child: Object) -> list[Object]:
    """The environment variables in the pods of a Job, or of a Knative Service."""
    variables: list[Object] = child["spec"]["template"]["spec"]["containers"][0].get("env") or []
    return variables


def queued(observed: Observed) -> bool:
    """Whether the learner's Job is suspended, by Kueue or by hand: then it has no pod."""
    job = observed.learner_job
    return job is not None and job["spec"].get("suspend") is True and not terminating(job)


def learner_running(observed: Observed) -> bool:
    """Whether the training container runs and is not being stopped."""
    pod = observed.learner_pod
    status = container(pod, learner_builder.CONTAINER)
    return (
        pod is not None
        and not terminating(pod)
        and status is not None
        and "running" in (status.get("state") or {})
    )


def learner_exit(pod: Object | None) -> Object | None:
    """How the training container ended (exitCode, message, ...); None if it has not ended."""
    status = container(pod, learner_builder.CONTAINER) or {}
    ended: Object | None = (status.get("state") or {}).get("terminated")
    return ended


def learner_done(observed: Observed) -> bool:
    """Whether the training container has ended well; its Job is Complete only some seconds later."""
    ended = learner_exit(observed.learner_end.pod if observed.learner_end else observed.learner_pod)
    return ended is not None and ended.get("exitCode") == 0


def left_running(pod: Object | None) -> list[str]:
    """Containers that go on after the learner has ended, so that its pod does not end. Somebody else has put
    them there: the kubelet itself ends Redis, which is a native sidecar."""
    if pod is None or terminating(pod) or not alive(pod) or learner_exit(pod) is None:
        return []
    others = (pod.get("status") or {}).get("containerStatuses") or []
    return [container["name"] for container in others if "terminated" not in (container.get("state") or {})]


def redis_status(observed: Observed) -> Object | None:
    return container(observed.learner_pod, redis_builder.CONTAINER)
