"""An operator without rights, on a real API server: how often it asks, and that it goes on later."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

from apiserver import ApiServer
from cluster_support import Cluster
from operator_support import OperatorProcess, eventually, install_knative, job

ACCOUNT = "operator"
REPORTS = 150


def bound(cluster: Cluster) -> None:
    """Give the operator its rights, as the chart's ClusterRoleBinding does."""
    account = f"--serviceaccount={cluster.namespace}:{ACCOUNT}"
    cluster.kubectl("create", "clusterrolebinding", cluster.namespace, "--clusterrole=cluster-admin", account)


def forbidden_writes(operator: OperatorProcess) -> float:
    labels = '(?=[^}]*status="403")(?=[^}]*verb="(?:PATCH|POST|DELETE)")[^}]*'
    found = re.findall(rf"^nitro_operator_api_requests_total{{{labels}}} (\S+)", operator.metrics(), re.M)
    return sum(map(float, found))


def tries(seconds: float) -> float:
    """The most tries within that time: the pauses after them are at least 0.5, 1, 2, 4 ... 30 s."""
    return 2 + math.log2(2 * seconds + 1) + seconds / 30


def test_reports_of_a_learner_do_not_make_an_operator_without_rights_ask_more_often(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    install_knative(apiserver)
    cluster = Cluster(apiserver, namespace)
    kubeconfig = apiserver.kubeconfig_of(ACCOUNT, namespace)
    lease = ("--verb=list,create,patch", "--resource=leases.coordination.k8s.io")
    apiserver.kubectl("-n", "kube-system", "create", "role", namespace, *lease)
    account = f"--serviceaccount={namespace}:{ACCOUNT}"
    apiserver.kubectl("-n", "kube-system", "create", "rolebinding", namespace, f"--role={namespace}", account)
    bound(cluster)
    with OperatorProcess(kubeconfig, tmp_path / "operator.log") as operator:
        cluster.apply(job("hopper", scaling={"hold": 0, "minActors": 4, "maxActors": 24}))
        cluster.start_learner("hopper")
        cluster.start_knative("hopper")
        cluster.report("hopper", round=1, requestedActors=5)
        eventually(lambda: cluster.scale("hopper") == ("5", "5"))

        cluster.kubectl("delete", "clusterrolebinding", namespace)
        cluster.report("hopper", round=2, requestedActors=6)
        eventually(lambda: forbidden_writes(operator) > 0, what="the rights are seen to be gone")
        before, begun = forbidden_writes(operator), time.monotonic()
        for number in range(REPORTS):
            training = {"round": 3 + number, "requestedActors": 5 + number % 8}
            cluster.patch("ntj", "hopper", {"status": {"training": training}}, status=True)
            time.sleep(0.05)
        found, seconds = forbidden_writes(operator) - before, time.monotonic() - begun
        # Of each try the scale of the actors, the status and an event may be refused.
        assert found <= 3 * tries(seconds), f"{found:.0f} writes in {seconds:.0f} s"

        bound(cluster)
        cluster.report("hopper", round=1000, requestedActors=15)
        eventually(lambda: cluster.scale("hopper") == ("15", "15"), what="it goes on with its rights")
        eventually(lambda: cluster.status("hopper")["actors"]["requested"] == 15)
