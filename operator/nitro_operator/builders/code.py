"""The package of the job's code in a pod: a ConfigMap, mounted read-only."""

from nitro_api.spec.code import DIGEST_VARIABLE, PACKAGE, PACKAGE_VARIABLE, config_map_name
from nitro_operator.builders.view import JobView
from nitro_operator.kube.kinds import Object

MOUNT = "/nitro-code.zip"
_VOLUME = "nitro-code"


def code_volumes(view: JobView) -> list[Object]:
    """The ConfigMap's volume; none if the job has no code of its own."""
    if view.spec.code is None:
        return []
    source = {"name": config_map_name(view.spec.code), "items": [{"key": PACKAGE, "path": PACKAGE}]}
    return [{"name": _VOLUME, "configMap": source}]


def code_mounts(view: JobView) -> list[Object]:
    """Its mount in the container that imports the code.

    A file that is mounted by `subPath` stays as it was when the container started, and as it was checked,
    whatever becomes of the ConfigMap.
    """
    if view.spec.code is None:
        return []
    return [{"name": _VOLUME, "mountPath": MOUNT, "subPath": PACKAGE, "readOnly": True}]


def code_variables(view: JobView) -> list[Object]:
    """The variables by which the program finds the package, and the digest that it must have."""
    if view.spec.code is None:
        return []
    return [
        {"name": PACKAGE_VARIABLE, "value": MOUNT},
        {"name": DIGEST_VARIABLE, "value": view.spec.code},
    ]
