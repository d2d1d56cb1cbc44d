"""The end of a job's cost: its learner has charged what it saw of its pods, and they existed for longer."""

from nitro_api.costs.pod_use import PodUse
from nitro_api.spec.learner_status import CostStatus
from nitro_operator.builders import JobView
from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.observation.metering import PodMeter

MOST_DOLLARS = 1e12
"""More is not taken by the status, and what it has is the learner's."""
LEAST_SECONDS = 0.1
"""Fewer pod-seconds are not charged: the status has tenths."""


def settled(job: Object, view: JobView, meter: PodMeter) -> Object | None:
    """The fields of status.cost with all that a job's pods have used, once they are gone; None where it has
    them, or where its learner does not bill by pods. What was charged is never taken back.

    A job that is suspended and resumed may be settled several times: a learner that goes on bills from its
    own ledger, which lacks the same part.
    """
    pricing = view.spec.pricing
    cost = CostStatus.model_validate(reported.section(job, "cost"))
    if view.spec.backend.type != "Knative" or pricing.model == "vm" or cost.pod_seconds is None:
        return None
    seconds = max(0.0, meter.total - cost.pod_seconds)
    if seconds < LEAST_SECONDS and cost.estimated is None:
        return None
    cpu = max(0.0, sum(meter.vcpu_seconds.values()) - (cost.vcpu_seconds or 0.0))
    measured = {} if cost.vcpu_seconds is None else {"draining": cpu}
    rest = PodUse(seconds, measured, meter.pod_vcpu or 0.0, view.spec.actor.per_pod)
    dollars = rest.dollars(pricing, slept=meter.vcpu_seconds["asleep"] > 0)
    return {
        "actors": min(round((cost.actors or 0.0) + dollars, 6), MOST_DOLLARS),
        "total": min(round((cost.total or 0.0) + dollars, 6), MOST_DOLLARS),
        "estimated": None,
        "podSeconds": round(cost.pod_seconds + seconds, 1),
        "vcpuSeconds": round((cost.vcpu_seconds or 0.0) + cpu, 2),
    }
