"""The ConfigMap of spec.code on a real API server: waited for, checked, mounted, and owned by its jobs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from apiserver import ApiServer
from cluster_support import Cluster
from nitro_learner.run.code_package import pack
from operator_support import OperatorProcess, eventually, install_knative, job

MINE = {"entryPoint": "mine:Line"}


def test_a_job_waits_for_its_code_and_owns_it_with_others(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    install_knative(apiserver)
    cluster = Cluster(apiserver, namespace)
    (tmp_path / "mine.py").write_text("class Line: ...\n")
    package = pack(tmp_path)
    manifest = package.config_map()
    name = manifest["metadata"]["name"]
    other = {**manifest, "binaryData": {"code.zip": "b3RoZXI="}}
    with OperatorProcess(apiserver.kubeconfig, tmp_path / "operator.log"):
        cluster.apply(job("first", environment=MINE, code=package.digest))

        def told(reason: str) -> str:
            eventually(lambda: cluster.condition("first", "Ready").get("reason") == reason, what=reason)
            assert cluster.get("job", "first-learner") is None
            return str(cluster.condition("first", "Ready")["message"])

        missing = told("CodeMissing")
        assert f"ConfigMap {name} does not exist" in missing
        assert package.digest in missing
        assert cluster.status("first")["phase"] == "Pending"
        cluster.apply(other)
        differs = told("CodeDiffers")
        assert f"is {hashlib.sha256(b'other').hexdigest()}" in differs
        assert f"the job says {package.digest}" in differs
        cluster.kubectl("delete", "configmap", name)
        cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(manifest))
        learner = eventually(lambda: cluster.get("job", "first-learner"), what="the learner")
        service = eventually(
            lambda: cluster.get("services.serving.knative.dev", "first-actors"), what="the actors"
        )
        for pod in (learner["spec"]["template"]["spec"], service["spec"]["template"]["spec"]):
            container = pod["containers"][0]
            mount = next(one for one in container["volumeMounts"] if one["name"] == "nitro-code")
            assert (mount["mountPath"], mount["readOnly"]) == ("/nitro-code.zip", True)
            assert mount["subPath"] == "code.zip", "without it the kubelet brings changes into running pods"
            volume = next(one for one in pod["volumes"] if one["name"] == mount["name"])
            assert volume["configMap"]["name"] == name
            variables = {one["name"]: one.get("value") for one in container["env"]}
            assert variables["NITRO_CODE"] == "/nitro-code.zip"
            assert variables["NITRO_CODE_SHA256"] == package.digest
        cluster.apply(job("second", environment=MINE, code=package.digest))
        eventually(lambda: cluster.get("job", "second-learner"), what="another job of the same code")
        stored = json.loads(cluster.kubectl("get", "configmap", name, "-o", "json"))
        owners = [
            (one["name"], one.get("controller", False)) for one in stored["metadata"]["ownerReferences"]
        ]
        assert owners == [("first", False), ("second", False)]
        changed = cluster.kubectl(
            "patch",
            "ntj",
            "first",
            "--type=merge",
            "-p",
            json.dumps({"spec": {"code": "0" * 64}}),
            check=False,
        )
        assert "cannot change after creation" in changed
