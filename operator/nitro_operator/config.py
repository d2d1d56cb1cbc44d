"""The settings of the operator. Its Deployment sets each as an environment variable."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

UNPRIVILEGED = 65532
"""User and group of our own images."""
RESOLV_CONF = Path("/etc/resolv.conf")


@dataclass(frozen=True)
class Config:
    """Settings of one operator process."""

    actor_image: str
    """Image of an actor for jobs that name none."""
    learner_image: str
    """Image of the learner, with CUDA, for jobs that name none."""
    learner_cpu_image: str
    """The same without CUDA, for those of them that ask for no GPU."""
    redis_image: str
    """Image with `redis-server` on its PATH; it runs as a numeric user without a writable root."""
    platform_max_actors: int
    """Actors that all jobs together may have; 0 = no limit."""
    lambda_endpoints: tuple[str, ...]
    """Hosts besides AWS's own that spec.backend.lambda.endpointUrl may name; `*` is any."""
    entry_points: bool
    """Whether jobs may name a module to import: by an entryPoint, or in environment.id; and whether they may
    bring one by spec.code."""
    metadata_prefixes: Mapping[str, tuple[str, ...]]
    """Beginnings of keys that jobs may give their pods besides the usual ones: `annotations` and `labels`."""
    apparmor: bool
    """Whether pods name AppArmor's profile. A node without AppArmor refuses such a pod."""
    namespace_max_actors: Mapping[str, int]
    """Actors that the jobs of a namespace together may have; `*` = of each namespace that is not named."""
    platform_max_pods: int
    """Actor pods that all jobs together may have, sleeping ones included; 0 = no limit."""
    namespace_max_pods: Mapping[str, int]
    """Actor pods that the jobs of a namespace together may have, likewise."""
    resizes_per_second: float
    """Pods of all jobs that are put to sleep or woken in a second; 0 = none, so that actors do not sleep."""
    keep_nodes: bool
    """Whether autoscalers are asked to leave the nodes of a running job's actors alone."""
    watch_namespaces: tuple[str, ...]
    """Namespaces to serve; empty = the whole cluster."""
    knative_namespace: str
    """Namespace of Knative Serving. Network policies admit its activator and autoscaler."""
    learner_egress: tuple[dict[str, Any], ...] | None
    """Rules of what learners may connect to besides DNS and actors (NetworkPolicyEgressRule); None = all."""
    cluster_domain: str
    """The cluster's DNS domain. The activator accepts only an actor's full address, which ends with it."""
    run_as_user: int | Literal["auto"] | None
    """User of every container of a job; None = none is named, so that the platform fills it in. `auto` = that
    of the image, and for Redis, whose public images begin as root, UNPRIVILEGED."""
    fs_group: int | Literal["auto"] | None
    """Group of the learner's volumes; None = none is named; `auto` = UNPRIVILEGED."""
    image_pull_policy: str | None
    """`imagePullPolicy` of all containers; None = the cluster's default."""
    image_pull_secrets: tuple[str, ...]
    """Names of the pull secrets that every pod carries; they must exist in the job's namespace."""
    lease_namespace: str
    """Namespace of the Leases of all operators."""
    identity: str
    """The pod's name, which the Lease has. A container that starts again in its pod need not wait."""
    resync_seconds: float
    """Time between two reconciles of a job without any event."""
    metrics_port: int
    health_port: int
    log_level: str

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] = os.environ, resolv_conf: Path = RESOLV_CONF
    ) -> Self:
        """Read the variables, and the cluster's domain from the pod's resolver configuration.

        Raises:
            ValueError: an image is missing or a number cannot be read; the text names the variable.
        """
        return cls(
            actor_image=_required(environ, "NITRO_ACTOR_IMAGE"),
            learner_image=_required(environ, "NITRO_LEARNER_IMAGE"),
            learner_cpu_image=environ.get("NITRO_LEARNER_CPU_IMAGE") or environ["NITRO_LEARNER_IMAGE"],
            redis_image=_required(environ, "NITRO_REDIS_IMAGE"),
            platform_max_actors=int(_number(environ, "NITRO_PLATFORM_MAX_ACTORS", "0")),
            lambda_endpoints=_names(environ, "NITRO_LAMBDA_ENDPOINTS"),
            entry_points=_flag(environ, "NITRO_ENTRY_POINTS", default="true"),
            metadata_prefixes={
                "annotations": _names(environ, "NITRO_ANNOTATION_PREFIXES"),
                "labels": _names(environ, "NITRO_LABEL_PREFIXES"),
            },
            apparmor=_flag(environ, "NITRO_APPARMOR", default="false"),
            namespace_max_actors=_numbers(environ, "NITRO_NAMESPACE_MAX_ACTORS"),
            platform_max_pods=int(_number(environ, "NITRO_PLATFORM_MAX_PODS", "0")),
            namespace_max_pods=_numbers(environ, "NITRO_NAMESPACE_MAX_PODS"),
            resizes_per_second=_number(environ, "NITRO_RESIZES_PER_SECOND", "50"),
            keep_nodes=_flag(environ, "NITRO_KEEP_NODES", default="false"),
            watch_namespaces=_names(environ, "NITRO_WATCH_NAMESPACES"),
            knative_namespace=environ.get("NITRO_KNATIVE_NAMESPACE", "knative-serving"),
            learner_egress=_rules(environ, "NITRO_LEARNER_EGRESS"),
            cluster_domain=_cluster_domain(resolv_conf),
            run_as_user=_identity(environ, "NITRO_RUN_AS_USER"),
            fs_group=_identity(environ, "NITRO_FS_GROUP"),
            image_pull_policy=environ.get("NITRO_IMAGE_PULL_POLICY") or None,
            image_pull_secrets=_names(environ, "NITRO_IMAGE_PULL_SECRETS"),
            lease_namespace=environ.get("NITRO_LEASE_NAMESPACE", "kube-system"),
            identity=environ.get("HOSTNAME") or socket.gethostname(),
            resync_seconds=_number(environ, "NITRO_RESYNC_SECONDS", "20"),
            metrics_port=int(_number(environ, "NITRO_METRICS_PORT", "8080")),
            health_port=int(_number(environ, "NITRO_HEALTH_PORT", "8081")),
            log_level=environ.get("NITRO_LOG_LEVEL", "INFO").upper(),
        )


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise ValueError(f"{name} is not set: give the image by value, for example {name}=registry/nitro:1.0")
    return value


def _names(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in environ.get(variable, "").split(",") if name.strip())


def _numbers(environ: Mapping[str, str], variable: str) -> dict[str, int]:
    """Read `name=number,name=number`."""
    numbers = {}
    for entry in _names(environ, variable):
        name, _, number = entry.partition("=")
        if not name or not number.isdecimal():
            raise ValueError(f"{variable}: {entry!r} is not NAMESPACE=NUMBER")
        numbers[name] = int(number)
    return numbers


def _rules(environ: Mapping[str, str], variable: str) -> tuple[dict[str, Any], ...] | None:
    """Read a list of objects in JSON."""
    text = environ.get(variable)
    if not text:
        return None
    try:
        rules = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{variable} is not JSON: {error}") from None
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ValueError(f"{variable}={text} is not a list of objects")
    return tuple(rules)


def _cluster_domain(resolv_conf: Path) -> str:
    """The cluster's domain, found as Knative does: the text after `svc.` in a search domain."""
    lines = resolv_conf.read_text().splitlines() if resolv_conf.exists() else []
    domains = [word for line in lines if line.startswith("search") for word in line.split()[1:]]
    clusters = (domain.removeprefix("svc.").rstrip(".") for domain in domains if domain.startswith("svc."))
    return next(clusters, "cluster.local")


def _identity(environ: Mapping[str, str], name: str) -> int | Literal["auto"] | None:
    """Read a user's or a group's number, `auto` or `none`."""
    text = environ.get(name) or "auto"
    if text == "auto":
        return "auto"
    if text == "none":
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{name}={text!r} is neither auto, none nor a number above 0")
    return int(text)


def _flag(environ: Mapping[str, str], name: str, *, default: str) -> bool:
    """Read `true` or `false`."""
    text = environ.get(name) or default
    if text not in ("true", "false"):
        raise ValueError(f"{name}={text!r} is neither true nor false")
    return text == "true"


def _number(environ: Mapping[str, str], name: str, default: str) -> float:
    text = environ.get(name) or default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a number") from None
    if value < 0:
        raise ValueError(f"{name}={text!r} is negative")
    return value
