"""spec.pricing: what time costs. Defaults: AWS us-east-2, as in the Nitro paper (section 8.1, footnotes)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Model

Price = Annotated[float, Field(ge=0, le=1e6)]
Machines = Annotated[int, Field(ge=1, le=4096)]
Gigabytes = Annotated[float, Field(gt=0, le=1e4)]


class GivenPricing(Model):
    """Prices in US dollars. 1 GB is 2^30 bytes, as Lambda bills it."""

    model: Literal["serverless", "vm"] = "serverless"
    """What the actors are paid as: `serverless` their invocations or pods, `vm` machines that host them all
    and are paid from the first round to the last. It changes the cost, not where actors run. Default:
    serverless."""

    learner_dollars_per_hour: Price = 3.06
    """The learner's machine. Unit: dollars per hour. Default: 3.06 (p3.2xlarge)."""

    vm_dollars_per_hour: Price = 0.68
    """A machine that hosts actors, with model `vm`. Unit: dollars per hour. Default: 0.68 (c5.4xlarge)."""

    vm_count: Machines | None = None
    """Machines that host the actors, with model `vm`. Unit: machines. Default: one for each 16 actors of the
    largest round there can be (a c5.4xlarge has 16 cores)."""

    lambda_gb_second: Price = Field(default=1.66667e-5, alias="lambdaGBSecond")
    """An invocation, on demand. Unit: dollars per GB-second. Default: 1.66667e-5."""

    lambda_provisioned_gb_second: Price = Field(default=9.7222e-6, alias="lambdaProvisionedGBSecond")
    """An invocation under provisioned concurrency. Unit: dollars per GB-second. Default: 9.7222e-6."""

    provisioned_gb_second: Price = Field(default=4.1667e-6, alias="provisionedGBSecond")
    """Provisioned concurrency itself, busy or idle. Unit: dollars per GB-second. Default: 4.1667e-6."""

    lambda_request: Price = 2e-7
    """One request. Unit: dollars. Default: 2e-7."""

    pods: Literal["lambda-like", "autopilot", "fargate", "node"] | None = None
    """Price list of actor pods on Knative, which fills in podVCPUSecond and podGBSecond (docs/pricing.md).
    `lambda-like` is the price of Lambda's memory, which contains its CPU; `node` is an allocation, no bill.
    Default: lambda-like."""

    pod_gb_second: Price | None = Field(default=None, alias="podGBSecond")
    """Memory that actor pods request, from their start to their end. Unit: dollars per GB-second. Default:
    that of `pods`. With lambda-like lambdaGBSecond: the price of an awake pod, of which 84 % is its CPU,
    unless podVCPUSecond is given."""

    pod_vcpu_second: Price | None = Field(default=None, alias="podVCPUSecond")
    """CPU that actor pods request, from their start to their end. Unit: dollars per vCPU-second. Default:
    that of `pods`; none with lambda-like."""

    actor_memory_gb: Gigabytes | None = Field(default=None, alias="actorMemoryGB")
    """Memory that an actor is billed for. Unit: GB. Default: the memory in spec.actor.resources (limits, else
    requests), else 1. With another list in `pods` than lambda-like requests, else limits, else 0.5."""


class Pricing(GivenPricing):
    """The prices of a resolved job."""

    vm_count: Machines
    pod_gb_second: Price = Field(alias="podGBSecond")
    actor_memory_gb: Gigabytes = Field(alias="actorMemoryGB")
