"""A service mesh's container in every pod of a job: the learner's end is the job's, by each exit code."""

from __future__ import annotations

from pathlib import Path

from admission import marked, webhook
from harness import Cluster, Object, kubectl, of_component, says
from jobs import hopper
from namespaces import Start

SIDECAR = """
def change(pod):
    # It does not end by itself, and ends with an error when it is asked to.
    program = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); time.sleep(1e6)"
    image = next(one["image"] for one in pod["spec"]["containers"] if one["name"] != "queue-proxy")
    one = {
        "name": "proxy", "image": image, "command": ["python", "-c", program],
        "securityContext": {
            "allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return [{"op": "add", "path": "/spec/containers/-", "value": one}]
"""


def test_a_job_ends_and_is_started_again_although_sidecars_run_on(
    cluster: Cluster, namespace: str, start: Start, tmp_path: Path
) -> None:
    with webhook(cluster, namespace, SIDECAR, tmp_path), marked(cluster, namespace, namespace):
        start("meshed", hopper(rounds=40, actors=(1, 1, 1), scaling={"scaler": "fixed"}))
        cluster.until_round(namespace, "meshed", 1)
        for component in ("learner", "actor"):
            (pod,) = cluster.pods(namespace, "meshed", component)
            assert "proxy" in [one["name"] for one in pod["spec"]["containers"]]
        (first,) = cluster.pods(namespace, "meshed", "learner")
        name = first["metadata"]["name"]
        terminate = ("python", "-c", "import os; os.kill(1, 15)")
        kubectl("exec", "--namespace", namespace, name, "-c", "learner", "--", *terminate)

        def crashed(job: Object) -> Object | None:
            return says(job, "LearnerCrashed", "exit code 75", "starts from the last checkpoint at about")

        cluster.until_job(namespace, "meshed", crashed, what="the learner's end, after its pod's")

        def another(pods: list[Object]) -> bool:
            names = [pod["metadata"]["name"] for pod in pods]
            return bool(names) and name not in names

        cluster.until(
            cluster.kind("v1", "Pod"),
            another,
            namespace=namespace,
            what="the next learner",
            selector=of_component("meshed", "learner"),
        )
        learner = cluster.kind("batch/v1", "Job").get(namespace=namespace, name="meshed-learner").to_dict()
        assert learner["status"]["failed"] == 1, "it counts as a failure, as without sidecars"
        cluster.patch_job(namespace, "meshed", {"stop": {"rounds": 3}})
        job = cluster.until_phase(namespace, "meshed", "Succeeded")
        assert job["status"]["training"]["state"] == "Succeeded"
        cluster.until_no_pods(namespace, "meshed", "learner")
        assert cluster.job(namespace, "meshed")["status"]["phase"] == "Succeeded"
