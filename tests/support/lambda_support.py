"""The learner's Lambda backend against the stand-in for AWS's service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gymnasium
import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from gymnasium import spaces

from lambda_front import Front, Function, Knobs, serve
from local_support import RUN, weights
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_api.spec.lambda_backend import GivenLambdaBackend
from nitro_learner.backends.lambda_backend import LambdaBackend
from nitro_learner.sampling.dispatch import Dispatcher

NAME = "nitro-test"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "test secret"}
ENVIRONMENT = {"id": "Hopper-v5", "envs": 2}


class Noise(gymnasium.Env[np.ndarray, Any]):
    """An environment whose observations are many and cannot be compressed."""

    SIZE = 4096
    observation_space = spaces.Box(-10, 10, (SIZE,))
    action_space = spaces.Box(-1, 1, (3,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return self.np_random.normal(size=self.SIZE).astype(np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert len(action) == 3
        return self.np_random.normal(size=self.SIZE).astype(np.float32), 0.0, False, False, {}


def function(environment: dict[str, Any] | None = None, **changes: Any) -> Function:
    """The function of a small Hopper job."""
    variables = {
        "NITRO_ENVIRONMENT": json.dumps(environment or ENVIRONMENT),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    return Function(variables | changes.pop("variables", {}), **changes)


def settings(url: str, **changes: Any) -> GivenLambdaBackend:
    """Resolved spec.backend.lambda of a function that exists."""
    fields = {"manage": False, "functionName": NAME, "region": "us-east-2", "memoryMiB": 1024}
    elsewhere = {"endpointUrl": url, "credentialsSecret": "aws"}
    return GivenLambdaBackend.model_validate({**fields, **elsewhere, **changes})


@asynccontextmanager
async def front(what: Function | None = None, **knobs: Any) -> AsyncIterator[tuple[Front, str]]:
    """The service with one function."""
    service = Front(
        {NAME: what or function()}, Knobs(**knobs), secret_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    )
    async with serve(service) as served:
        yield served


@asynccontextmanager
async def lambda_round(
    url: str,
    *,
    limit: int = 4,
    token: str | None = None,
    redis_url: str | None = None,
    timeout: float = 60.0,
    observations: int = 11,
    envs: int = 2,
    plays: str = "Hopper-v5",
    created_elsewhere: bool = False,
    **changes: Any,
) -> AsyncIterator[tuple[LambdaBackend, Dispatcher]]:
    """A started backend and a dispatcher, weights 0 published."""
    transport = {"transport": "Redis", "redis": {"secretName": "redis"}} if redis_url else {}
    backend = LambdaBackend(
        settings(url, **transport, **changes),
        plays,
        envs=envs,
        limit=limit,
        token=token,
        redis_url=redis_url,
        created_elsewhere=created_elsewhere,
    )
    try:
        environment = await backend.start()
        cache = backend.open_cache(RUN)
        await cache.publish_weights(0, weights(0, observations))
        work = Dispatcher(
            backend,
            cache,
            environment,
            envs=envs,
            optional_tensors=OPTIONAL_TENSORS,
            timeout_seconds=timeout,
            deadline_seconds=280.0,
        )
        try:
            yield backend, work
        finally:
            await work.close()
            await cache.close()
    finally:
        await backend.close()


@asynccontextmanager
async def tls_in_front_of(url: str, directory: Path) -> AsyncIterator[tuple[str, Path]]:
    """A Redis URL with TLS that ends here, and the certificate to trust; Redis itself may have none."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    self_signed(certificate, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    parts = urlsplit(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plain_reader, plain_writer = await asyncio.open_unix_connection(parts.path)
        with contextlib.suppress(OSError):
            await asyncio.gather(_copy(reader, plain_writer), _copy(plain_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        user = parts.netloc.rpartition("@")[0]
        yield f"rediss://{user}@127.0.0.1:{port}", certificate
    finally:
        server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()
    writer.close()


def self_signed(certificate: Path, key: Path, *hosts: str) -> None:
    """Write a certificate of 127.0.0.1, and of these hosts, that is its own authority, and its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "redis")])
    now = datetime.now(UTC)
    names = [x509.IPAddress(ip_address("127.0.0.1")), *map(x509.DNSName, hosts)]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
