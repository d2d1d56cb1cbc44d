"""Problems of a Lambda function, each with its cause and its remedy.

The messages quote AWS, except for sentences that may contain a credential. They never quote what a function,
or a server that is not AWS, has answered.
"""

import logging
import re

from nitro_api.spec.lambda_backend import REFUSED_CREDENTIALS, function_name, image_region
from nitro_operator.functions.access import NoAccess
from nitro_operator.functions.aws import CLIENT, ENDPOINT, NO_CREDENTIALS, NO_LEASE, UNREACHABLE, AwsError
from nitro_operator.functions.desired import ObservedFunction
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.diagnosis import Problem

logger = logging.getLogger(__name__)

_REDIS_URL = re.compile(r"rediss?:[^\s\"',}]*")

AGAIN = "it is tried again by itself"
PROTOCOL_MISMATCH = "ProtocolMismatch"


def of(error: Exception, function: str) -> Problem:
    """The reason why the work on a function failed."""
    if isinstance(error, NoAccess):
        return error.problem
    if isinstance(error, AwsError):
        return refusal(error, function)
    # A job may name another server than AWS, which may answer anything: neither botocore nor we can read it.
    logger.warning("the answers about function %s cannot be read", function, exc_info=error)
    return Problem(
        "AwsAnswerUnreadable",
        f"Lambda function {function}: the operator cannot read the answers to its requests "
        f"({type(error).__name__}). Correct spec.backend.lambda.endpointUrl in a new job if that is not an "
        f"address of Lambda's API; {AGAIN}.",
    )


def refusal(error: AwsError, function: str) -> Problem:
    """The reason why a call failed."""
    said = hidden(error.message)
    what = f"Lambda function {function}: {_operation(error.operation)}"
    if error.code in REFUSED_CREDENTIALS:
        return Problem(
            "AwsCredentialsRefused",
            f"{what}: AWS refuses the credentials ({error.code}). Renew those in "
            "spec.backend.lambda.credentialsSecret, or the operator's own (docs/lambda.md); " + AGAIN + ".",
        )
    if error.code == NO_CREDENTIALS:
        return Problem(
            "AwsCredentialsMissing",
            f"{what}: there are no AWS credentials. Give the operator's service account a role (IRSA, pod "
            "identity), or the job a spec.backend.lambda.credentialsSecret (docs/lambda.md); " + AGAIN + ".",
        )
    if error.code in ("AccessDeniedException", "AccessDenied"):
        return Problem(
            "AwsAccessDenied",
            f"{what} is not allowed: {said}. Give that identity the policy in docs/lambda.md; {AGAIN}.",
        )
    if error.code == UNREACHABLE:
        return Problem(
            "AwsUnreachable",
            f"{what}: AWS cannot be reached: {said}. Check region, endpointUrl and the network; {AGAIN}.",
        )
    if error.code == ENDPOINT:
        return Problem(
            "AwsEndpointInvalid",
            f"{what}: spec.backend.lambda.endpointUrl is not a valid address: {said}. Correct it in a new "
            "job.",
        )
    if error.code == "ResourceConflictException":
        return Problem(
            "FunctionBusy", f"{what}: AWS is still making another change ({said}); {AGAIN}.", warning=False
        )
    if error.code == NO_LEASE:
        return Problem("AwsUnavailable", f"{what}: {said}; {AGAIN}.", warning=False)
    if problem := _parameter(what, said):
        return problem
    separator = ": " if said and error.code != CLIENT else " "
    if error.code in _PASSING:
        reason, remedy = "AwsUnavailable", "The trouble is temporary"
    else:
        reason, remedy = "AwsRefused", "Create a corrected job, or correct AWS"
    return Problem(reason, f"{what}: {error.code}{separator}{said}. {remedy}; {AGAIN}.")


_PASSING = {"TooManyRequestsException", "ThrottlingException", "ServiceException", "InternalFailure"}

_PARAMETERS: tuple[tuple[str, str, str], ...] = (
    # words of AWS's sentence, reason, remedy
    (
        "cannot be assumed by Lambda",
        "RoleNotAssumable",
        "Let lambda.amazonaws.com assume spec.backend.lambda.roleArn (its trust policy, docs/lambda.md); AWS "
        "needs some seconds to accept a new role",
    ),
    (
        "does not have permission to access the ECR image",
        "ImageNotPermitted",
        "Let lambda.amazonaws.com pull from the repository (its repository policy, docs/lambda.md)",
    ),
    ("Source image", "ImageNotFound", "Push the image, or correct spec.backend.lambda.image in a new job"),
    (
        "UnreservedConcurrentExecution",
        "AccountLimit",
        "Ask AWS for more concurrent executions, or lower spec.backend.lambda.reservedConcurrency in a new "
        "job",
    ),
)


def _parameter(what: str, said: str) -> Problem | None:
    """The problem with a parameter. AWS has one code for all of them, so its words are searched."""
    for words, reason, remedy in _PARAMETERS:
        if words in said:
            return Problem(reason, f"{what}: {said}. {remedy}; {AGAIN}.")
    return None


def broken(observed: ObservedFunction, function: str) -> Problem | None:
    """The problem of a function that AWS accepted and then could not create or change."""
    for failed, (code, sentence), result in (
        (observed.state == "Failed", observed.state_reason, "could not be created"),
        (observed.update == "Failed", observed.update_reason, "could not be changed and is as it was before"),
    ):
        if failed:
            return Problem(
                _word(code) or "FunctionFailed",
                f"Lambda function {function} {result}: {hidden(sentence)}. "
                f"{_REMEDIES.get(code, 'Remove the cause')}; {AGAIN}.",
            )
    return None


_REMEDIES = {
    "ImageAccessDenied": "Let lambda.amazonaws.com pull from the repository (docs/lambda.md)",
    "ImageDeleted": "Push the image again",
    "InvalidImage": "Build the image for spec.backend.lambda.architecture, as a single-platform image",
    "InsufficientRolePermissions": "Give spec.backend.lambda.roleArn the VPC policy in docs/lambda.md",
    "SubnetOutOfIPAddresses": "Give larger subnets in spec.backend.lambda.vpc",
    "EniLimitExceeded": "Ask AWS for more network interfaces in the VPC",
}


def name_taken(observed: ObservedFunction, function: str) -> Problem:
    return Problem(
        "NameTaken",
        f"Lambda function {function} exists and does not belong to this job ({observed.arn}). Delete it (aws "
        f"lambda delete-function --function-name {function}), or give the job another name or functionName.",
    )


def missing(function: str, region: str) -> Problem:
    return Problem(
        "FunctionMissing",
        f"there is no Lambda function {function} in {region}. Create it, correct functionName or region in a "
        "new job, or let the operator create it (manage: true).",
    )


def hidden(text: str) -> str:
    """The text without addresses of Redis, because they contain passwords."""
    return _REDIS_URL.sub("(address hidden)", text.strip().rstrip("."))[:600]


def _operation(name: str) -> str:
    """The name of an operation in IAM's policies."""
    return "lambda:" + "".join(part.capitalize() for part in name.split("_"))


def _word(code: str) -> str:
    return code if re.fullmatch("[A-Za-z][A-Za-z0-9]*", code) else ""


def not_provisioned(function: str, said: str) -> Problem:
    return Problem(
        "NotProvisioned",
        f"Lambda function {function}: AWS cannot keep sandboxes ready: {hidden(said)}. An invocation that "
        "finds none ready starts one. Raise the account's concurrency, or leave out "
        "spec.backend.lambda.provisionedConcurrency.",
    )


def misfit(configuration: Object, function: str, memory: int, timeout: int) -> Problem | None:
    """The reason why a function that somebody else created does not fit the job.

    Args:
        found: AWS's configuration of the function.
        memory: MiB that the job states.
        timeout: seconds that the job needs.
    """
    has = f"Lambda function {function} has"
    if configuration.get("State") == "Failed":
        return Problem(
            "FunctionFailed",
            f"Lambda function {function} failed: {hidden(configuration.get('StateReason', ''))}.",
        )
    if configuration.get("PackageType", "Image") != "Image":
        return Problem(
            "NoImage",
            f"{has} a zip archive as code. An actor needs a container image (docs/lambda.md).",
        )
    if configuration.get("MemorySize") != memory:
        return Problem(
            "MemoryDiffers",
            f"{has} {configuration.get('MemorySize')} MiB of memory, but the job states {memory}. Set "
            "spec.backend.lambda.memoryMiB in a new job, or the function's memory, to the same value.",
        )
    if configuration.get("Timeout", 0) < timeout:
        return Problem(
            "TimeoutTooShort",
            f"{has} a time-out of {configuration.get('Timeout')} s, but the job needs {timeout}. Raise the "
            "function's, or lower spec.actor.timeoutSeconds in a new job.",
        )
    return None


def unhealthy(function: str) -> Problem:
    return Problem(
        "FunctionUnhealthy",
        f"Lambda function {function} does not answer as an actor does. It needs an actor image, and the "
        "command and environment from docs/lambda.md. Its log in CloudWatch has its own words.",
    )


def other_protocol(function: str, has: int, wanted: int) -> Problem:
    return Problem(
        PROTOCOL_MISMATCH,
        f"Lambda function {function} speaks protocol {has}. Learners of this release speak protocol "
        f"{wanted}. Give the function an actor image of this release.",
    )


def other_environment(function: str, wanted: str) -> Problem:
    return Problem(
        "OtherEnvironment",
        f"Lambda function {function} does not run the environment {wanted}, which the job needs. Correct its "
        "NITRO_ENVIRONMENT (docs/lambda.md).",
    )


def other_envs(function: str, has: int, wanted: int) -> Problem:
    return Problem(
        "EnvsDiffer",
        f"Lambda function {function} has {has} environments, but the job needs {wanted}. Set "
        "spec.environment.envsPerActor in a new job, or envs in the function's NITRO_ENVIRONMENT, to the "
        "same value.",
    )


def waits(problem: Problem, seconds: float) -> Problem:
    """The reason why a deleted job still exists."""
    return Problem(
        "FunctionNotRemoved",
        f"the job's Lambda function cannot be removed yet: {problem.message} In "
        f"{seconds / 60:.0f} minutes at the latest the job is deleted without its function.",
    )


def left_behind(problem: Problem, job: Object) -> Problem:
    """The problem that a job was deleted and its function still exists."""
    given, meta = job["spec"]["backend"].get("lambda") or {}, job["metadata"]
    name = given.get("functionName") or function_name(meta["namespace"], meta["name"])
    region = given.get("region") or image_region(given.get("image"))
    return Problem(
        "FunctionLeft",
        f"the job is deleted, but its Lambda function could not be removed: {problem.message} Remove the "
        f"function yourself: aws lambda delete-function --region {region} --function-name {name}",
    )
