"""The ConfigMap of spec.code: is it there, and is it the job's code? It goes with its jobs."""

import base64
import binascii
import hashlib

from nitro_api.spec.code import PACKAGE, config_map_name
from nitro_operator.builders import JobView
from nitro_operator.kube import names
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import CONFIG_MAP, Object
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.reconcile.trouble import refusal

LOOK_SECONDS = 5.0
"""Time between two looks at a ConfigMap that a job waits for: it is not watched."""


async def find_code(run: ReconcileContext, view: JobView, kube: Kube) -> None:
    """Before the learner starts, look at the code's ConfigMap, and have it go with the job.

    Jobs of the same code share it: each is one of its owners, so it goes with the last of them.
    """
    digest = view.spec.code
    if digest is None or run.observed.learner_job is not None:
        return
    name = config_map_name(digest)
    try:
        found = await kube.get(CONFIG_MAP, view.namespace, name)
        problem = _fault(found, digest)
        if problem is None and not names.owned_by(found, view.uid):
            await kube.merge(CONFIG_MAP, view.namespace, name, _owned(found, view))
    except ApiError as error:
        if error.namespace_terminating:
            raise
        problem = _missing(name, digest) if error.status == 404 else refusal(CONFIG_MAP, name, error)
    if problem is not None:
        run.waiting = problem
        run.again.append(LOOK_SECONDS)


def _owned(found: Object, view: JobView) -> Object:
    """The patch that adds the job to the owners. It has the version: another job may add itself meanwhile."""
    meta = found["metadata"]
    mine = {**names.owner_reference(view.job), "controller": False}  # an object has one controller at most
    owners = [*(meta.get("ownerReferences") or []), mine]
    return {"metadata": {"resourceVersion": meta["resourceVersion"], "ownerReferences": owners}}


def _missing(name: str, digest: str) -> Problem:
    return Problem(
        "CodeMissing",
        f"spec.code: ConfigMap {name} does not exist in this namespace. The job waits for it: apply what "
        f"`nitro code` writes for the folder whose digest is {digest}. If the folder has changed since, "
        "delete the job and create it with the new digest.",
    )


def _fault(found: Object, digest: str) -> Problem | None:
    """Why a ConfigMap is not the one of the job's code."""
    name = found["metadata"]["name"]
    try:
        package = base64.b64decode((found.get("binaryData") or {})[PACKAGE], validate=True)
    except (KeyError, binascii.Error):
        holds = f"it has no {PACKAGE}"
    else:
        actual = hashlib.sha256(package).hexdigest()
        if actual == digest:
            return None
        holds = f"the digest of its {PACKAGE} is {actual}, and the job says {digest}"
    return Problem(
        "CodeDiffers",
        f"spec.code: ConfigMap {name} does not hold the job's code: {holds}. Delete it, if it is nobody "
        "else's, and apply what `nitro code` writes for the folder; the job then starts by itself.",
    )
