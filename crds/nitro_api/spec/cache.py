"""spec.cache: the Redis between learner and actors."""

from __future__ import annotations

from nitro_api.base import Model
from nitro_api.spec.pods import Resources
from nitro_api.spec.quantities import Quantity


class Cache(Model):
    """The Redis in the learner's pod. It holds weights and fragments; jobs with Lambda actors have none."""

    memory: Quantity | None = None
    """Most memory of its data, such as 2Gi. It must hold two rounds of scaling.maxActors fragments. Its
    container may take half as much again. Unit: bytes. Default: 1Gi, or two rounds where these are known to
    need more."""

    resources: Resources | None = None
    """Resources of its container. The gate in front of it gets the same CPU. Default: of memory one and a
    half times its data as request and as limit, a request of 100m and a limit of 1 CPU."""
