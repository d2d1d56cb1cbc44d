"""Rules of pods and their containers: images, resources, placement, variables and volumes."""

from __future__ import annotations

from collections.abc import Iterable

from nitro_api.base import Model, Rule, declare, matching
from nitro_api.spec.placement import Toleration
from nitro_api.spec.pod_template import EnvSource, EnvVar, Volume, VolumeMount
from nitro_api.spec.pods import Actor, Learner, Resources
from nitro_api.spec.quantities import at_most

OPERATORS_PREFIXES = (
    "nitro.dev/",
    "app.kubernetes.io/",
    "batch.kubernetes.io/",
    "autoscaling.knative.dev/",
    "networking.knative.dev/",
    "serving.knative.dev/",
)
"""Labels and annotations with these prefixes are the operator's or a controller's. A NetworkPolicy selects by
the first two, so a pod with another job's labels could reach that job's Redis."""
OPERATORS_VOLUMES = ("tmp", "shm", "checkpoints", "resume-from", "api-token", "redis-acl", "redis-tmp")
OPERATORS_PATHS = (
    "/",
    "/tmp",
    "/dev",
    "/dev/shm",
    "/checkpoints",
    "/resume-from",
    "/etc/nitro",
    "/var/run/secrets/kubernetes.io/serviceaccount",
)

_IMAGE = "^[!-~]+$"
_VARIABLE = "^[A-Za-z_][A-Za-z0-9_]*$"
_SOURCES = {
    Volume: ("configMap", "secret", "persistentVolumeClaim", "emptyDir"),
    EnvSource: ("secretKeyRef", "configMapKeyRef"),
}

declare(
    Resources,
    *(
        Rule(
            path=block,
            cel=f"!has(self.{block}) || self.{block}.all(name, !string(self.{block}[name]).startsWith('-'))",
            sentence="must not be negative; write amounts as 500m, 2 or 4Gi",
            holds=lambda resources, block=block: (
                not any(  # type: ignore[misc]
                    str(amount).startswith("-") for amount in (getattr(resources, block) or {}).values()
                )
            ),
        )
        for block in ("requests", "limits")
    ),
    Rule(
        path="requests",
        # A value that is no quantity is refused by its pattern.
        cel="!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) "
        "|| !isQuantity(string(self.requests[name])) || !isQuantity(string(self.limits[name])) "
        "|| quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
        sentence="must be at most the limits; lower the request or raise the limit",
        holds=lambda resources: all(
            at_most(amount, (resources.limits or {}).get(name, amount))
            for name, amount in (resources.requests or {}).items()
        ),
    ),
)
declare(
    Toleration,
    Rule(
        path="operator",
        cel="has(self.key) || self.operator == 'Exists'",
        sentence="must be Exists without a key; name the key or set operator: Exists",
        holds=lambda toleration: toleration.key is not None or toleration.operator == "Exists",
    ),
    Rule(
        path="value",
        cel="!has(self.value) || self.operator == 'Equal'",
        sentence="is only allowed with operator: Equal; remove it or set operator: Equal",
        holds=lambda toleration: toleration.value is None or toleration.operator == "Equal",
    ),
    Rule(
        path="tolerationSeconds",
        cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        sentence="is only allowed with effect: NoExecute; remove it or set effect: NoExecute",
        holds=lambda toleration: toleration.toleration_seconds is None or toleration.effect == "NoExecute",
    ),
)


def _one_source(model: type[Model]) -> Rule:
    names = _SOURCES[model]
    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    return Rule(
        path=names[0],
        cel=f"[{', '.join(f'has(self.{name})' for name in names)}].filter(given, given).size() == 1",
        sentence=f"must be given, or another source, but one only; name one of {listed}",
        holds=lambda source: len(source.to_dict().keys() & set(names)) == 1,
    )


declare(Volume, _one_source(Volume))
declare(EnvSource, _one_source(EnvSource))
declare(
    EnvVar,
    matching("name", _VARIABLE, "must be letters, digits and underscores, no digit first; correct it"),
    Rule(
        path="name",
        cel="!self.name.startsWith('NITRO_') && self.name != 'HOME'",
        sentence="must not be HOME or begin with NITRO_, because the operator sets those; rename it",
        holds=lambda variable: not variable.name.startswith("NITRO_") and variable.name != "HOME",
    ),
    Rule(
        path="value",
        cel="!has(self.value) || !has(self.valueFrom)",
        sentence="excludes valueFrom; remove either",
        holds=lambda variable: variable.value is None or variable.value_from is None,
    ),
)
declare(
    VolumeMount,
    Rule(
        path="mountPath",
        cel=f"self.mountPath.startsWith('/') && !(self.mountPath in {list(OPERATORS_PATHS)})",
        sentence=f"must be an absolute path and none of {', '.join(OPERATORS_PATHS)}; write it as /data",
        holds=lambda mount: mount.mount_path.startswith("/") and mount.mount_path not in OPERATORS_PATHS,
    ),
)


def _unique(path: str, what: str) -> Rule:
    return Rule(
        path=path,
        cel=f"!has(self.{path}) || self.{path}.all(one, self.{path}.exists_one(it, it.name == one.name))",
        sentence=f"must have each name once; rename or remove one of the {what}",
        holds=lambda pod: len(_names(getattr(pod, path))) == len(getattr(pod, path) or ()),
    )


def _free_prefix(path: str) -> Rule:
    taken = " || ".join(f"key.startsWith('{prefix}')" for prefix in OPERATORS_PREFIXES)
    return Rule(
        path=path,
        cel=f"!has(self.{path}) || self.{path}.all(key, !({taken}))",
        sentence=f"must not begin with {', '.join(OPERATORS_PREFIXES)}, which others set; remove it",
        holds=lambda pod: not any(key.startswith(OPERATORS_PREFIXES) for key in getattr(pod, path) or ()),
    )


def _names(items: Iterable[Volume | VolumeMount | EnvVar] | None) -> set[str]:
    return {item.name for item in items or ()}


_POD = (
    matching(
        "image", _IMAGE, "must be an image without spaces; write it as registry.example.com/nitro-actor:0.1.0"
    ),
    _free_prefix("labels"),
    _free_prefix("annotations"),
    _unique("env", "variables"),
    _unique("volumes", "volumes"),
    Rule(
        path="volumes",
        cel=f"!has(self.volumes) || self.volumes.all(volume, !(volume.name in {list(OPERATORS_VOLUMES)}))",
        sentence=f"must not have a name of the operator's: {', '.join(OPERATORS_VOLUMES)}; rename it",
        holds=lambda pod: not _names(pod.volumes) & set(OPERATORS_VOLUMES),
    ),
    Rule(
        path="volumes",
        cel="!has(self.volumes) || self.volumes.all(volume, has(self.volumeMounts) "
        "&& self.volumeMounts.exists(mount, mount.name == volume.name))",
        sentence="must each be mounted; add it to volumeMounts or remove it",
        holds=lambda pod: _names(pod.volumes) <= _names(pod.volume_mounts),
    ),
    Rule(
        path="volumeMounts",
        cel="!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes) "
        "&& self.volumes.exists(volume, volume.name == mount.name))",
        sentence="must name a volume in volumes; add the volume or correct the name",
        holds=lambda pod: _names(pod.volume_mounts) <= _names(pod.volumes),
    ),
)
declare(
    Actor,
    *_POD,
    Rule(
        path="roundDeadlineSeconds",
        cel="!has(self.roundDeadlineSeconds) || self.timeoutSeconds <= self.roundDeadlineSeconds",
        sentence="must be at least timeoutSeconds; raise roundDeadlineSeconds or lower timeoutSeconds",
        holds=lambda actor: (
            actor.round_deadline_seconds is None or actor.timeout_seconds <= actor.round_deadline_seconds
        ),
    ),
)
declare(
    Learner,
    *_POD,
    Rule(
        path="serviceAccountName",
        cel="!has(self.serviceAccountName) || !has(self.roleArn)",
        sentence="excludes roleArn, which the operator writes on an account of its own; remove either",
        holds=lambda learner: learner.service_account_name is None or learner.role_arn is None,
    ),
)
