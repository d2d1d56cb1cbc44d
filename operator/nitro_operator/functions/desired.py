"""The function that a job should have, the one that AWS reports, and the next change. Pure functions."""

import hashlib
from dataclasses import dataclass

from nitro_operator.builders import JobView
from nitro_operator.kube.kinds import Object

ENTRY_POINT = ["python", "-m", "awslambdaric"]
COMMAND = ["nitro_actor.lambda_handler.handle"]
"""The actor image serves HTTP by default. A function starts the runtime client with our handler instead."""

JOB_TAG, UID_TAG, MANAGER_TAG = "nitro.dev/job", "nitro.dev/uid", "nitro.dev/managed-by"


@dataclass(frozen=True)
class DesiredFunction:
    """The desired state. `diff.next_change` compares it with the observed one."""

    name: str
    image: str
    architecture: str
    configuration: Object
    """Arguments of UpdateFunctionConfiguration."""
    tags: dict[str, str]
    reserved: int | None
    """Reserved concurrency."""
    minutes_between_changes: int | None
    """Of provisioned concurrency; None = none is wanted."""

    def creation(self) -> Object:
        """Arguments of CreateFunction."""
        return {
            "FunctionName": self.name,
            "PackageType": "Image",
            "Code": {"ImageUri": self.image},
            "Architectures": [self.architecture],
            "Tags": self.tags,
            **self.configuration,
        }


def desired_function(view: JobView, redis_url: str | None, token: str | None) -> DesiredFunction:
    """The managed function of a job.

    Args:
        view: the job, with `spec.backend.lambda` and `manage: true`.
        redis_url: address of the Redis of `transport: Redis`; it is kept in the function's environment, which
            AWS encrypts.
        token: the token that invocations must carry; None = the job's learner has none. The function knows
            its hash only, so whoever may read its settings cannot invoke it with that.
    """
    function = view.spec.backend.lambda_
    assert function is not None
    assert function.image is not None
    assert function.role_arn is not None
    vpc = function.vpc
    environment = {"NITRO_ENVIRONMENT": view.environment}
    if token is not None:
        environment["NITRO_TOKEN_SHA256"] = hashlib.sha256(token.encode()).hexdigest()
    if redis_url is not None:
        environment["NITRO_REDIS_URL"] = redis_url
    provisioned = function.provisioned_concurrency
    return DesiredFunction(
        name=function.function_name,
        image=function.image,
        architecture=function.architecture,
        configuration={
            "Description": f"Actor of the Nitro job {view.key}",
            "Role": function.role_arn,
            "MemorySize": function.memory_mib,
            "Timeout": view.spec.actor.timeout_seconds,
            "Environment": {"Variables": environment},
            "ImageConfig": {"EntryPoint": ENTRY_POINT, "Command": COMMAND},
            "VpcConfig": {
                "SubnetIds": sorted(vpc.subnet_ids) if vpc else [],
                "SecurityGroupIds": sorted(vpc.security_group_ids) if vpc else [],
            },
        },
        tags={**(function.tags or {}), **own_tags(view)},
        reserved=function.reserved_concurrency,
        minutes_between_changes=provisioned.minutes_between_changes if provisioned else None,
    )


def own_tags(view: JobView) -> dict[str, str]:
    """The tags that name the owner. The uid tells the function from one of another job or cluster."""
    return {JOB_TAG: str(view.key), UID_TAG: view.uid, MANAGER_TAG: "nitro-operator"}


@dataclass(frozen=True)
class ObservedFunction:
    """The fields of GetFunction's answer that matter here."""

    arn: str
    image: str | None
    architecture: str
    configuration: Object
    """Settings, in the same form as DesiredFunction.configuration."""
    tags: dict[str, str]
    reserved: int | None
    state: str
    """Pending, Active, Inactive (it becomes active with the next invocation) or Failed."""
    state_reason: tuple[str, str]
    """Code and message."""
    update: str
    """Status of the last change: InProgress, Successful or Failed."""
    update_reason: tuple[str, str]
    code_key: tuple[str, str]
    """A key that differs after every change of code or settings; published versions are compared by it."""

    def owned_by(self, uid: str) -> bool:
        return self.tags.get(UID_TAG) == uid

    @property
    def changing(self) -> bool:
        """Whether AWS is changing it. Until that is done, AWS accepts no other change."""
        return self.state == "Pending" or self.update == "InProgress"


def parse(answer: Object) -> ObservedFunction:
    """Read the answer of GetFunction."""
    settings, code = answer["Configuration"], answer.get("Code") or {}
    vpc = settings.get("VpcConfig") or {}
    image = (settings.get("ImageConfigResponse") or {}).get("ImageConfig") or {}
    return ObservedFunction(
        arn=settings["FunctionArn"],
        image=code.get("ImageUri"),
        architecture=next(iter(settings.get("Architectures") or ["x86_64"])),
        configuration={
            "Description": settings.get("Description", ""),
            "Role": settings.get("Role"),
            "MemorySize": settings.get("MemorySize"),
            "Timeout": settings.get("Timeout"),
            "Environment": {"Variables": (settings.get("Environment") or {}).get("Variables") or {}},
            "ImageConfig": {"EntryPoint": image.get("EntryPoint"), "Command": image.get("Command")},
            "VpcConfig": {
                "SubnetIds": sorted(vpc.get("SubnetIds") or []),
                "SecurityGroupIds": sorted(vpc.get("SecurityGroupIds") or []),
            },
        },
        tags=answer.get("Tags") or {},
        reserved=(answer.get("Concurrency") or {}).get("ReservedConcurrentExecutions"),
        state=settings.get("State", "Active"),
        state_reason=(settings.get("StateReasonCode", ""), settings.get("StateReason", "")),
        update=settings.get("LastUpdateStatus", "Successful"),
        update_reason=(
            settings.get("LastUpdateStatusReasonCode", ""),
            settings.get("LastUpdateStatusReason", ""),
        ),
        code_key=(settings.get("CodeSha256", ""), settings.get("LastModified", "")),
    )


IMAGE_FAILURES = {"ImageAccessDenied", "ImageDeleted", "InvalidImage"}
"""Reasons of a failed change that concern the code. All others concern the settings."""


@dataclass(frozen=True)
class Change:
    """One call of AWS's API."""

    operation: str
    """Its name in boto3."""
    arguments: Object


def next_change(
    desired: DesiredFunction, observed: ObservedFunction | None, *, active: bool, again: bool = False
) -> Change | None:
    """The call that removes the first difference; None if there is no difference.

    Args:
        active: whether the job runs. If not, no function is created and no concurrency is reserved, because
            the account's other functions could not use it.
        again: whether to repeat a change of code or settings that AWS could not make. Otherwise it waits,
            although AWS may show the function as it was before, with the difference.
    """
    name = {"FunctionName": desired.name}
    if observed is None:
        return Change("create_function", desired.creation()) if active else None
    failed = observed.update == "Failed"
    if again or not failed:
        retry_code = failed and observed.update_reason[0] in IMAGE_FAILURES
        if observed.image != desired.image or observed.architecture != desired.architecture or retry_code:
            code = {"ImageUri": desired.image, "Architectures": [desired.architecture]}
            return Change("update_function_code", name | code)
        if observed.configuration != desired.configuration or failed:
            return Change("update_function_configuration", name | desired.configuration)
    if any(observed.tags.get(key) != value for key, value in desired.tags.items()):
        return Change("tag_resource", {"Resource": observed.arn, "Tags": desired.tags})
    reserved = desired.reserved if active else None
    if observed.reserved != reserved:
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
