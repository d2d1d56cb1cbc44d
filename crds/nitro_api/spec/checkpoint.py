"""spec.learner.checkpoint: when a run is kept, and where."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nitro_api.base import Model, Name


class CheckpointVolume(Model):
    """The volume of the checkpoints: a claim of yours by name, or one that the operator makes for the job."""

    claim_name: Name | None = None
    """An existing PersistentVolumeClaim; it stays when the job goes. Default: the operator makes one."""

    size: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    """Size of the claim that the operator makes, such as 10Gi; one that an earlier job of this name left is
    used again, and grows if it is smaller. Unit: bytes. Default: 1Gi."""

    storage_class_name: Name | None = None
    """Storage class of the claim that the operator makes. Default: the cluster's."""

    retain: bool = True
    """Whether the claim that the operator made stays when the job is deleted. Default: true."""


class CheckpointBucket(Model):
    """A bucket of Amazon S3, or of another store that speaks its API."""

    bucket: Annotated[str, Field(min_length=3, max_length=63)]
    """Name of the bucket, which must exist."""

    prefix: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """What the names of all objects begin with, before the job's own folder, such as runs/hopper. Default:
    none."""

    region: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Region of the bucket, such as us-east-2. Default: the one that the pod's AWS settings name."""

    endpoint_url: Annotated[str, Field(min_length=8, max_length=512)] | None = None
    """URL of a store other than Amazon's, such as http://minio.storage:9000. Default: Amazon's."""

    credentials_secret: Name | None = None
    """Secret of the job's namespace with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN
    where there is one. Default: the pod's own identity: spec.learner.roleArn, or EKS Pod Identity."""


class Checkpoint(Model):
    """When checkpoints are written, how many are kept, and where on a cluster."""

    every_rounds: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """A checkpoint after every so many rounds; one more is written at the end and on interruption. Unit:
    rounds. Default: 1."""

    keep_last: Annotated[int, Field(ge=1, le=1000)] = 3
    """Checkpoints that are kept; older ones are removed. Default: 3."""

    pvc: CheckpointVolume | None = None
    """The volume, on a cluster. Default: a claim of 1Gi that stays; none with `s3`."""

    s3: CheckpointBucket | None = None
    """The bucket, on a cluster, in place of a volume: the run's folder is kept there with every checkpoint,
    and a learner that starts anew takes it from there. Default: none."""

    @property
    def volume(self) -> CheckpointVolume:
        """`pvc`, or its defaults."""
        return self.pvc or CheckpointVolume()
