"""Values from a job's Secrets: the credentials for AWS and the address of Redis. They are never logged."""

import base64
from collections.abc import Collection
from urllib.parse import urlsplit

from nitro_api.base import matches
from nitro_api.rules.lambda_rules import AWS_URL
from nitro_api.spec.lambda_backend import CREDENTIAL_KEYS, LambdaBackendSpec
from nitro_operator.builders import JobView, credentials_secret
from nitro_operator.functions.aws import Access
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import SECRET
from nitro_operator.kube.secrets import get_or_create
from nitro_operator.observation.diagnosis import Problem


class NoAccess(Exception):  # noqa: N818
    """A Secret that the job names is missing or lacks an entry, or its endpoint is forbidden."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


async def access_to(
    kube: Kube, namespace: str, function: LambdaBackendSpec, endpoints: Collection[str]
) -> Access:
    """Region, endpoint and credentials for AWS. Raises NoAccess, ApiError.

    Args:
        endpoints: hosts besides AWS's own that the platform allows, as `host` or `host:port`; `*` is any.
    """
    if function.endpoint_url is not None:
        _check_endpoint(function.endpoint_url, endpoints)
    credentials = None
    if function.credentials_secret is not None:
        field = "spec.backend.lambda.credentialsSecret"
        entries = await _read(kube, namespace, function.credentials_secret, field)
        key, secret, token = (entries.get(name) for name in CREDENTIAL_KEYS)
        if not key or not secret:
            raise _unusable(
                field,
                namespace,
                function.credentials_secret,
                f"needs {CREDENTIAL_KEYS[0]} and {CREDENTIAL_KEYS[1]}",
            )
        credentials = (key, secret, token)
    return Access(function.region, function.endpoint_url, credentials)


async def redis_url(kube: Kube, namespace: str, function: LambdaBackendSpec) -> str | None:
    """Address of the Redis of `transport: Redis`, None with Payload. Raises NoAccess, ApiError."""
    if function.redis is None:
        return None
    field, name = "spec.backend.lambda.redis", function.redis.secret_name
    url = (await _read(kube, namespace, name, field)).get(function.redis.key)
    # An emulator of AWS runs beside its Redis. The connection to AWS must be encrypted.
    schemes = ("rediss://",) if function.endpoint_url is None else ("rediss://", "redis://")
    if not url or not url.startswith(schemes):
        what = f"must hold an address such as rediss://user:password@host:6379 under {function.redis.key}"
        raise _unusable(field, namespace, name, what)
    return url


async def job_token(kube: Kube, view: JobView, *, create: bool) -> str:
    """The token of the job's Secret. Raises NoAccess, ApiError.

    Args:
        create: whether the Secret is made if it is missing. While a learner has a deleted one's token, the
            reconcile names the next one.
    """
    try:
        if create:
            secret = await get_or_create(kube, credentials_secret(view))
        else:
            secret = await kube.get(SECRET, view.namespace, view.credentials)
    except ApiError as error:
        if error.status != 409:
            raise
        raise NoAccess(Problem("NameTaken", f"{error.message}. Delete or rename it.")) from error
    return base64.b64decode(secret["data"]["token"]).decode()


async def _read(kube: Kube, namespace: str, name: str, field: str) -> dict[str, str]:
    try:
        data = (await kube.get(SECRET, namespace, name)).get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in data.items()}
    except ApiError as error:
        if error.status != 404:
            raise
        raise _unusable(field, namespace, name, "does not exist") from error
    except ValueError as error:
        raise _unusable(field, namespace, name, "has an entry that is no text") from error


def _check_endpoint(url: str, endpoints: Collection[str]) -> None:
    """Refuse an address that a job must not make the operator call."""
    address = urlsplit(url)
    if matches(AWS_URL, url) or {"*", address.hostname, address.netloc} & {*endpoints}:
        return
    raise NoAccess(
        Problem(
            "EndpointForbidden",
            f"spec.backend.lambda.endpointUrl: {url!r} is not an address of AWS Lambda, and {address.netloc} "
            "is not in the chart's lambda.endpoints, so the operator does not call it. Leave the field out "
            "in a new job, or ask the platform's administrator.",
        )
    )


def _unusable(field: str, namespace: str, name: str, what: str) -> NoAccess:
    return NoAccess(
        Problem(
            "SecretUnusable",
            f"{field}: Secret {namespace}/{name} {what}. Correct it; the operator reads it again soon.",
        )
    )
