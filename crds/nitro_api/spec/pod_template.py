"""What a job may set in the pod templates of its learner and its actors, in Kubernetes' own terms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Model, Name
from nitro_api.quantities import Quantity
from nitro_api.spec.placement import Affinity, Labels, Toleration, TopologySpreadConstraint

Path = Annotated[str, Field(min_length=1, max_length=512)]
DATA_KEY_PATTERN = "^[-._A-Za-z0-9]+$"
DataKey = Annotated[str, Field(min_length=1, max_length=253, pattern=DATA_KEY_PATTERN)]
"""Key of an entry in a Secret or a ConfigMap."""
VOLUME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
VolumeName = Annotated[str, Field(min_length=1, max_length=63, pattern=VOLUME_PATTERN)]


class LocalReference(Model):
    """An object of the job's namespace."""

    name: Name
    """Its name."""


class KeyReference(Model):
    """One entry of a Secret or a ConfigMap in the job's namespace."""

    name: Name
    """Name of the object."""

    key: DataKey
    """Key of the entry."""

    optional: bool = False
    """Whether it may be missing. Default: false."""


class EnvSource(Model):
    """Where the value of a variable is kept: exactly one."""

    secret_key_ref: KeyReference | None = None
    """An entry of a Secret. Default: none."""

    config_map_key_ref: KeyReference | None = None
    """An entry of a ConfigMap. Default: none."""


class EnvVar(Model):
    """An environment variable of the container."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    """Its name. Names that begin with NITRO_, and HOME, are the operator's."""

    value: Annotated[str, Field(max_length=4096)] | None = None
    """Its value. Default: empty, or what valueFrom names."""

    value_from: EnvSource | None = None
    """Where its value is kept, in place of `value`. Default: none."""


class FileItem(Model):
    """An entry of a Secret or a ConfigMap as a file."""

    key: DataKey
    """Key of the entry."""

    path: Path
    """Path of the file below the mount."""


Items = Annotated[list[FileItem], Field(max_length=32)]


class ConfigMapSource(Model):
    """A ConfigMap whose entries are files."""

    name: Name
    """Its name."""

    items: Items | None = None
    """The entries. Default: all."""

    optional: bool = False
    """Whether it may be missing. Default: false."""


class SecretSource(Model):
    """A Secret whose entries are files."""

    secret_name: Name
    """Its name."""

    items: Items | None = None
    """The entries. Default: all."""

    optional: bool = False
    """Whether it may be missing. Default: false."""


class ClaimSource(Model):
    """A PersistentVolumeClaim."""

    claim_name: Name
    """Its name."""

    read_only: bool = False
    """Whether it is mounted for reading only. Default: false."""


class EmptyDirSource(Model):
    """A folder that lives as long as the pod."""

    medium: Literal["Memory"] | None = None
    """Memory keeps it in memory, which counts towards the memory limit. Default: the node's disk."""

    size_limit: Quantity = "1Gi"
    """Its size at most. Unit: bytes. Default: 1Gi."""


class Volume(Model):
    """A volume of the pod. Exactly one source."""

    name: VolumeName
    """Its name, for volumeMounts."""

    config_map: ConfigMapSource | None = None
    """A ConfigMap. Default: none."""

    secret: SecretSource | None = None
    """A Secret. Default: none."""

    persistent_volume_claim: ClaimSource | None = None
    """A claim. Default: none."""

    empty_dir: EmptyDirSource | None = None
    """An empty folder. Default: none."""


class VolumeMount(Model):
    """Where the container sees a volume."""

    name: VolumeName
    """Name of the volume."""

    mount_path: Path
    """Where it is mounted, such as /data."""

    sub_path: Path | None = None
    """A folder or file of the volume. Default: the whole volume."""

    read_only: bool = False
    """Whether it is for reading only. Default: false."""


class PodTemplate(Model):
    """Settings of a pod and its container that Kubernetes has under the same names."""

    labels: Labels | None = None
    """Labels of the pod besides the operator's own: keys without a domain, and those that the platform lists.
    Default: none."""

    annotations: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] | None = (
        None
    )
    """Annotations of the pod besides the operator's own, of those that the platform lists. Default: none."""

    env: Annotated[list[EnvVar], Field(max_length=64)] | None = None
    """Environment variables. Secrets by single keys only. Default: none."""

    volumes: Annotated[list[Volume], Field(max_length=16)] | None = None
    """Volumes, each of which must be mounted. Default: none."""

    volume_mounts: Annotated[list[VolumeMount], Field(max_length=16)] | None = None
    """Where the volumes are mounted. Default: none."""

    node_selector: Labels | None = None
    """Labels that the pod's node must have. Default: any node."""

    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that the pod accepts. Default: none."""

    affinity: Affinity | None = None
    """Conditions on the pod's node. Default: none."""

    topology_spread_constraints: Annotated[list[TopologySpreadConstraint], Field(max_length=8)] | None = None
    """How evenly pods are spread. Default: as the cluster does it."""

    priority_class_name: Name | None = None
    """Priority class of the pod. Default: the cluster's."""

    runtime_class_name: Name | None = None
    """Container runtime of the pod, such as gvisor. Default: the cluster's."""

    service_account_name: Name | None = None
    """Service account of the pod, any of the job's namespace. Default: for the learner one of its own, for
    actors the namespace's default; actors get no token of it."""

    image_pull_secrets: Annotated[list[LocalReference], Field(max_length=8)] | None = None
    """Secrets with which images are pulled, besides the installation's. Default: none."""
