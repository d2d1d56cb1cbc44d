"""The input of the builders: a job with its resolved spec."""

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from nitro_api import JobSpec
from nitro_api.quantities import multiplied
from nitro_api.rules.update_rules import mendable_settings
from nitro_api.spec.pods import Resources
from nitro_operator.config import Config
from nitro_operator.kube import names
from nitro_operator.kube.kinds import JobKey, Object

SECURE_CONTAINER: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""It passes the restricted Pod Security Standard, even without a pod-level context, as with Knative."""


@dataclass(frozen=True)
class JobView:
    """One job with its resolved spec, and the installation's settings."""

    job: Object
    """The object from the API: what it is, and its metadata."""
    spec: JobSpec
    """Resolved: every default is filled in. The values in environment.kwargs, algorithm.rllib and the
    settings of algorithm, scaling and network are left out."""
    config: Config
    environment: str
    """The actor's configuration of its environment, with environment.kwargs, as JSON."""
    credentials: str
    """Name of the Secret with the job's token and Redis passwords."""

    @classmethod
    def of(cls, job: Object, spec: JobSpec, config: Config, credentials: str | None = None) -> Self:
        """The view of a job with this resolved spec.

        Args:
            credentials: name of the job's Secret; None = the first one's.
        """
        named = {name: job[name] for name in ("apiVersion", "kind", "metadata")}
        kwargs = dict.fromkeys(spec.environment.kwargs)
        given = (
            spec.algorithm.rllib,
            *(part.settings for part in (spec.algorithm, spec.scaling, spec.network)),
        )
        rllib, learning, scaling, network = (
            None if values is None else dict.fromkeys(values) for values in given
        )
        small = {
            "environment": spec.environment.model_copy(update={"kwargs": kwargs}),
            "algorithm": spec.algorithm.model_copy(update={"rllib": rllib, "settings": learning}),
            "scaling": spec.scaling.model_copy(update={"settings": scaling}),
            "network": spec.network.model_copy(update={"settings": network}),
        }
        environment = json.dumps(spec.environment.to_actor(), sort_keys=True)
        secret = credentials or names.credentials(job["metadata"]["name"], job["metadata"]["uid"])
        return cls(named, spec.model_copy(update=small), config, environment, secret)

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.job["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """Identity of the run: keys in Redis and the checkpoint folder carry it."""
        return str(self.job["metadata"]["uid"])

    @property
    def key(self) -> JobKey:
        return JobKey(self.namespace, self.name)

    @property
    def has_redis(self) -> bool:
        """Whether learner and actors exchange data through the Redis in the learner's pod."""
        return self.spec.backend.needs_redis

    @property
    def has_secret(self) -> bool:
        """Whether learner and actors share a Secret. A function that somebody else manages knows no token."""
        function = self.spec.backend.lambda_
        return self.has_redis or (function is not None and function.manage)

    def whole_pods(self, actors: int) -> int:
        """The actors of the fewest pods that have so many."""
        per_pod = self.spec.actor.per_pod
        return math.ceil(actors / per_pod) * per_pod

    def pod_labels(self, component: str) -> dict[str, str]:
        """Labels of a pod of this run."""
        return names.labels(self.name, component) | {names.RUN_LABEL: self.uid} | names.NOT_BACKED_UP

    @property
    def queue_labels(self) -> dict[str, str]:
        """The job's labels for Kueue, which knows Jobs and pods, but not this kind of object."""
        labels = self.job["metadata"].get("labels") or {}
        return {name: value for name, value in labels.items() if name.startswith(names.KUEUE_LABELS)}

    @cached_property
    def settings_hash(self) -> str:
        """Hash of what a suspended job may change. It is the same in all releases of the operator."""
        settings = json.dumps(mendable_settings(self.spec), sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()[:16]

    def metadata(self, name: str, component: str | None = None) -> Object:
        """Metadata of a child that is made anew wherever the job is: it is deleted together with the job, and
        backups leave it out."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": names.labels(self.name, component) | names.NOT_BACKED_UP,
            "ownerReferences": [names.owner_reference(self.job)],
        }

    def container(self, name: str, image: str) -> Object:
        """The part that all containers share."""
        user = self.config.run_as_user
        container: Object = {
            "name": name,
            "image": image,
            "securityContext": SECURE_CONTAINER | ({"runAsUser": user} if isinstance(user, int) else {}),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        if self.config.image_pull_policy:
            container["imagePullPolicy"] = self.config.image_pull_policy
        return container

    def secret_env(self, variable: str, key: str) -> Object:
        """An environment variable from the job's Secret."""
        source = {"secretKeyRef": {"name": self.credentials, "key": key}}
        return {"name": variable, "valueFrom": source}


def literal(variable: str, value: str) -> Object:
    """An environment variable with exactly this value, which may hold what a user wrote.

    The kubelet makes $ of $$ and another variable's value of $(NAME), so each $ is written twice.
    """
    return {"name": variable, "value": value.replace("$", "$$")}


def resources(given: Resources, default: Object) -> Object:
    """The job's resources, with the default of each resource that the job does not name.

    A resource that the job names as request or as limit gets no default at all: the default request could
    be above the given limit.
    """
    requests, limits = given.requests or {}, given.limits or {}
    blocks = {"requests": dict(requests), "limits": dict(limits)}
    for part, amounts in default.items():
        unnamed = {name: amount for name, amount in amounts.items() if name not in {*requests, *limits}}
        blocks[part] = unnamed | blocks[part]
    return {part: amounts for part, amounts in blocks.items() if amounts}


def scratch(name: str, given: Object, *, memory: bool = False) -> Object:
    """An empty volume, on disk or in memory, as large as the container's limit of that."""
    limits = given.get("limits", {})
    if memory:
        return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": limits.get("memory", "8Gi")}}
    return {"name": name, "emptyDir": {"sizeLimit": limits.get("ephemeral-storage", "16Gi")}}


def times(factor: int, given: Object) -> Object:
    """Resources of a container, multiplied by a whole number."""
    if factor == 1:
        return given
    return {
        part: {name: multiplied(amount, factor) for name, amount in amounts.items()}
        for part, amounts in given.items()
    }
