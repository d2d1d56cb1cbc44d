"""AWS Lambda for a cluster's jobs: lambda_front in front of moto, on this machine, where pods reach it.

And a cluster without Knative: its kinds are not served for a while, as if they had never been installed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import PATIENCE_SECONDS, Cluster, Object
from kubernetes import client
from run_outcome import untuned

from aws_support import FakeAws, fake_aws

SUPPORT = Path(__file__).parents[1] / "support"
KNATIVE = "serving.knative.dev"


@dataclass
class LambdaService:
    """The stand-in: `url` as pods reach it, `aws` with the functions."""

    url: str
    aws: FakeAws

    def bills(self) -> list[dict[str, Any]]:
        """The service's own account of every invocation."""
        with urllib.request.urlopen(f"{self.url}/front/bills", timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found


@contextmanager
def lambda_service(cluster: Cluster) -> Iterator[LambdaService]:
    """The service, for as long as the block lasts; its sandboxes are processes of this machine."""
    with fake_aws() as aws:
        command = [sys.executable, "-m", "lambda_front", "--host", "0.0.0.0", "--control-plane", aws.url]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**untuned(), "PATH": path, "PYTHONPATH": str(SUPPORT)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as front:
            try:
                assert front.stdout is not None
                port = json.loads(front.stdout.readline())["url"].rpartition(":")[2]
                yield LambdaService(f"http://{address(cluster)}:{port}", aws)
            finally:
                front.send_signal(signal.SIGTERM)


def address(cluster: Cluster) -> str:
    """This machine's address on the way to the cluster's nodes; their pods come back by the same."""
    addresses = cluster.core.list_node().items[0].status.addresses
    node = next(one.address for one in addresses if one.type == "InternalIP")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((node, 9))  # of a datagram: nothing is sent
        found: str = probe.getsockname()[0]
        return found


@contextmanager
def without_knative(cluster: Cluster) -> Iterator[None]:
    """The API server serves none of Knative's kinds. What is stored of them stays."""
    _serve(cluster, served=False)
    try:
        yield
    finally:
        _serve(cluster, served=True)


def _serve(cluster: Cluster, *, served: bool) -> None:
    api = client.ApiextensionsV1Api(cluster.api)
    for definition in api.list_custom_resource_definition().items:
        if definition.spec.group == KNATIVE:
            patch: list[Object] = [
                {"op": "replace", "path": f"/spec/versions/{index}/served", "value": served}
                for index in range(len(definition.spec.versions))
            ]
            api.patch_custom_resource_definition(definition.metadata.name, patch)
    # The API server takes a moment to follow; what it says of its groups is what clients go by.
    end = time.monotonic() + PATIENCE_SECONDS
    while (
        KNATIVE in [group.name for group in client.ApisApi(cluster.api).get_api_versions().groups]
    ) != served:
        assert time.monotonic() < end, f"{KNATIVE} is {'not ' if served else ''}served"
        time.sleep(0.2)
