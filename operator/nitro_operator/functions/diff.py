"""The next change that brings a function from its observed to its desired state. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from nitro_operator.functions.desired import DesiredFunction
from nitro_operator.functions.observed import ObservedFunction
from nitro_operator.kube.kinds import Object

IMAGE_FAILURES = {"ImageAccessDenied", "ImageDeleted", "InvalidImage"}
"""Reasons of a failed change that concern the code. All others concern the settings."""


@dataclass(frozen=True)
class Change:
    """One call of AWS's API."""

    operation: str
    """Its name in boto3."""
    arguments: Object


def next_change(
    desired: DesiredFunction, found: ObservedFunction | None, *, active: bool, again: bool = False
) -> Change | None:
    """The call that removes the first difference; None if there is no difference.

    Args:
        desired: the function that the job should have.
        found: the function as it is; None if there is none.
        active: whether the job runs. If not, no function is created and no concurrency is reserved, because
            the account's other functions could not use it.
        again: whether to repeat a change of code or settings that AWS could not make. Otherwise it waits,
            although AWS may show the function as it was before, with the difference.
    """
    name = {"FunctionName": desired.name}
    if found is None:
        return Change("create_function", desired.creation()) if active else None
    failed = found.update == "Failed"
    if again or not failed:
        retry_code = failed and found.update_reason[0] in IMAGE_FAILURES
        if found.image != desired.image or found.architecture != desired.architecture or retry_code:
            code = {"ImageUri": desired.image, "Architectures": [desired.architecture]}
            return Change("update_function_code", name | code)
        if found.configuration != desired.configuration or failed:
            return Change("update_function_configuration", name | desired.configuration)
    if any(found.tags.get(key) != value for key, value in desired.tags.items()):
        return Change("tag_resource", {"Resource": found.arn, "Tags": desired.tags})
    reserved = desired.reserved if active else None
    if found.reserved != reserved:
        if reserved is None:
            return Change("delete_function_concurrency", name)
        return Change("put_function_concurrency", name | {"ReservedConcurrentExecutions": reserved})
    return None


def provisioning(wanted: int, current: int, minutes: int, since_change: float) -> tuple[int | None, float]:
    """Decide whether to change the provisioned concurrency now.

    A change to 0 is made at once, because nobody uses it. Any other change waits until `minutes` have
    passed since the last one, because the setup takes minutes and AWS bills them.

    Args:
        wanted: number to keep ready; 0 = none.
        current: the number that was requested last, or that AWS could give.
        minutes: spec.backend.lambda.provisionedConcurrency.minutesBetweenChanges.
        since_change: seconds since the last change.

    Returns:
        The new number (None: no change now), and the seconds until a change that has to wait may be made.
    """
    if wanted == current:
        return None, 0.0
    left = 60.0 * minutes - since_change
    if wanted == 0 or left <= 0:
        return wanted, 0.0
    return None, left
