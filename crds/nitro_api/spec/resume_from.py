"""spec.resumeFrom: another run that a new job starts from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Model, Name


class ResumeFrom(Model):
    """The newest checkpoint of another run. Name the job, the place in a bucket, or claim and folder."""

    job: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    """NitroTrainingJob of the same namespace. Default: none."""

    s3: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Folder of the run in a bucket, as status.checkpoint.location of its job has it, such as
    s3://runs/hopper/NAME-UID. It is read with the region, endpointUrl and credentialsSecret of this job's own
    learner.checkpoint.s3. Default: none."""

    claim: Name | None = None
    """PersistentVolumeClaim of the same namespace; it may be this job's own. Default: none."""

    folder: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Folder of the run in the claim, such as NAME-UID. Default: none."""

    take: Literal["Policies", "Run"] | None = None
    """`Policies`: what the run has learned; `Run`: all of it, so that its rounds go on. Default: Policies."""
