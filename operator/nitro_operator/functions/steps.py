"""The next change that brings a function from what it is to what it should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nitro_operator.functions.found import Found
from nitro_operator.functions.wish import Wish
from nitro_operator.kinds import Object

IMAGE_FAILURES = {"ImageAccessDenied", "ImageDeleted", "InvalidImage"}
"""Reasons of a failed change that lie in the code; any other lies in the settings."""


@dataclass(frozen=True)
class Step:
    """One call of AWS's API."""

    operation: str
    """Its name in boto3."""
    arguments: Object


def next_step(wish: Wish, found: Found | None, *, active: bool, again: bool = False) -> Step | None:
    """The first difference, as the call that removes it; None where there is none.

    Args:
        wish: what should be.
        found: what is; None where there is no function.
        active: whether the job runs. Otherwise a function is not made, and no concurrency is set aside: the
            account's other functions would go without.
        again: whether a change that AWS could not make is due to be tried again.
    """
    name = {"FunctionName": wish.name}
    if found is None:
        return Step("create_function", wish.creation()) if active else None
    failed = again and found.update == "Failed"
    retry_code = failed and found.update_reason[0] in IMAGE_FAILURES
    if found.image != wish.image or found.architecture != wish.architecture or retry_code:
        code = {"ImageUri": wish.image, "Architectures": [wish.architecture]}
        return Step("update_function_code", name | code)
    if found.configuration != wish.configuration or failed:
        return Step("update_function_configuration", name | wish.configuration)
    if any(found.tags.get(key) != value for key, value in wish.tags.items()):
        return Step("tag_resource", {"Resource": found.arn, "Tags": wish.tags})
    reserved = wish.reserved if active else None
    if found.reserved != reserved:
        if reserved is None:
            return Step("delete_function_concurrency", name)
        return Step("put_function_concurrency", name | {"ReservedConcurrentExecutions": reserved})
    return None


def provisioning(wanted: int, current: int, minutes: int, since_change: float) -> tuple[int | None, float]:
    """Whether to change the provisioned concurrency now.

    Nothing is kept for nobody: going down to 0 is not held back. Any other change waits until `minutes` have
    passed since the last one, because AWS bills what is being set up, which takes minutes.

    Args:
        wanted: what the forecast says; 0 = none.
        current: what was asked for last, or could be given of it.
        minutes: spec.backend.lambda.provisionedConcurrency.minutesBetweenChanges.
        since_change: seconds since the last change.

    Returns:
        The new number or None for no change now, and seconds until a change that is due may be made.
    """
    if wanted == current:
        return None, 0.0
    left = 60.0 * minutes - since_change
    if wanted == 0 or left <= 0:
        return wanted, 0.0
    return None, left
