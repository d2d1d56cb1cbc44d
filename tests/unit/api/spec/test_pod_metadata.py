"""Labels and annotations that jobs may give their pods."""

from __future__ import annotations

import pytest

from nitro_api.resolution.warnings import warnings
from nitro_api.spec.job import NitroTrainingJob
from nitro_api.spec.pod_metadata import unlisted
from nitro_api.spec.pods import Actor, Learner

HARMLESS = (
    "prometheus.io/scrape",
    "sidecar.istio.io/inject",
    "traffic.sidecar.istio.io/excludeOutboundPorts",
    "linkerd.io/inject",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "karpenter.sh/do-not-disrupt",
    "backup.velero.io/backup-volumes",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kubectl.kubernetes.io/default-container",
)
WEAKENING = (
    "container.apparmor.security.beta.kubernetes.io/learner",  # lifts the profile
    "container.seccomp.security.alpha.kubernetes.io/learner",
    "seccomp.security.alpha.kubernetes.io/pod",
    "sidecar.istio.io/proxyImage",  # a container of anybody's
    "sidecar.istio.io/userVolume",  # a folder of the node
    "inject.istio.io/templates",
    "config.linkerd.io/proxy-image",
    "admission.datadoghq.com/python-lib.custom-image",
    "k8s.v1.cni.cncf.io/networks",  # another network
    "iam.amazonaws.com/role",  # an identity
    "vault.hashicorp.com/agent-image",
    "ad.datadoghq.com/learner.checks",  # read with the agent's variables
    "io.kubernetes.cri-o.userns-mode",
    "note",
    "sidecar.istio.io",
)


@pytest.mark.parametrize("kind", [Actor, Learner])
def test_usual_annotations_are_listed_and_those_that_weaken_a_pod_are_not(
    kind: type[Actor | Learner],
) -> None:
    assert unlisted(kind(annotations=dict.fromkeys(HARMLESS, "x")), {}) is None
    for key in WEAKENING:
        found = unlisted(kind(annotations={**dict.fromkeys(HARMLESS, "x"), key: "unconfined"}), {})
        assert found is not None, key
        assert (found.field, found.keys, found.value) == (
            "annotations",
            [key],
            "platform.annotationPrefixes",
        )


def test_labels_without_a_domain_are_free_and_of_others_the_usual_ones() -> None:
    free = {"team": "rl", "sidecar.istio.io/inject": "false", "kueue.x-k8s.io/priority-class": "high"}
    assert unlisted(Learner(labels=free), {}) is None
    for key in ("azure.workload.identity/use", "security.istio.io/tlsMode", "example.com/team"):
        found = unlisted(Learner(labels={**free, key: "x"}), {})
        assert found is not None
        assert (found.field, found.keys, found.value) == ("labels", [key], "platform.labelPrefixes")


def test_a_platform_adds_beginnings_for_annotations_and_labels_apart() -> None:
    both = Actor(annotations={"example.com/a": "x"}, labels={"example.com/b": "x"})
    found = unlisted(both, {"annotations": ("example.com/",)})
    assert found is not None
    assert (found.field, found.keys) == ("labels", ["example.com/b"])
    assert unlisted(both, {"annotations": ("example.com/",), "labels": ("example.com/",)}) is None
    assert unlisted(Actor(annotations={"example.com.org/a": "x"}), {"annotations": ("example.com/",)})


def test_validation_warns_of_metadata_that_not_every_cluster_takes() -> None:
    spec = {
        "environment": {"id": "Hopper-v5"},
        "actor": {"annotations": {"iam.amazonaws.com/role": "admin"}, "labels": {"team": "rl"}},
        "learner": {"labels": {"example.com/team": "rl"}},
    }
    job = NitroTrainingJob.model_validate(
        {
            "apiVersion": "nitro.dev/v1alpha1",
            "kind": "NitroTrainingJob",
            "metadata": {"name": "hopper"},
            "spec": spec,
        }
    )
    told = [warning for warning in warnings(job) if "platform." in warning]
    assert [warning.split(":")[0] for warning in told] == ["spec.learner.labels", "spec.actor.annotations"]
    assert "iam.amazonaws.com/role" in told[1]
