"""Rules of pods and their containers: placement, resources, images, labels, variables and volumes."""

from nitro_api.algorithms.registry import listed
from nitro_api.base import Model, Rule, declare, matching, set_to
from nitro_api.spec.placement import (
    DOMAIN,
    KEY_PATTERN,
    QUALIFIED,
    LabelRequirement,
    LabelSelector,
    NodeRequirement,
    Toleration,
)
from nitro_api.spec.pod_template import EmptyDirSource, EnvSource, EnvVar, FileItem, Volume, VolumeMount
from nitro_api.spec.pods import Actor, Learner, Resources

_NUMBER = "^[0-9]+$"


def label_keys(path: str) -> Rule:
    """The rule that the keys of the mapping at `path`, if there is one, are those of labels."""
    return Rule(
        path=path,
        cel=f"!has(self.{path}) || self.{path}.all(key, key.matches(r'{KEY_PATTERN}'))",
        sentence="must have keys like team or example.com/team: at most 63 letters, digits, -, _ and ., "
        "a letter or digit at both ends; correct them",
    )


declare(LabelSelector, label_keys("matchLabels"))


def _values(*operators: str) -> Rule:
    return Rule(
        path="values",
        cel=f"(self.operator in {list(operators)}) == (has(self.values) && self.values.size() > 0)",
        sentence=f"must be given with {', '.join(operators)}, and with no other operator; add or remove it",
    )


declare(LabelRequirement, _values("In", "NotIn"))
declare(
    NodeRequirement,
    _values("In", "NotIn", "Gt", "Lt"),
    Rule(
        path="values",
        cel="!(self.operator in ['Gt', 'Lt']) || !has(self.values) "
        f"|| self.values.size() == 1 && self.values[0].matches('{_NUMBER}')",
        sentence="must be one whole number with Gt and Lt; write it as ['8']",
    ),
)
declare(
    Toleration,
    Rule(
        path="operator",
        cel="has(self.key) || self.operator == 'Exists'",
        sentence="must be Exists without a key; name the key or set operator: Exists",
    ),
    Rule(
        path="value",
        cel="!has(self.value) || self.operator == 'Equal'",
        sentence="is only allowed with operator: Equal; remove it or set operator: Equal",
    ),
    Rule(
        path="tolerationSeconds",
        cel=f"!has(self.tolerationSeconds) || {set_to('effect', 'NoExecute')}",
        sentence="is only allowed with effect: NoExecute; remove it or set effect: NoExecute",
    ),
)


_NAME = f"^(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGT]i|{DOMAIN}/{QUALIFIED})$"
_WHOLE = "^[0-9]+$"


def _each(block: str, cel: str, sentence: str) -> Rule:
    """A rule about each resource of requests or limits: its `name` and, as text, its `amount`."""
    condition = cel.replace("amount", f"string(self.{block}[name])")
    return Rule(
        path=block,
        cel=f"!has(self.{block}) || self.{block}.all(name, {condition})",
        sentence=sentence,
    )


for _block in ("requests", "limits"):
    declare(
        Resources,
        _each(
            _block,
            "!amount.startsWith('-')",
            "must not be negative; write amounts as 500m, 2 or 4Gi",
        ),
        _each(
            _block,
            f"name.matches(r'{_NAME}')",
            "must name cpu, memory, ephemeral-storage, hugepages-2Mi and the like, or a device with its "
            "domain, such as nvidia.com/gpu; correct the name",
        ),
        _each(
            _block,
            f"!name.contains('/') || amount.matches('{_WHOLE}')",
            "must have devices, such as nvidia.com/gpu, in whole numbers; write the amount as 1",
        ),
    )
declare(
    Resources,
    Rule(
        path="requests",
        # A value that is no quantity is refused by its pattern.
        cel="!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) "
        "|| !isQuantity(string(self.requests[name])) || !isQuantity(string(self.limits[name])) "
        "|| quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
        sentence="must be at most the limits; lower the request or raise the limit",
    ),
    Rule(
        path="requests",
        cel="!has(self.requests) || self.requests.all(name, !name.contains('/') "
        "&& !name.startsWith('hugepages-') || has(self.limits) && name in self.limits "
        "&& string(self.limits[name]) == string(self.requests[name]))",
        sentence="must have devices, such as nvidia.com/gpu, and hugepages with the amount that limits has; "
        "give it there too",
    ),
)


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
OPERATORS_VOLUMES = (
    "tmp",
    "shm",
    "checkpoints",
    "resume-from",
    "nitro-code",
    "api-token",
    "redis-acl",
    "redis-tmp",
)
OPERATORS_PATHS = (
    "/",
    "/tmp",
    "/dev",
    "/dev/shm",
    "/checkpoints",
    "/resume-from",
    "/nitro-code.zip",
    "/etc/nitro",
    "/var/run/secrets/kubernetes.io/serviceaccount",
)

_IMAGE = "^[!-~]+$"
_VARIABLE = "^[A-Za-z_][A-Za-z0-9_]*$"
# Parts that are neither empty nor . nor .., so that no path has two spellings.
_MOUNT_PATH = "^(/([^/.][^/]*|[.][^/.][^/]*|[.][.][^/]+))+$"
# An absolute path, and one that leads out of its folder or that Kubernetes could take for that.
_OUTSIDE = "^/|^[.][.]|/[.][.](/|$)"
_SOURCES = {
    Volume: ("configMap", "secret", "persistentVolumeClaim", "emptyDir"),
    EnvSource: ("secretKeyRef", "configMapKeyRef"),
}


def _one_source(model: type[Model]) -> Rule:
    names = _SOURCES[model]
    return Rule(
        path=names[0],
        cel=f"[{', '.join(f'has(self.{name})' for name in names)}].filter(given, given).size() == 1",
        sentence=f"must be given, or another source, but one only; name one of {listed(names, 'or')}",
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
    ),
    Rule(
        path="value",
        cel="!has(self.value) || !has(self.valueFrom)",
        sentence="excludes valueFrom; remove either",
    ),
)
declare(
    VolumeMount,
    Rule(
        path="mountPath",
        cel=f"self.mountPath.matches(r'{_MOUNT_PATH}') && !(self.mountPath in {list(OPERATORS_PATHS)})",
        sentence="must be an absolute path without //, ., .. or a / at its end, and none of "
        f"{', '.join(OPERATORS_PATHS)}; write it as /data",
    ),
)


def below(path: str, example: str = "games/pong") -> Rule:
    """The rule that the path at `path`, if there is one, stays in its folder."""
    return Rule(
        path=path,
        cel=f"!has(self.{path}) || !self.{path}.matches(r'{_OUTSIDE}')",
        sentence=f"must not begin with / or .. and not go up by ..; write it as {example}",
    )


declare(VolumeMount, below("subPath"))
declare(FileItem, below("path"))
declare(
    EmptyDirSource,
    Rule(
        path="sizeLimit",
        cel="!string(self.sizeLimit).startsWith('-')",
        sentence="must not be negative; write it as 500Mi or 1Gi",
    ),
)


def _once(path: str, what: str, *fields: str) -> Rule:
    same = " && ".join(f"it.{name} == one.{name}" for name in fields)
    return Rule(
        path=path,
        cel=f"!has(self.{path}) || self.{path}.all(one, self.{path}.exists_one(it, {same}))",
        sentence=f"must have each {' and '.join(fields)} once; change or remove one of the {what}",
    )


def _free_prefix(path: str) -> Rule:
    taken = " || ".join(f"key.startsWith('{prefix}')" for prefix in OPERATORS_PREFIXES)
    return Rule(
        path=path,
        cel=f"!has(self.{path}) || self.{path}.all(key, !({taken}))",
        sentence=f"must not begin with {', '.join(OPERATORS_PREFIXES)}, which others set; remove it",
    )


_POD = (
    matching(
        "image", _IMAGE, "must be an image without spaces; write it as registry.example.com/nitro-actor:0.1.0"
    ),
    *(label_keys(path) for path in ("labels", "annotations", "nodeSelector")),
    _free_prefix("labels"),
    _free_prefix("annotations"),
    _once("env", "variables", "name"),
    _once("volumes", "volumes", "name"),
    _once("volumeMounts", "mounts", "mountPath"),
    _once("topologySpreadConstraints", "constraints", "topologyKey", "whenUnsatisfiable"),
    Rule(
        path="volumes",
        cel=f"!has(self.volumes) || self.volumes.all(volume, !(volume.name in {list(OPERATORS_VOLUMES)}))",
        sentence=f"must not have a name of the operator's: {', '.join(OPERATORS_VOLUMES)}; rename it",
    ),
    Rule(
        path="volumes",
        cel="!has(self.volumes) || self.volumes.all(volume, has(self.volumeMounts) "
        "&& self.volumeMounts.exists(mount, mount.name == volume.name))",
        sentence="must each be mounted; add it to volumeMounts or remove it",
    ),
    Rule(
        path="volumeMounts",
        cel="!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes) "
        "&& self.volumes.exists(volume, volume.name == mount.name))",
        sentence="must name a volume in volumes; add the volume or correct the name",
    ),
)
declare(
    Actor,
    *_POD,
    Rule(
        path="roundDeadlineSeconds",
        cel="!has(self.roundDeadlineSeconds) || self.timeoutSeconds <= self.roundDeadlineSeconds",
        sentence="must be at least timeoutSeconds; raise roundDeadlineSeconds or lower timeoutSeconds",
    ),
)
declare(
    Learner,
    *_POD,
    Rule(
        path="serviceAccountName",
        cel="!has(self.serviceAccountName) || !has(self.roleArn)",
        sentence="excludes roleArn, which the operator writes on an account of its own; remove either",
    ),
)
