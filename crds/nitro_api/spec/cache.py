"""spec.cache: the Redis between learner and actors."""

from __future__ import annotations

from nitro_api.base import Model
from nitro_api.quantities import Quantity
from nitro_api.spec.pods import Amounts


class CacheResources(Model):
    """Of CPU the gate in front of it gets as much."""

    requests: Amounts | None = None
    """Default: 100m of CPU, and the limit of memory."""

    limits: Amounts | None = None
    """Default: 1 CPU, and one and a half times its data."""


class Cache(Model):
    """The Redis in the learner's pod. It holds weights and fragments; jobs with Lambda actors have none."""

    memory: Quantity | None = None
    """Most memory of its data, such as 2Gi. It must hold two rounds of scaling.maxActors fragments. Its
    container may take half as much again. Unit: bytes. Default: 1Gi, or two rounds where these are known to
    need more."""

    resources: CacheResources | None = None
    """Resources of its container."""
