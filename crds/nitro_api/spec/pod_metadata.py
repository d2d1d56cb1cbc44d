"""Which labels and annotations a job may give its pods.

Some of them decide about security: an annotation can lift a container's AppArmor profile, attach a pod to
another network, or have a program of the cluster put a container, a node's volume or an identity into it.
Which ones do depends on what the cluster runs. So the usual harmless ones are listed, and a platform adds its
own. The lists have whole keys where a shorter beginning would take in one that names an image, a volume or an
identity, or that has an agent of the node read what a tenant wants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nitro_api.spec.pod_template import PodTemplate

ANNOTATION_PREFIXES = (
    # Service meshes: whether a pod takes part, what bypasses the proxy, and what the proxy may use.
    "sidecar.istio.io/inject",
    "sidecar.istio.io/nativeSidecar",
    "sidecar.istio.io/proxyCPU",
    "sidecar.istio.io/proxyMemory",
    "traffic.sidecar.istio.io/",
    "proxy.istio.io/config",
    "ambient.istio.io/",
    "linkerd.io/inject",
    "config.linkerd.io/skip-",
    "config.linkerd.io/opaque-ports",
    "config.linkerd.io/proxy-await",
    "config.linkerd.io/proxy-cpu-",
    "config.linkerd.io/proxy-memory-",
    "consul.hashicorp.com/connect-inject",
    "kuma.io/sidecar-injection",
    "kuma.io/mesh",
    # Scrapers of metrics and logs.
    "prometheus.io/",
    "fluentbit.io/",
    "k8s.grafana.com/",
    # Autoscalers of nodes, and others that move pods.
    "cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    "descheduler.alpha.kubernetes.io/",
    # Backup, with its commands in the pod's own containers.
    "backup.velero.io/",
    "pre.hook.backup.velero.io/",
    "post.hook.backup.velero.io/",
    # Queues, bandwidth, and what kubectl shows.
    "kueue.x-k8s.io/",
    "kubernetes.io/ingress-bandwidth",
    "kubernetes.io/egress-bandwidth",
    "kubectl.kubernetes.io/default-container",
)
"""Beginnings of the annotations that a job may give its pods on every platform."""

LABEL_PREFIXES = (
    "sidecar.istio.io/inject",
    "istio.io/dataplane-mode",
    "istio.io/rev",
    "istio.io/use-waypoint",
    "kuma.io/sidecar-injection",
    "kuma.io/mesh",
    "tags.datadoghq.com/",
    "admission.datadoghq.com/enabled",
    "kueue.x-k8s.io/",
)
"""Beginnings of the labels with a domain that a job may give its pods on every platform. Labels without a
domain are the users' own, by Kubernetes' convention, and are free."""


class Unlisted(NamedTuple):
    """Labels or annotations of a pod that are not listed."""

    field: str
    """`annotations` or `labels`."""
    keys: list[str]
    allowed: list[str]
    """Beginnings that are listed."""

    @property
    def value(self) -> str:
        """The chart's value that adds beginnings."""
        return f"platform.{self.field.removesuffix('s')}Prefixes"


def unlisted(template: PodTemplate, more: Mapping[str, Iterable[str]]) -> Unlisted | None:
    """The labels or annotations of a pod that are not listed; None if all are.

    Args:
        template: the pod.
        more: beginnings that are allowed besides, by field.
    """
    for field, given, usual in (
        ("annotations", template.annotations, ANNOTATION_PREFIXES),
        ("labels", template.labels, LABEL_PREFIXES),
    ):
        allowed = (*usual, *more.get(field, ()))
        keys = sorted(key for key in given or () if not key.startswith(allowed))
        if field == "labels":
            keys = [key for key in keys if "/" in key]
        if keys:
            return Unlisted(field, keys, sorted(allowed))
    return None
