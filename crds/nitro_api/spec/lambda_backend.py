"""spec.backend.lambda: actors as invocations of one AWS Lambda function."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Arn, Model, Name

ALIAS = "nitro"
"""Alias of a managed function that has provisioned concurrency: Lambda does not give it to newest code."""

MEMORY_MIB = (128, 10_240)
"""Smallest and largest memory of a function. Unit: MiB."""
MAX_NAME = 64
"""Characters of a function's name."""
CREDENTIAL_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Entries of a Secret with AWS credentials; the last one only in temporary ones."""
FINALIZER = "nitro.dev/function"
"""Keeps a deleted job until its function is removed."""
REFUSED_CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""AWS's codes for credentials that are wrong or expired. Their sentences may quote the request's headers,
session token included."""

ECR_IMAGE = (
    "^[0-9]{12}[.]dkr[.]ecr[.][a-z0-9-]+[.]amazonaws[.]com([.]cn)?/[a-z0-9._/-]+"
    "(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})$"
)
"""Address of an image in Amazon ECR."""

AwsId = Annotated[str, Field(min_length=1, max_length=64)]


class Vpc(Model):
    """Where the function has its network interfaces, for a Redis that only your VPC reaches."""

    subnet_ids: Annotated[list[AwsId], Field(min_length=1, max_length=16)]
    """Private subnets, such as [subnet-0abc, subnet-0def]."""

    security_group_ids: Annotated[list[AwsId], Field(min_length=1, max_length=5)]
    """Security groups, such as [sg-0abc]; Redis' own must let them in."""


class ProvisionedConcurrency(Model):
    """Execution environments that are kept ready, as many as scaling.hold says. They cost money while idle as
    well (spec.pricing.provisionedGBSecond)."""

    minutes_between_changes: Annotated[int, Field(ge=1, le=1440)] = 10
    """At most one change in so many minutes. Unit: minutes. Default: 10."""


FunctionName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Region = Annotated[str, Field(min_length=1, max_length=32)]
Mebibytes = Annotated[int, Field(ge=MEMORY_MIB[0], le=MEMORY_MIB[1])]


class RedisSecret(Model):
    """Where the address of a Redis is kept that both the learner and the function reach."""

    secret_name: Name
    """A Secret in the job's namespace."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "url"
    """Its entry that holds the address, rediss://user:password@host:6379 (with TLS). Default: url."""


class GivenLambdaBackend(Model):
    """Settings of the Lambda backend. Memory also decides the share of CPU: 1,769 MiB are one full core."""

    function_name: FunctionName | None = None
    """The function. Default: nitro-, the job's namespace, an underscore and the job's name, cut to 64
    characters."""

    manage: bool = True
    """Whether the operator makes, mends and removes the function. With false it only checks that the function
    is there and fits. Default: true."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """The actor image in Amazon ECR, in the function's region, by tag or digest; required with manage.
    Default: none."""

    role_arn: Arn | None = None
    """IAM role that the function runs as; required with manage. Default: none."""

    region: Region | None = None
    """AWS region of the function, such as us-east-2. Default: the one in the image's address."""

    endpoint_url: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Another address of the Lambda API: a VPC endpoint, or an emulator. Default: AWS's."""

    memory_mib: Mebibytes | None = Field(default=None, alias="memoryMiB")
    """Memory of the function; the actors are billed for it. Unit: MiB. Default: the memory in
    spec.actor.resources (limits, else requests), else 1024."""

    architecture: Literal["x86_64", "arm64"] = "x86_64"
    """Instruction set that the image was built for. Default: x86_64."""

    vpc: Vpc | None = None
    """The VPC that the function joins. Default: none."""

    reserved_concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Part of the account's concurrency that is set aside for this function, and its upper limit. Default:
    none."""

    provisioned_concurrency: ProvisionedConcurrency | None = None
    """Keeps execution environments ready ahead of the rounds. Default: off."""

    tags: Annotated[dict[str, Annotated[str, Field(max_length=256)]], Field(max_length=40)] | None = None
    """Tags of the function, such as {team: rl}. Default: the operator's own."""

    credentials_secret: Name | None = None
    """A Secret in the job's namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary ones,
    AWS_SESSION_TOKEN, for operator and learner. Default: none; each uses what its pod has (IRSA, pod
    identity, environment)."""

    transport: Literal["Payload", "Redis"] = "Payload"
    """How weights and fragments travel. Payload: in request and response, at most 6 MB each way. Redis:
    through a Redis that learner and function reach. Default: Payload."""

    redis: RedisSecret | None = None
    """That Redis; required with transport: Redis. Default: none."""

    @property
    def qualifier(self) -> str | None:
        """What to invoke of the function: an alias, or None for the newest code."""
        return ALIAS if self.provisioned_concurrency is not None else None


class LambdaBackendSpec(GivenLambdaBackend):
    """Settings of the Lambda backend in a resolved job."""

    function_name: FunctionName
    region: Region
    memory_mib: Mebibytes = Field(alias="memoryMiB")


def function_name(namespace: str, job: str) -> str:
    """The default name of a job's function; one that is too long ends with a hash of the whole.

    A namespace has no underscore, so `nitro-team_` begins the functions of this namespace only, and a policy
    can name them.
    """
    name = f"nitro-{namespace}_{job}"
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(f"{namespace}/{job}".encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}-{digest}"


def image_region(image: str | None) -> str | None:
    """The region in the address of an image in Amazon ECR; None for any other."""
    return image.split(".")[3] if image is not None and re.fullmatch(ECR_IMAGE, image) else None
