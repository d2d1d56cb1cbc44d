"""Classification of Lambda's own refusals and failures: whether another try can help, and what is billed.

Errors: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
"""

from typing import Any

from nitro_api.spec.lambda_backend import REFUSED_CREDENTIALS
from nitro_learner.backends.actor_answers import excerpt, read_object
from nitro_learner.backends.base import FatalError, RetryableError
from nitro_learner.backends.lambda_report import InvocationReport, paid_seconds

_THROTTLES = {
    "ReservedFunctionConcurrentInvocationLimitExceeded": (
        "reserved_concurrency",
        "the function's reserved concurrency is used up; raise spec.backend.lambda.reservedConcurrency",
    ),
    "ConcurrentInvocationLimitExceeded": (
        "account_concurrency",
        "the account's concurrency is used up; ask AWS for a higher quota or lower spec.scaling.maxActors",
    ),
    "CallerRateLimitExceeded": (
        "invocation_rate",
        "the account sends more requests per second than AWS takes; lower spec.scaling.maxActors",
    ),
    "FunctionInvocationRateLimitExceeded": (
        "invocation_rate",
        "the function is asked more often per second than AWS takes; lower spec.scaling.maxActors",
    ),
    "ReservedFunctionInvocationRateLimitExceeded": (
        "invocation_rate",
        "the function is asked more often per second than its reserved concurrency allows (ten times it); "
        "raise spec.backend.lambda.reservedConcurrency",
    ),
}
"""TooManyRequestsException by its Reason: a metric's label, and what it means."""

_NOT_READY = frozenset({"ResourceConflictException", "ResourceNotReadyException"})
"""Errors while the function is being made or changed."""

_THROTTLED = frozenset({"RequestThrottled", "RequestThrottledException", "Throttling", "ThrottlingException"})
"""Throttling errors that AWS's front end sends with status 400, where a service would send 429."""

_STS_TROUBLE = frozenset({"IDPCommunicationError", "Throttling"})
"""Errors of STS with status 400 that may pass with another try."""

_DEATHS = frozenset({"Runtime.ExitError", "Runtime.Unknown"})
"""Errors of a sandbox whose process ended. Lambda does not always say that it ran out of memory."""

_MEMORY_SHARE = 0.98
"""Share of its memory: a sandbox that was killed while it used this much ran out of memory."""


class CredentialsError(RetryableError):
    """Errors of unknown or expired credentials. A learner that starts anew reads new ones."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(
            "credentials",
            f"AWS refuses the credentials that invoke {name} ({kind}); they must be valid: renew those in "
            "spec.backend.lambda.credentialsSecret, or the learner's own, and see that its clock is right",
        )


def no_credentials(error: Exception) -> RetryableError | FatalError:
    """The error to raise where botocore found no credentials, after its own retries.

    Args:
        error: its BotoCoreError, the RuntimeError of new credentials that have expired too, or the
            ClientError by which STS refused: a role that may not be assumed, a token that has expired.
    """
    import botocore.exceptions as failures  # imported here: slow, and other backends do without

    message = f"AWS gives no credentials: {error}"
    unreachable = (failures.ConnectionError, failures.HTTPClientError, failures.CredentialRetrievalError)
    if isinstance(error, failures.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        passing = status >= 500 or error.response.get("Error", {}).get("Code") in _STS_TROUBLE
    else:
        passing = isinstance(error, (*unreachable, RuntimeError))
    return RetryableError("credentials", message) if passing else FatalError(message)


def refusal(status: int, error_type: str, body: bytes, name: str) -> RetryableError | FatalError:
    """The error of an Invoke that did not run.

    Args:
        error_type: the header X-Amzn-ErrorType, empty where there was none.
    """
    value = read_object(body) or {}
    kind = error_type.partition(":")[0] or str(value.get("Type", ""))
    text = str(value.get("Message") or value.get("message") or "")[:500] or excerpt(body)
    if status == 429 or kind in _THROTTLED:
        label, meaning = _THROTTLES.get(str(value.get("Reason")), ("throttled", "too many requests"))
        return RetryableError(label, f"{name}: {meaning} ({text})", throttled=True)
    if kind in REFUSED_CREDENTIALS:
        return CredentialsError(name, kind)
    if kind in _NOT_READY:
        return RetryableError("not_ready", f"{name} is being made or changed: {text}")
    if status >= 500:
        return RetryableError("service_error", f"Lambda answered HTTP {status} {kind}: {text}")
    if status == 404:
        return FatalError(
            f"there is no Lambda function {name} ({text}); spec.backend.lambda.functionName and region must "
            "name one that exists"
        )
    if status == 403:
        return FatalError(
            f"AWS refuses to let this learner invoke {name}: {kind}: {text}; it needs lambda:InvokeFunction"
        )
    return FatalError(f"Lambda refuses the request (HTTP {status} {kind}): {text}")


def failure(body: bytes, report: InvocationReport | None, wall: float) -> RetryableError | FatalError:
    """The error of an invocation that ran and failed.

    Args:
        body: the answer to an Invoke with X-Amz-Function-Error.
        report: None where it is lost; then `wall` seconds are the estimate of what is billed.
    """
    value: dict[str, Any] = read_object(body) or {}
    kind, text = str(value.get("errorType", "")), str(value.get("errorMessage", ""))[:500]
    if kind == "Function.ResponseSizeTooLarge":
        return FatalError(f"spec.environment.rolloutLength: {text}; lower rolloutLength")
    reason = "function_error"
    if kind == "Sandbox.Timedout" or "Task timed out" in text:
        reason = "timeout"
    elif kind == "Runtime.OutOfMemory" or (kind in _DEATHS and _full(report)):
        reason = "out_of_memory"
        used = f"{report.used_mib} of {report.memory_mib} MiB were in use; " if report else ""
        text += f" ({used}raise spec.backend.lambda.memoryMiB)"
    elif kind in _DEATHS:
        reason = "sandbox_died"
    billed = paid_seconds(report, wall)
    return RetryableError(reason, f"{kind}: {text}" if kind else text, billed, estimated=report is None)


def _full(report: InvocationReport | None) -> bool:
    return report is not None and report.used_mib >= _MEMORY_SHARE * report.memory_mib
