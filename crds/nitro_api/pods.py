"""spec.actor and spec.learner: images, resources and the checkpoint volume."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Model
from nitro_api.quantities import Quantity

Image = Annotated[str, Field(min_length=1, max_length=512)]
Name = Annotated[str, Field(min_length=1, max_length=253)]
Amounts = Annotated[dict[str, Quantity], Field(max_length=16)]


class Resources(Model):
    """Resources of a container, as Kubernetes has them."""

    requests: Amounts | None = None
    """What is set aside, such as {cpu: 500m, memory: 512Mi}. Default: the limits."""

    limits: Amounts | None = None
    """What may be used at most, such as {memory: 1Gi, nvidia.com/gpu: 1}. Default: none."""


class Toleration(Model):
    """A taint that the pod accepts, as Kubernetes has it."""

    key: Name | None = None
    """Key of the taint; absent means every key, with operator Exists. Default: every key."""

    operator: Literal["Exists", "Equal"] = "Equal"
    """Whether the taint's value matters (Equal) or not (Exists). Default: Equal."""

    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint, with operator Equal. Default: empty."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Default: every effect."""

    toleration_seconds: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """How long a NoExecute taint is borne. Unit: seconds. Default: for ever."""


class Actor(Model):
    """The actors' pods and time limits."""

    image: Image | None = None
    """Image of the actor. Default: the one that the operator was installed with."""

    resources: Resources = Field(default_factory=Resources)
    """Resources of one actor. Default: the operator's."""

    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """Longest time of one rollout, cold start and queueing included. Unit: seconds. Default: 60."""

    round_deadline_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Time after which missing rollouts of a round are asked for once more; at least timeoutSeconds. Unit:
    seconds. Default: the larger of timeoutSeconds and three times the median round."""


class CheckpointVolume(Model):
    """The volume of the checkpoints: a claim of yours by name, or one that the operator makes for the job."""

    claim_name: Name | None = None
    """An existing PersistentVolumeClaim; it stays when the job goes. Default: the operator makes one."""

    size: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    """Size of the claim that the operator makes, such as 10Gi. Unit: bytes. Default: 1Gi."""

    storage_class_name: Name | None = None
    """Storage class of the claim that the operator makes. Default: the cluster's."""

    retain: bool = True
    """Whether the claim that the operator made stays when the job is deleted. Default: true."""


class Checkpoint(Model):
    """When checkpoints are written, how many are kept, and where on a cluster."""

    every_rounds: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """A checkpoint after every so many rounds; one more is written at the end and on interruption. Unit:
    rounds. Default: 1."""

    keep_last: Annotated[int, Field(ge=1, le=1000)] = 3
    """Checkpoints that are kept; older ones are removed. Default: 3."""

    pvc: CheckpointVolume = Field(default_factory=CheckpointVolume)
    """The volume, on a cluster. Default: a claim of 1Gi that stays."""


class Learner(Model):
    """The learner's pod, checkpoints and restarts."""

    image: Image | None = None
    """Image of the learner. Default: the one that the operator was installed with."""

    resources: Resources = Field(default_factory=Resources)
    """Resources of the learner, such as {limits: {nvidia.com/gpu: 1}}. Default: the operator's."""

    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=32)] | None = (
        None
    )
    """Labels that the learner's node must have. Default: any node."""

    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that the learner's pod accepts. Default: none."""

    priority_class_name: Name | None = None
    """Priority class of the learner's pod. Default: the cluster's."""

    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    """Checkpoints."""

    backoff_limit: Annotated[int, Field(ge=0, le=1000)] = 3
    """Times that a crashed learner is started again, each time from its last checkpoint, before the job
    fails. Default: 3."""
