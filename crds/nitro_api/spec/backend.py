"""spec.backend: where the actors run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Model
from nitro_api.spec.lambda_backend import GivenLambdaBackend, LambdaBackendSpec


class KnativeBackendSpec(Model):
    """Settings of the Knative backend. There are none yet: the operator chooses what Knative needs."""


class LocalBackendSpec(Model):
    """Settings of actors that are processes on the learner's machine."""

    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Actor processes; a round with more actors runs in waves. Default: the number of CPUs that the learner
    may use."""


class GivenBackend(Model):
    """Where the actors run. At most one block besides `type`, the one that it names."""

    type: Literal["Knative", "Lambda", "Local"] = "Knative"
    """Knative: pods that a Knative Revision scales. Lambda: invocations of an AWS Lambda function. Local:
    processes beside the learner (on a cluster, in its pod). `nitro train` uses Local unless --backend says
    otherwise. Default: Knative."""

    knative: KnativeBackendSpec | None = None
    """Settings of `type: Knative`. Default: its defaults."""

    local: LocalBackendSpec | None = None
    """Settings of `type: Local`. Default: its defaults."""

    lambda_: GivenLambdaBackend | None = Field(default=None, alias="lambda")
    """Settings of `type: Lambda`, required with it. Default: none."""

    @property
    def needs_redis(self) -> bool:
        """Whether learner and actors exchange data through the Redis in the learner's pod."""
        return self.lambda_ is None


class Backend(GivenBackend):
    """Where the actors of a resolved job run."""

    lambda_: LambdaBackendSpec | None = Field(default=None, alias="lambda")
