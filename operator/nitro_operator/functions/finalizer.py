"""The finalizer that keeps a deleted job until its function is removed."""

import asyncio
import random

from nitro_api.spec.lambda_backend import FINALIZER
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import TRAINING_JOB, Object

ORPHAN = "orphan"
"""Kubernetes' own: its garbage collector takes the owner away from all children, and then the finalizer."""
ATTEMPTS = 5


def held(job: Object) -> bool:
    return FINALIZER in (job["metadata"].get("finalizers") or [])


def orphans(job: Object) -> bool:
    """Whether a deleted job leaves its children behind (`kubectl delete --cascade=orphan`)."""
    return ORPHAN in (job["metadata"].get("finalizers") or []) and not held(job)


async def put(kube: Kube, job: Object) -> Object | None:
    """Add the finalizer. Returns the changed job; None if it is deleted or being deleted. Raises ApiError."""
    return await _change(kube, job, present=True)


async def drop(kube: Kube, job: Object) -> None:
    """Remove the finalizer. Raises ApiError."""
    await _change(kube, job, present=False)


async def _change(kube: Kube, job: Object, *, present: bool) -> Object | None:
    """Write the whole list of finalizers. If another client changes it meanwhile, read it and try again."""
    meta = job["metadata"]
    for attempt in range(ATTEMPTS):
        try:
            fresh = await kube.get(TRAINING_JOB, meta["namespace"], meta["name"])
            if fresh["metadata"]["uid"] != meta["uid"]:
                return None
            if held(fresh) == present:
                return fresh
            if present and "deletionTimestamp" in fresh["metadata"]:
                return None
            others = [name for name in fresh["metadata"].get("finalizers") or [] if name != FINALIZER]
            patch = {
                "metadata": {
                    "finalizers": [*others, FINALIZER] if present else others,
                    "resourceVersion": fresh["metadata"]["resourceVersion"],
                }
            }
            return await kube.merge(TRAINING_JOB, meta["namespace"], meta["name"], patch)
        except ApiError as error:
            if error.status == 404:
                return None
            if error.status != 409 or attempt == ATTEMPTS - 1:
                raise
        await asyncio.sleep(random.uniform(0, 0.1 * 2**attempt))
    raise AssertionError("unreachable")
