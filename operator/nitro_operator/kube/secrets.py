"""Secrets that the operator makes. They are read by name, never listed."""

from nitro_operator.kube import names
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import SECRET, Object


async def find(kube: Kube, secret: Object) -> Object | None:
    """The Secret of this name that exists; None if there is none.

    Raises:
        ApiError: 409 if it has another owner.
    """
    meta = secret["metadata"]
    try:
        observed = await kube.get(SECRET, meta["namespace"], meta["name"])
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    if not names.owned_by(observed, meta["ownerReferences"][0]["uid"]):
        raise ApiError(
            409, "AlreadyExists", f"Secret {meta['name']} belongs to another owner; it must go first"
        )
    return observed


async def get_or_create(kube: Kube, secret: Object) -> Object:
    """The Secret of this name that exists, or this one, which is then new.

    Raises:
        ApiError: 409 if the existing one has another owner.
    """
    observed = await find(kube, secret)
    if observed is not None:
        return observed
    try:
        return await kube.create(secret)
    except ApiError as refusal:
        # It may be our own: of a first try whose answer was lost.
        observed = await find(kube, secret) if refusal.reason == "AlreadyExists" else None
        if observed is None:
            raise
        return observed
