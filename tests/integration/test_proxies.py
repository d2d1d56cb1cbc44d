"""Proxies of the environment are for what is outside the cluster, so its API server is asked without one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes.aio.config import incluster_config as operators
from kubernetes.config import incluster_config as learners

from lambda_support import self_signed
from nitro_learner.cluster import api
from nitro_learner.cluster.job import JobClient
from nitro_operator.kube import client
from nitro_operator.kube.kinds import TRAINING_JOB
from operator_objects import make_job

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
clusters: [{name: here, cluster: {server: "https://cluster.example", %s}}]
"""


@pytest.fixture
async def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[bytes]]:
    """A pod's view of an API server, with a proxy in its environment. Gives what the proxy was asked."""
    self_signed(tmp_path / "ca.crt", tmp_path / "key")
    (tmp_path / "token").write_text("token")
    app = web.Application()
    path = TRAINING_JOB.path("team", "hopper")

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(make_job())

    app.router.add_get(path, answer)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "ca.crt", tmp_path / "key")
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    proxies = await asyncio.start_server(proxy, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{proxies.sockets[0].getsockname()[1]}"
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, address)
    for name in ("NO_PROXY", "no_proxy", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(runner.addresses[0][1]))
    for module in (operators, learners):
        monkeypatch.setattr(module, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
        monkeypatch.setattr(module, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    yield asked
    proxies.close()
    await runner.cleanup()


async def test_a_learner_in_a_pod_asks_the_api_server_itself(pod: list[bytes]) -> None:
    uid = make_job()["metadata"]["uid"]
    found = await asyncio.to_thread(lambda: JobClient("team", "hopper", uid).get())
    assert found["metadata"]["name"] == "hopper"
    assert not pod


async def test_an_operator_in_a_pod_asks_the_api_server_itself(pod: list[bytes]) -> None:
    kube = await client.connect()
    assert (await kube.get(TRAINING_JOB, "team", "hopper"))["metadata"]["name"] == "hopper"
    assert not pod
    await kube.close()


@pytest.mark.parametrize(
    ("settings", "no_proxy", "used"),
    [
        ("", None, "http://environment.example:3128"),
        ("", "cluster.example", None),
        ('proxy-url: "http://kubeconfig.example:3128"', None, "http://kubeconfig.example:3128"),
    ],
)
def test_commands_on_a_users_machine_use_the_proxy_that_kubectl_uses(
    settings: str, no_proxy: str | None, used: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG % settings)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://environment.example:3128")
    for name in ("NO_PROXY", "no_proxy"):
        if no_proxy is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, no_proxy)
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config")
    )
    manager = api.connect().api_client.rest_client.pool_manager
    proxy = getattr(manager, "proxy", None)
    assert (proxy.url if proxy else None) == used
