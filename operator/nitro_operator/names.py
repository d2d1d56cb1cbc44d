"""Names and labels of a job's objects: one place, so that builders and observers cannot differ.

Every name has a suffix, and no kind has two of which one ends with the other: `hopper` and `hopper-actors`
may both be jobs of one namespace.
"""

from __future__ import annotations

from nitro_operator.kinds import Object

FIELD_MANAGER = "nitro-operator"
JOB_LABEL = "nitro.dev/job"
COMPONENT_LABEL = "app.kubernetes.io/component"
TEMPLATE_HASH = "nitro.dev/template-hash"

LEARNER, ACTOR, REDIS = "learner", "actor", "redis"


def learner(job: str) -> str:
    return f"{job}-learner"


def redis(job: str) -> str:
    return f"{job}-redis"


def credentials(job: str) -> str:
    return f"{job}-credentials"


def actors(job: str) -> str:
    return f"{job}-actors"


def revision(job: str) -> str:
    """The one Revision of the actors' Knative Service; rounds change its scale, never its template."""
    return f"{job}-actors-v1"


def checkpoint_claim(job: str) -> str:
    return f"{job}-checkpoint"


def labels(job: str, component: str | None = None) -> dict[str, str]:
    found = {
        "app.kubernetes.io/name": "nitro",
        "app.kubernetes.io/instance": job,
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        JOB_LABEL: job,
    }
    return found | ({COMPONENT_LABEL: component} if component else {})


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
    """Whether a child belongs to this very job, not to a deleted one of the same name."""
    return any(ref["uid"] == uid for ref in child["metadata"].get("ownerReferences") or [])
