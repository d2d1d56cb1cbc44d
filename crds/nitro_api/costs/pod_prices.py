"""Price lists of actor pods, by provider: what a second of a requested vCPU and of a GB costs.

docs/pricing.md has them as a table, and says what each of them is and is not.
"""

from dataclasses import dataclass

from nitro_api.quantities import amount_of
from nitro_api.spec.pods import Actor

GB = 2.0**30
"""Bytes that AWS and Google bill as one GB."""
LAMBDA_CORE_GB = 1769 / 1024
"""Memory with which Lambda gives a function one vCPU."""
USUAL_VCPU, USUAL_GB = 0.25, 0.5
"""What the operator requests for an actor that names no CPU or no memory."""
SIDECAR_VCPU = 0.025
"""What Knative requests for its container in each pod, unless an administrator has changed it."""


@dataclass(frozen=True)
class PodPriceList:
    """Prices of a provider who counts what pods request.

    Attributes:
        vcpu_hour: unit: US dollars.
        gb_hour: unit: US dollars.
        read: the date of the source.
        least_vcpu: smaller requests are raised to it; 0 = they are not.
        least_gb: likewise.
        extra_gb: memory that the provider adds to each pod for itself.
        gb_per_vcpu: fewest and most GB for a vCPU; the other request is raised. None = any.
        resized: whether a pod that was resized in place is billed by its new requests.
    """

    vcpu_hour: float
    gb_hour: float
    place: str
    read: str
    source: str
    least_vcpu: float = 0.0
    least_gb: float = 0.0
    extra_gb: float = 0.0
    gb_per_vcpu: tuple[float, float] | None = None
    resized: str = "not known"

    @property
    def vcpu_second(self) -> float:
        """Unit: US dollars."""
        return self.vcpu_hour / 3600

    @property
    def gb_second(self) -> float:
        """Unit: US dollars."""
        return self.gb_hour / 3600

    def counted(self, vcpu: float, gb: float) -> tuple[float, float]:
        """The vCPU and GB that the provider counts at least for a pod that requests these."""
        vcpu, gb = max(vcpu, self.least_vcpu), max(gb + self.extra_gb, self.least_gb)
        if self.gb_per_vcpu is not None:
            fewest, most = self.gb_per_vcpu
            vcpu, gb = max(vcpu, gb / most), max(gb, vcpu * fewest)
        return vcpu, gb


FARGATE = PodPriceList(
    vcpu_hour=0.04048,
    gb_hour=0.004445,
    place="us-east-2, Linux on x86",
    read="2026-09-10",
    source="AWS Price List, usage types `USE2-Fargate-vCPU-Hours:perCPU` and `USE2-Fargate-GB-Hours`",
    least_vcpu=0.25,
    least_gb=0.5,
    extra_gb=0.25,
    gb_per_vcpu=(2.0, 8.0),
)
AUTOPILOT = PodPriceList(
    vcpu_hour=0.0445,
    gb_hour=0.0049225,
    place="us-central1, general-purpose",
    read="2026-06",
    source="[GKE pricing](https://cloud.google.com/kubernetes-engine/pricing), as public notes quote it",
    least_vcpu=0.05,
    gb_per_vcpu=(1.0, 6.5),
)
_NODE_HOUR, _NODE_VCPU, _NODE_GB = 0.68, 16, 32
"""A c5.4xlarge, as pricing.vmDollarsPerHour."""
_RATIO = FARGATE.vcpu_hour / FARGATE.gb_hour
"""How many GB cost as much as a vCPU."""
NODE = PodPriceList(
    vcpu_hour=_NODE_HOUR * _RATIO / (_NODE_VCPU * _RATIO + _NODE_GB),
    gb_hour=_NODE_HOUR / (_NODE_VCPU * _RATIO + _NODE_GB),
    place="us-east-2, a c5.4xlarge",
    read="the Nitro paper's",
    source="$0.68 an hour for 16 vCPU and 32 GB, divided in Fargate's ratio of the two prices",
    resized="no bill: a node costs the same whatever its pods request",
)
POD_PRICES = {"autopilot": AUTOPILOT, "fargate": FARGATE, "node": NODE}
"""By spec.pricing.pods. `lambda-like` has no list: podGBSecond is then the price of an awake pod."""

CPU_SHARE = round(FARGATE.vcpu_hour / (FARGATE.vcpu_hour + FARGATE.gb_hour * LAMBDA_CORE_GB), 2)
"""The part of a `lambda-like` price that is CPU: its share at Fargate's prices, in a sandbox that has one
vCPU. 0.84."""


def pod_vcpu(actor: Actor) -> float:
    """CPU that an awake pod of a job requests, by its spec. Unit: vCPU."""
    return actor.per_pod * _first(actor, "cpu", USUAL_VCPU) + SIDECAR_VCPU


def requested_gb(actor: Actor) -> float:
    """Memory that an actor requests, by its spec. Unit: GB."""
    given = _first(actor, "memory", 0.0) / GB
    return given or USUAL_GB


def _first(actor: Actor, name: str, usual: float) -> float:
    """What is requested of a resource: the request, else the limit, as Kubernetes takes it."""
    for amounts in (actor.resources.requests, actor.resources.limits):
        if amounts and name in amounts:
            return amount_of(amounts[name])
    return usual
