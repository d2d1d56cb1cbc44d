"""The serving manifest of the examples: a Knative Service answers observations on a cluster."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import yaml
from harness import SERVING, Cluster, Object, is_ready, kubectl

import nitro_learner as nitro
from nitro_learner.api.loading import write_exported
from train_support import job
from untrained_runs import untrained

MANIFEST = Path(__file__).parents[2] / "examples" / "serving" / "knative.yaml"
# A node routes a new Service a moment after its pods are ready.
ASK = """
import sys, time, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode())
end = time.monotonic() + 60
while True:
    try:
        print(urllib.request.urlopen(request, timeout=20).read().decode())
        break
    except OSError as error:
        told = error.read().decode() if isinstance(error, urllib.error.HTTPError) else repr(error)
        if getattr(error, "code", 503) < 500 or time.monotonic() > end:
            sys.exit(f"{error}: {told}")
        time.sleep(0.2)
"""


def test_a_policy_answers_observations(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    untrained(job(), tmp_path)
    policy = nitro.load(tmp_path)
    manifest: Object = yaml.safe_load(MANIFEST.read_text())
    name = manifest["metadata"]["name"]
    data = {"policy.safetensors": base64.b64encode(write_exported(policy)).decode()}
    cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "binaryData": data}, namespace
    )
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["image"] = cluster.images["learner-cpu"]
    cluster.create(manifest, namespace)

    def ready(objects: list[Object]) -> Object | None:
        return next((one for one in objects if is_ready(one)), None)

    selector = f"serving.knative.dev/service={name}"
    pod = cluster.until(
        cluster.kind("v1", "Pod"), ready, namespace=namespace, selector=selector, what="a pod that serves"
    )
    revision = cluster.until(
        cluster.kind(SERVING, "Revision"),
        ready,
        namespace=namespace,
        selector=selector,
        what="a ready Revision",
    )
    rows = np.random.default_rng(5).standard_normal((3, 11)).astype(np.float32)
    # By the Revision's address, because a cluster of tests has no ingress controller.
    address = f"{revision['metadata']['name']}.{namespace}.svc.cluster.local"
    inside = ("exec", "--namespace", namespace, pod["metadata"]["name"], "-c", "policy", "--")
    said = kubectl(
        *inside, "python", "-c", ASK, f"http://{address}/v1/act", json.dumps({"observation": rows.tolist()})
    )
    found = np.array(json.loads(said)["action"], np.float32)
    np.testing.assert_allclose(found, policy.act(rows), rtol=1e-5, atol=1e-6)
    cluster.delete(SERVING, "Service", namespace, name)
