"""The patches that put pods to sleep and wake them: bounded for all jobs together."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import STRATEGIC_PATCH, Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import POD, Object
from nitro_operator.observation.diagnosis import Problem

AT_A_TIME = 8
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation by which a ReplicaSet chooses the pods that go first: those with the lowest number."""
LOWEST_COST = "-1000"


@dataclass(frozen=True)
class Refusal:
    """A patch that was refused.

    Attributes:
        error: what the API server said.
        lasting: why no pod of the job can sleep; None if only this pod cannot be changed now.
    """

    error: ApiError
    lasting: Problem | None = None


class Resizer:
    """Change the CPU requests of pods, at most so many in a second."""

    def __init__(self, kube: Kube, cache: Cache, per_second: float) -> None:
        self._kube = kube
        self._cache = cache
        self._each = 1.0 / per_second
        self._next = 0.0
        self._places = asyncio.Semaphore(AT_A_TIME)

    def seconds(self, pods: int) -> float:
        """Time that so many patches need."""
        return pods * self._each

    async def resize(
        self, pod: Object, requests: Mapping[str, str | int], *, hurry: bool = False
    ) -> Refusal | None:
        """Set the CPU requests of a pod's containers. Their limits stay, and so do its other containers.

        Args:
            pod: as it was observed; a newer one of the same name is not changed.
            hurry: whether the bound does not hold, because the operator ends.
        """
        meta = pod["metadata"]
        containers = [
            {"name": name, "resources": {"requests": {"cpu": str(cpu)}}} for name, cpu in requests.items()
        ]
        patch = {"metadata": {"uid": meta["uid"]}, "spec": {"containers": containers}}
        return await self._patch(meta, patch, "resize", hurry=hurry)

    async def let_go_first(self, going: Sequence[Object], pods: Sequence[Object]) -> None:
        """Have some of the pods deleted before the others of their ReplicaSet. Others that were to go before,
        and are still there, go no earlier than the rest: they may work by now."""
        chosen = {pod["metadata"]["uid"] for pod in going}
        changes = []
        for pod in pods:
            goes = pod["metadata"]["uid"] in chosen
            if goes != (DELETION_COST in (pod["metadata"].get("annotations") or {})):
                changes.append(self._annotate(pod["metadata"], LOWEST_COST if goes else None))
        await asyncio.gather(*changes)

    async def _annotate(self, meta: Object, cost: str | None) -> None:
        patch = {"metadata": {"uid": meta["uid"], "annotations": {DELETION_COST: cost}}}
        await self._patch(meta, patch, None)

    async def _patch(
        self, meta: Object, patch: Object, subresource: str | None, *, hurry: bool = False
    ) -> Refusal | None:
        async with self._places:
            if not hurry:
                await self._turn()
            try:
                answer = await self._kube.merge(
                    POD, meta["namespace"], meta["name"], patch, subresource, STRATEGIC_PATCH
                )
            except ApiError as error:
                return None if _gone(error) else Refusal(error, _lasting(error))
        self._cache.put(POD, answer)
        return None

    async def _turn(self) -> None:
        now = asyncio.get_running_loop().time()
        wait = self._next - now
        self._next = max(self._next, now) + self._each
        if wait > 0:
            await asyncio.sleep(wait)


def _gone(error: ApiError) -> bool:
    """Whether the pod is not there any more, or another one has its name."""
    return (error.status == 404 and 'pods "' in error.message) or (
        error.status == 409 and "uid" in error.message.lower()
    )


def _lasting(error: ApiError) -> Problem | None:
    """Why no pod of the job can be resized, if it is so."""
    if error.status in (404, 405):
        return Problem(
            "ResizeMissing",
            "the cluster cannot change the CPU of running pods: pods/resize is not served. It needs "
            "Kubernetes 1.33 or newer, with the feature gate InPlacePodVerticalScaling on.",
        )
    if error.status == 403 and not error.over_quota and 'resource "pods/resize"' in error.message:
        return Problem(
            "ResizeForbidden",
            f"the operator may not change the CPU of running pods: {error.message}. Grant it patch on "
            "pods/resize, as the chart does.",
        )
    if error.status in (400, 403, 422) and not error.over_quota:
        return Problem("ResizeRefused", f"the API server refuses that a pod sleeps: {error.message}.")
    return None
