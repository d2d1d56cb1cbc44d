"""Rules of updates: which fields of a stored job may change, and when."""

from typing import Any

from nitro_api.spec.job import JobSpec
from nitro_api.spec.pod_template import PodTemplate

MUTABLE = (
    "stop",
    "suspend",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "scaling.hold",
    "scaling.sleep",
)
"""Parts of spec that may change after creation: whole fields, and fields inside a field."""

_POD_FIELDS = (
    "image",
    "resources",
    *(field.alias or name for name, field in PodTemplate.model_fields.items()),
)
MENDABLE = (
    *(f"actor.{name}" for name in _POD_FIELDS),
    *(f"learner.{name}" for name in _POD_FIELDS),
    "learner.backoffLimit",
    "learner.device",
    "tracking",
    "cache",
)
"""Parts of spec that may change while the job is suspended. They decide where the run's pods are, what they
have and where the run is recorded, not what it computes. (Another device changes the last bits.)"""

IMMUTABLE_SENTENCE = (
    "cannot change after creation (only stop, suspend, ttlSecondsAfterFinished, activeDeadlineSeconds, "
    "scaling.hold and scaling.sleep can, and while suspended tracking, cache, images, resources and pod "
    "settings of actor and learner, and the learner's device and backoffLimit); put the old value back, or "
    "create the job anew"
)
MENDABLE_SENTENCE = (
    "can change only while the job is suspended, and of actor and learner only image, resources and pod "
    "settings, and the learner's device and backoffLimit; set suspend to true and apply that first, then "
    "change it"
)


def immutable_fields() -> list[str]:
    """camelCase names of the fields of spec that cannot change after creation, or of which only parts can."""
    names = [field.alias or name for name, field in JobSpec.model_fields.items()]
    return [name for name in names if name not in (*MUTABLE, *MENDABLE)]


def mendable_fields() -> list[str]:
    """camelCase names of the fields of spec that can change, or of which parts can, while the job is
    suspended."""
    return list(dict.fromkeys(path.partition(".")[0] for path in MENDABLE))


def changeable(name: str, paths: tuple[str, ...] = (*MUTABLE, *MENDABLE)) -> list[str]:
    """The fields inside the field `name` of spec that are among `paths`."""
    return [path.partition(".")[2] for path in paths if path.startswith(f"{name}.")]


def mendable_settings(spec: JobSpec) -> dict[str, Any]:
    """The values of MENDABLE that differ from their defaults. A later version may add fields, so a job that
    does not use them has the same settings in both versions. A cache without resources is none."""
    settings: dict[str, Any] = {}
    for part, model in (("actor", spec.actor), ("learner", spec.learner)):
        given = model.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        kept = {name: given.get(name) for name in changeable(part, MENDABLE)}
        settings[part] = {name: value for name, value in kept.items() if value not in (None, {}, [])}
    if spec.tracking is not None:
        settings["tracking"] = spec.tracking.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if spec.cache is not None and spec.cache.resources is not None:
        settings["cache"] = spec.cache.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return settings
