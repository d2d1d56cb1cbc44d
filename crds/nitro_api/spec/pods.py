"""spec.actor and spec.learner: images, resources, pods and restarts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from nitro_api.base import Arn, Model
from nitro_api.quantities import Quantity
from nitro_api.spec.checkpoint import Checkpoint
from nitro_api.spec.pod_template import PodTemplate

Image = Annotated[str, Field(min_length=1, max_length=512)]
Amounts = Annotated[dict[str, Quantity], Field(max_length=16)]


class Resources(Model):
    """Resources of a container, as Kubernetes has them."""

    requests: Amounts | None = None
    """What is set aside, such as {cpu: 500m, memory: 512Mi}. Default: the limits, and for cpu, memory or
    ephemeral-storage that neither block names the operator's."""

    limits: Amounts | None = None
    """What may be used at most, such as {memory: 1Gi, nvidia.com/gpu: 1}. Default: none, and for memory
    or ephemeral-storage that neither block names the operator's."""

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU or a part of one is among them, such as nvidia.com/gpu or nvidia.com/mig-1g.5gb."""
        names = {*(self.requests or {}), *(self.limits or {})}
        return any("gpu" in name or name.startswith("nvidia.com/") for name in names)


MOST_PER_POD = 32


class Actor(PodTemplate):
    """The actors' pods and time limits. Settings of pods are those of the backend Knative."""

    image: Image | None = None
    """Image of the actor. Default: the one that the operator was installed with."""

    resources: Resources = Field(default_factory=Resources)
    """Resources of one actor. Default: for each resource that is not named, the operator's."""

    per_pod: Annotated[int, Field(ge=1, le=MOST_PER_POD)] = 1
    """Actors that share one pod on Knative, each a process of its own; the pod has so many times the
    resources. With few large pods less is started and stopped. Results do not depend on it. Default: 1."""

    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """Longest time of one rollout, cold start and queueing included; Knative takes no more than its setting
    max-revision-timeout-seconds, 600 unless an administrator raises it. Unit: seconds. Default: 60."""

    round_deadline_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Time after which missing rollouts of a round are asked for once more; at least timeoutSeconds. Unit:
    seconds. Default: the larger of timeoutSeconds (on Lambda 15 more, for the start of a sandbox) and three
    times the median round."""


def actors_per_pod(spec: Mapping[str, Any]) -> int:
    """actor.perPod of a job's spec as it is stored: the API server writes no default of it."""
    return int((spec.get("actor") or {}).get("perPod") or 1)


class Learner(PodTemplate):
    """The learner's pod, checkpoints and restarts."""

    image: Image | None = None
    """Image of the learner. Default: the one that the operator was installed with."""

    resources: Resources = Field(default_factory=Resources)
    """Resources of the learner, such as {limits: {nvidia.com/gpu: 1}}. Default: for each resource that is not
    named, the operator's."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """What the learner computes on. auto: a CUDA GPU if PyTorch sees one, else the CPU. cuda: a GPU, and an
    error at the start where PyTorch sees none; on a cluster request one in resources. cpu: the CPU, whether
    or not there is a GPU. Default: auto."""

    role_arn: Arn | None = None
    """IAM role that the learner takes on, by its service account (IRSA on EKS): to invoke the function of
    backend.type: Lambda, and for checkpoints in S3. Default: none."""

    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    """Checkpoints."""

    backoff_limit: Annotated[int, Field(ge=0, le=1000)] = 3
    """Times that a crashed learner is started again, each time from its last checkpoint, before the job
    fails. Default: 3."""

    @property
    def asks_for_gpu(self) -> bool:
        """Whether it is meant to compute on a GPU: `device` says so, or leaves it to the resources."""
        return self.device == "cuda" or (self.device == "auto" and self.resources.has_gpu)
