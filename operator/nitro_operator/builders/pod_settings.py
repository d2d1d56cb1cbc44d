"""The pod settings that a job names, in a pod that the operator builds. The operator's own settings win."""

from collections.abc import Mapping, Sequence
from typing import Any

from nitro_api.base import Model
from nitro_api.spec.pod_template import PodTemplate
from nitro_operator.builders.view import JobView
from nitro_operator.kube.kinds import Object

_OF_PODS = (
    "node_selector",
    "tolerations",
    "affinity",
    "topology_spread_constraints",
    "priority_class_name",
    "runtime_class_name",
    "service_account_name",
)


def metadata(given: PodTemplate, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    """Metadata of the pod with the operator's labels and annotations."""
    fields: Object = {"labels": {**(given.labels or {}), **labels}}
    if given.annotations or annotations:
        fields["annotations"] = {**(given.annotations or {}), **annotations}
    return fields


def pod_fields(given: PodTemplate, view: JobView) -> Object:
    """Fields of the pod's spec, without its volumes."""
    fields = {PodTemplate.model_fields[name].alias or name: _plain(getattr(given, name)) for name in _OF_PODS}
    names = [*view.config.image_pull_secrets, *(secret.name for secret in given.image_pull_secrets or ())]
    fields["imagePullSecrets"] = [{"name": name} for name in dict.fromkeys(names)]
    return {name: value for name, value in fields.items() if value}


def listed(models: Sequence[Model] | None) -> list[Object]:
    """The volumes, mounts or environment variables that a job names."""
    return [model.to_dict() for model in models or ()]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, Model) else value
