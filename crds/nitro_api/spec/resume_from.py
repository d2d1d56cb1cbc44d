"""spec.resumeFrom: another run whose policies a new job starts with."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nitro_api.base import Model


class ResumeFrom(Model):
    """The newest checkpoint of another run. Name the job or the place in a bucket."""

    job: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    """NitroTrainingJob of the same namespace. Default: none."""

    s3: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Folder of the run in a bucket, as status.checkpoint.location of its job has it, such as
    s3://runs/hopper/NAME-UID. It is read with the region, endpointUrl and credentialsSecret of this job's own
    learner.checkpoint.s3. Default: none."""
