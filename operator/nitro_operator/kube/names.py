"""Names and labels of a job's objects, for builders and observers.

Every name ends with a suffix. Within a kind, no suffix is the end of another suffix. So jobs like
`hopper` and `hopper-actors` may be in one namespace.
"""

from nitro_operator.kube.kinds import TRAINING_JOB, Object

FIELD_MANAGER = "nitro-operator"
JOB_LABEL = "nitro.dev/job"
RUN_LABEL = "nitro.dev/run"
"""Label of pods: their job's uid. ReplicaSets own actor pods, so the owner does not say whose they are."""
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
COMPONENT_LABEL = "app.kubernetes.io/component"
TEMPLATE_HASH = "nitro.dev/template-hash"
SETTINGS_HASH = "nitro.dev/settings-hash"
"""Annotation of a learner's Job: a hash of the settings that it was made with, as far as they may change."""

NOT_BACKED_UP = {"velero.io/exclude-from-backup": "true"}
"""Label of children: Velero leaves them out. A restored job gets new ones, with its new uid and passwords."""

KUEUE_LABELS = "kueue.x-k8s.io/"
"""Prefix of the labels by which Kueue finds the queue and the priority of an object."""

LEARNER, ACTOR, REDIS = "learner", "actor", "redis"
ACTORS_PER_POD = "nitro.dev/actors-per-pod"
"""Annotation of pods with several actors."""


def learner(job: str) -> str:
    return f"{job}-learner"


def redis(job: str) -> str:
    return f"{job}-redis"


def credentials(job: str, part: str) -> str:
    """The name of a Secret, which is never used for another one.

    While a pod of a node refers to an immutable Secret, the kubelet gives all new pods there the content that
    it knows by this name, also after the Secret was replaced (kubernetes/kubernetes#131589).

    Args:
        part: what makes the name unique.
    """
    return f"{job}-{part[:8]}-credentials"


def actors(job: str) -> str:
    return f"{job}-actors"


def revision(job: str) -> str:
    """The one Revision of the actors' Knative Service; rounds change its scale, never its template."""
    return f"{job}-actors-v1"


def checkpoint_claim(job: str) -> str:
    return f"{job}-checkpoint"


def labels(job: str, component: str | None = None) -> dict[str, str]:
    pairs = {
        "app.kubernetes.io/name": "nitro",
        "app.kubernetes.io/instance": job,
        MANAGED_BY_LABEL: FIELD_MANAGER,
        JOB_LABEL: job,
    }
    return pairs | ({COMPONENT_LABEL: component} if component else {})


def owner_reference(job: Object) -> Object:
    """The reference by which the garbage collector removes a child with its job."""
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def owned_by(child: Object, uid: str) -> bool:
    """Whether a child belongs to the job with this uid, not to a deleted one of the same name."""
    return any(ref["uid"] == uid for ref in child["metadata"].get("ownerReferences") or [])


def made_for(child: Object, job: str) -> bool:
    """Whether the operator created a child for this job, or for an earlier one of the same name.

    The owner reference decides. Two kinds of children have no owner: a claim that outlives its job, and a
    child that `kubectl delete --cascade=orphan` left. For them, the labels decide.
    """
    owners = child["metadata"].get("ownerReferences") or []
    if owners:
        return any(ref.get("kind") == TRAINING_JOB.kind and ref.get("name") == job for ref in owners)
    pairs = child["metadata"].get("labels") or {}
    return pairs.get(MANAGED_BY_LABEL) == FIELD_MANAGER and pairs.get(JOB_LABEL) == job
