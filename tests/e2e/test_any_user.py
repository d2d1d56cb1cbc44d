"""OpenShift's SCC restricted-v2, as its rule: user and group of a pod are in a range, which is filled in.

A ValidatingAdmissionPolicy enforces the range, for jobs and for the release itself; a webhook fills it in.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from admission import MARK, marked, webhook
from harness import Cluster, Object, kubectl
from helm_release import Helm
from jobs import hopper
from kubernetes.client.exceptions import ApiException
from monitoring import until
from namespaces import Start

FIRST, LAST = 1000680000, 1000689999
FILL_IN = f"""
def change(pod):
    context = {{"runAsUser": {FIRST}, "fsGroup": {FIRST}}} | (pod["spec"].get("securityContext") or {{}})
    return [{{"op": "add", "path": "/spec/securityContext", "value": context}}]
"""
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
API = "admissionregistration.k8s.io/v1"


def policy(name: str) -> Object:
    """Every container has a user of the range, by itself or by its pod, and the pod a group of the range."""
    own = "c.?securityContext.?runAsUser.orValue(variables.user)"
    return {
        "apiVersion": API,
        "kind": POLICY,
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "variables": [
                {"name": "user", "expression": "object.spec.?securityContext.?runAsUser.orValue(0)"},
                {"name": "group", "expression": "object.spec.?securityContext.?fsGroup.orValue(0)"},
                {
                    "name": "containers",
                    "expression": "object.spec.containers + object.spec.?initContainers.orValue([])",
                },
            ],
            "validations": [
                {
                    "expression": f"variables.containers.all(c, {own} >= {FIRST} && {own} <= {LAST})",
                    "message": f"runAsUser must be in the ranges: [{FIRST}, {LAST}]",
                },
                {
                    "expression": f"variables.group >= {FIRST} && variables.group <= {LAST}",
                    "message": "fsGroup is not an allowed group",
                },
            ],
        },
    }


def binding(name: str) -> Object:
    selector = {"matchLabels": {MARK: name}}
    return {
        "apiVersion": API,
        "kind": BINDING,
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selector},
        },
    }


def until_enforced(cluster: Cluster, namespace: str) -> None:
    """Wait until the API server knows webhook and policy: what would be made of pods is asked without making
    any."""
    container: Object = {"name": "x", "image": "x"}
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

    def made(**context: int) -> Object:
        spec = {"containers": [container], "securityContext": restricted | context}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}, "spec": spec}
        answer = cluster.core.create_namespaced_pod(namespace, body, dry_run="All", _preload_content=False)
        found: Object = json.loads(answer.data)
        return found

    def refused() -> bool:
        try:
            made(fsGroup=65532)
        except ApiException as error:
            return "not an allowed group" in str(error.body)
        return False

    until(refused, "the policy")
    assert made()["spec"]["securityContext"]["fsGroup"] == FIRST


@pytest.mark.full
def test_users_are_those_of_the_platform(
    cluster: Cluster, helm: Helm, namespace: str, start: Start, tmp_path: Path
) -> None:
    spec = hopper(rounds=2, actors=(1, 1, 1), scaling={"scaler": "fixed"})
    with webhook(cluster, namespace, FILL_IN, tmp_path):
        cluster.create(policy(namespace))
        cluster.create(binding(namespace))
        try:
            with marked(cluster, namespace, namespace), marked(cluster, cluster.namespace, namespace):
                until_enforced(cluster, namespace)
                start("refused", spec)
                told = cluster.until_says(namespace, "refused", "ValidatingAdmissionPolicy", "denied request")
                assert told["reason"] == "PodRefused"
                cluster.jobs.delete(namespace=namespace, name="refused")
                helm.upgrade(podSecurity={"runAsUser": "none", "fsGroup": "none"})
                cluster.until_operator_ready()
                helm.test()
                start("fits", spec | {"stop": {"rounds": 1000}})
                cluster.until_round(namespace, "fits", 1)
                (learner,) = cluster.pods(namespace, "fits", "learner")
                for container in ("learner", "redis"):
                    status = ("cat", "/proc/1/status")
                    name = learner["metadata"]["name"]
                    said = kubectl("exec", "--namespace", namespace, name, "-c", container, "--", *status)
                    assert f"Uid:\t{FIRST}" in said
                cluster.patch_job(namespace, "fits", {"stop": {"rounds": 3}})
                cluster.until_phase(namespace, "fits", "Succeeded")
        finally:
            for kind in (BINDING, POLICY):
                cluster.kind(API, kind).delete(name=namespace)
