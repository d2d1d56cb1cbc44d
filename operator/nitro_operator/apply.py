"""The one loop that brings a job's children to what the builders say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from nitro_api.quantities import amount_of
from nitro_operator import names
from nitro_operator.cache import Cache
from nitro_operator.client import ApiError, Kube
from nitro_operator.drift import drifted, projection
from nitro_operator.kinds import KNATIVE_SERVICE, LEARNER_JOB, VOLUME_CLAIM, JobKey, Kind, Object, kind_of

CREATED_ONCE = frozenset({LEARNER_JOB, KNATIVE_SERVICE, VOLUME_CLAIM})
"""Kinds whose spec cannot change once they are there (or, Knative's, must not: it would make a new
Revision). A claim can grow."""


@dataclass(frozen=True)
class Refused:
    """A child that the API server did not take."""

    kind: Kind
    name: str
    error: ApiError


class Applier:
    """Server-side apply of what differs from the watch cache; nothing is written where nothing differs."""

    def __init__(self, kube: Kube, cache: Cache) -> None:
        self._kube = kube
        self._cache = cache
        self._accepted: dict[tuple[JobKey, Kind, str], tuple[str, str]] = {}

    async def apply(self, key: JobKey, desired: Iterable[Object]) -> list[Refused]:
        """Apply in order; a child that is refused does not keep the others back.

        Raises:
            ApiError: the namespace is being deleted, so no child can be made.
        """
        refused = []
        for obj in desired:
            try:
                await self._apply(key, obj)
            except ApiError as error:
                if error.namespace_terminating:
                    raise
                refused.append(Refused(kind_of(obj), obj["metadata"]["name"], error))
        return refused

    def forget(self, key: JobKey) -> None:
        for known in [known for known in self._accepted if known[0] == key]:
            del self._accepted[known]

    async def _apply(self, key: JobKey, obj: Object) -> None:
        kind, name = kind_of(obj), obj["metadata"]["name"]
        observed = self._cache.get(kind, key, name)
        if observed is not None and self._outgrown(key, obj, observed):
            patch = {"spec": {"resources": obj["spec"]["resources"]}}
            self._cache.put(kind, await self._kube.merge(kind, key.namespace, name, patch))
            return
        if observed is not None and (kind in CREATED_ONCE or not self._differs(key, obj, observed)):
            return
        # Without force an object of somebody else with this name is a conflict, not a victim.
        answer = await self._kube.apply(obj, force=observed is not None)
        self._cache.put(kind, answer)
        self._accepted[key, kind, name] = _text(obj), _text(projection(obj, answer))

    def _outgrown(self, key: JobKey, obj: Object, observed: Object) -> bool:
        """Whether a claim that an earlier job of this name left is too small for the one that starts."""
        if kind_of(obj) != VOLUME_CLAIM or self._cache.get(LEARNER_JOB, key, names.learner(key.name)):
            return False
        found, wanted = (one["spec"]["resources"]["requests"]["storage"] for one in (observed, obj))
        return amount_of(found) < amount_of(wanted)

    def _differs(self, key: JobKey, obj: Object, observed: Object) -> bool:
        if not drifted(obj, observed):
            return False
        # The server may write a value in its own way. What it made of this very wish before is no drift.
        wish, made = self._accepted.get((key, kind_of(obj), obj["metadata"]["name"]), ("", ""))
        return not (wish == _text(obj) and made == _text(projection(obj, observed)))


def _text(obj: Object) -> str:
    return json.dumps(obj, sort_keys=True)
