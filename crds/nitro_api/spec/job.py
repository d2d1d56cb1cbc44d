"""The NitroTrainingJob itself, and the `ResolvedJob` that `resolve()` makes of it.

A model named `Given...` has what a job's author writes, None where it is left out. The model without that
word inherits from it; it is the resolved one, in which nothing that training needs is None.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from nitro_api.base import Model
from nitro_api.spec.algorithm import Algorithm
from nitro_api.spec.backend import Backend, GivenBackend
from nitro_api.spec.cache import Cache
from nitro_api.spec.code import CodeDigest
from nitro_api.spec.environment import Environment, GivenEnvironment
from nitro_api.spec.network import GivenNetwork, Network
from nitro_api.spec.pods import Actor, Learner
from nitro_api.spec.pricing import GivenPricing, Pricing
from nitro_api.spec.resume_from import ResumeFrom
from nitro_api.spec.scaling import GivenScaling, Scaling
from nitro_api.spec.sharing import Sharing
from nitro_api.spec.status import JobStatus
from nitro_api.spec.stop import Evaluation, GivenEvaluation, GivenStop, Stop
from nitro_api.spec.tracking import Tracking

GROUP = "nitro.dev"
VERSION = "v1alpha1"
KIND = "NitroTrainingJob"
PLURAL = "nitrotrainingjobs"
PROTOCOL_VERSION = 2
"""Version of the requests between learner and actor; the actor image carries the same number."""


class Metadata(Model):
    """Name and labels. What else Kubernetes keeps here is passed through."""

    name: Annotated[str, Field(min_length=1)]
    """Name of the job: at most 40 characters, because names of its objects are made from it."""

    namespace: str | None = None
    """Namespace of the job. Default: kubectl's."""

    labels: dict[str, str] | None = None
    """Labels. Default: none."""

    annotations: dict[str, str] | None = None
    """Annotations. Default: none."""

    uid: str | None = None
    """Set by Kubernetes: identity of this very job."""

    resource_version: str | None = None
    """Set by Kubernetes: version of the stored object."""

    generation: int | None = None
    """Set by Kubernetes: counts changes of spec."""

    creation_timestamp: str | None = None
    """Set by Kubernetes. RFC 3339."""

    deletion_timestamp: str | None = None
    """Set by Kubernetes once deletion was asked for. RFC 3339."""

    deletion_grace_period_seconds: int | None = None
    """Set by Kubernetes. Unit: seconds."""

    generate_name: str | None = None
    """Prefix from which `kubectl create` made the name."""

    self_link: str | None = None
    """Set by old versions of Kubernetes."""

    finalizers: list[str] | None = None
    """What must be done before the object goes."""

    owner_references: list[dict[str, Any]] | None = None
    """Objects that this one goes with."""

    managed_fields: list[dict[str, Any]] | None = None
    """Set by Kubernetes: who owns which field."""


class GivenSpec(Model):
    """What to train, how, where and for how long."""

    environment: GivenEnvironment
    """What the actors play."""

    algorithm: Algorithm = Field(default_factory=Algorithm)
    """How the policy learns."""

    code: CodeDigest | None = None
    """On a cluster: SHA-256 of your Python files as `nitro code` packs them into a ConfigMap. Learner and
    actors import them. Default: none."""

    sharing: Sharing | None = None
    """When agents share policies. Only with algorithms of several agents; with others it stays out. Default:
    its defaults."""

    network: GivenNetwork = Field(default_factory=GivenNetwork)
    """Policy and critic."""

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    """Seed of the run: weights, minibatches, detector, and every actor's environments derive theirs from it.
    Default: 0."""

    evaluation: GivenEvaluation = Field(default_factory=GivenEvaluation)
    """How the policy is judged."""

    stop: GivenStop = Field(default_factory=GivenStop)
    """When training ends."""

    scaling: GivenScaling = Field(default_factory=GivenScaling)
    """How many actors sample in a round."""

    backend: GivenBackend = Field(default_factory=GivenBackend)
    """Where the actors run."""

    cache: Cache | None = None
    """The Redis between learner and actors. Default: its defaults."""

    actor: Actor = Field(default_factory=Actor)
    """The actors' pods and time limits."""

    learner: Learner = Field(default_factory=Learner)
    """The learner's pod, checkpoints and restarts."""

    pricing: GivenPricing = Field(default_factory=GivenPricing)
    """What time costs."""

    tracking: Tracking | None = None
    """Experiment trackers that record the run, too. Default: none."""

    resume_from: ResumeFrom | None = None
    """On a cluster: start from another run. Its policies are weights, target networks, the state of
    optimisers, the statistics of normalisation, and which agents share policies; all else begins anew, unless
    `take` is Run. Algorithm, network and spaces must be the same. Default: none."""

    suspend: bool = False
    """True stops the learner at its next checkpoint and releases all actors; false goes on from there.
    Default: false."""

    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """Delete the job so long after it finished. Unit: seconds. Default: never."""

    active_deadline_seconds: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Fail the job if it is not finished so long after its start, suspensions included. Unit: seconds.
    Default: no limit."""


class JobSpec(GivenSpec):
    """The spec of a resolved job: no value that training needs is left out."""

    environment: Environment
    network: Network
    evaluation: Evaluation
    stop: Stop
    scaling: Scaling
    backend: Backend
    pricing: Pricing

    @property
    def shared(self) -> Sharing:
        """When agents share policies; one agent shares nothing, as by the defaults."""
        return self.sharing or Sharing()


class NitroTrainingJob(Model):
    """A reinforcement-learning run whose actors are scaled round by round."""

    api_version: Literal["nitro.dev/v1alpha1"]
    """nitro.dev/v1alpha1."""

    kind: Literal["NitroTrainingJob"]
    """NitroTrainingJob."""

    metadata: Metadata
    """Name, namespace and labels."""

    spec: GivenSpec
    """What to train, how, where and for how long."""

    status: JobStatus | None = None
    """State of the job, as the operator and the learner report it."""


class ResolvedJob(NitroTrainingJob):
    """What `resolve()` makes of a job: the job with a value in every field that training needs."""

    spec: JobSpec
