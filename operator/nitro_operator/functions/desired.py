"""The function that a job should have, as arguments of AWS's API. A pure function of the job."""

from __future__ import annotations

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
