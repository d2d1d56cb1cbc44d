"""The loop that brings a job's children to the state that the builders describe."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nitro_api.quantities import amount_of
from nitro_operator.kube import names
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import (
    KNATIVE_SERVICE,
    LEARNER_JOB,
    TRAINING_JOB,
    VOLUME_CLAIM,
    JobKey,
    Kind,
    Object,
    kind_of,
)

CREATED_ONCE = frozenset({LEARNER_JOB, KNATIVE_SERVICE, VOLUME_CLAIM})
"""Kinds whose spec cannot change after creation. Knative's spec could, but must not, because a change would
make a new Revision. A claim can grow."""

SLOW_SECONDS = 5.0
"""Time after which a refusal ends an attempt to apply several children: a webhook hangs, or the API server is
overloaded, and the status has to be published."""


@dataclass(frozen=True)
class Refused:
    """A child that the API server did not take."""

    kind: Kind
    name: str
    error: ApiError


class Applier:
    """Create missing children, and server-side apply those that differ from the watch cache.

    Nothing is written if nothing differs. An object that was made neither for this job nor for an earlier one
    of its name is never written: our ownerReference would delete a stranger's object together with the job.
    """

    def __init__(self, kube: Kube, cache: Cache) -> None:
        self._kube = kube
        self._cache = cache
        self._accepted: dict[tuple[JobKey, Kind, str], tuple[str, str]] = {}

    async def apply(self, key: JobKey, desired: Iterable[Object]) -> list[Refused]:
        """Apply in order. A refused child does not stop the others, unless SLOW_SECONDS are over: each of the
        others could take as long.

        Raises:
            ApiError: the namespace is being deleted, so no child can be made.
        """
        refused = []
        begun = time.monotonic()
        for obj in desired:
            try:
                await self._apply(key, obj)
            except ApiError as error:
                if error.namespace_terminating:
                    raise
                refused.append(Refused(kind_of(obj), obj["metadata"]["name"], error))
                if time.monotonic() - begun >= SLOW_SECONDS:
                    break
        return refused

    def forget(self, key: JobKey) -> None:
        for known in [known for known in self._accepted if known[0] == key]:
            del self._accepted[known]

    async def _apply(self, key: JobKey, obj: Object) -> None:
        kind, name = kind_of(obj), obj["metadata"]["name"]
        observed = self._cache.get(kind, key, name)
        if observed is None:
            try:
                self._remember(key, obj, await self._kube.create(obj))
                return
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                observed = await self._existing(kind, key, name)
        if not names.made_for(observed, key.name):
            raise ApiError(409, "AlreadyExists", _stranger(observed))
        if self._outgrown(key, obj, observed):
            patch = {"spec": {"resources": obj["spec"]["resources"]}}
            self._cache.put(kind, await self._kube.merge(kind, key.namespace, name, patch))
            return
        if kind in CREATED_ONCE or not self._differs(key, obj, observed):
            self._cache.put(kind, observed)
            return
        await self._disown(key, obj, observed)
        self._remember(key, obj, await self._kube.apply(obj, force=True))

    async def _existing(self, kind: Kind, key: JobKey, name: str) -> Object:
        """An existing object that the watch has not reported. Anybody may have created it."""
        # It is listed, because the operator has no right to get objects of the kinds that it watches.
        objects = await self._kube.list(kind, key.namespace, fieldSelector=f"metadata.name={name}")
        if not objects:
            raise ApiError(503, "Deleted", f"{kind} {name} was there a moment ago; it is tried again")
        return objects[0]

    async def _disown(self, key: JobKey, obj: Object, observed: Object) -> None:
        """Remove a deleted job of this name from a child's owners. An apply alone leaves that owner there,
        because the field manager that created the child owns the list too."""
        mine = obj["metadata"].get("ownerReferences") or []
        owners = observed["metadata"].get("ownerReferences") or []
        others = [ref for ref in owners if ref.get("kind") != TRAINING_JOB.kind]
        if mine and owners and not names.owned_by(observed, mine[0]["uid"]):
            patch = {"metadata": {"ownerReferences": [*mine, *others]}}
            await self._kube.merge(kind_of(obj), key.namespace, obj["metadata"]["name"], patch)

    def _remember(self, key: JobKey, obj: Object, answer: Object) -> None:
        kind = kind_of(obj)
        self._cache.put(kind, answer)
        if kind not in CREATED_ONCE:
            self._accepted[key, kind, obj["metadata"]["name"]] = _text(obj), _text(projection(obj, answer))

    def _outgrown(self, key: JobKey, obj: Object, observed: Object) -> bool:
        """Whether a claim of an earlier job of this name is too small for the job that starts."""
        if kind_of(obj) != VOLUME_CLAIM or self._cache.get(LEARNER_JOB, key, names.learner(key.name)):
            return False
        present, wanted = (claim["spec"]["resources"]["requests"]["storage"] for claim in (observed, obj))
        return amount_of(present) < amount_of(wanted)

    def _differs(self, key: JobKey, obj: Object, observed: Object) -> bool:
        if not drifted(obj, observed):
            return False
        # The server may store a value in its own form. So the earlier result of the same request is no drift.
        asked, made = self._accepted.get((key, kind_of(obj), obj["metadata"]["name"]), ("", ""))
        return not (asked == _text(obj) and made == _text(projection(obj, observed)))


def _stranger(obj: Object) -> str:
    """The owner, in words, of an object that was not made for the job."""
    owners = obj["metadata"].get("ownerReferences") or []
    if owners:
        return "it belongs to " + ", ".join(f"{owner.get('kind')} {owner.get('name')}" for owner in owners)
    return f"it has no owner and no label {names.MANAGED_BY_LABEL}={names.FIELD_MANAGER}"


def _text(obj: Object) -> str:
    return json.dumps(obj, sort_keys=True)


def drifted(desired: Any, observed: Any) -> bool:
    """Whether any field of `desired` is missing or different in `observed`.

    Quantities compare by value. Fields that `desired` does not set do not count.
    """
    if observed is None and desired in ({}, [], ""):
        return False  # the API drops what is empty
    if isinstance(desired, dict):
        return not isinstance(observed, dict) or any(drifted(v, observed.get(k)) for k, v in desired.items())
    if isinstance(desired, list):
        if not isinstance(observed, list) or len(desired) != len(observed):
            return True
        return any(drifted(mine, theirs) for mine, theirs in zip(desired, observed, strict=True))
    return bool(desired != observed) and not _same_quantity(desired, observed)


def projection(desired: Any, observed: Any) -> Any:
    """The part of `observed` that `desired` names: what the server has stored for it."""
    if isinstance(desired, dict) and isinstance(observed, dict):
        return {key: projection(value, observed.get(key)) for key, value in desired.items()}
    if isinstance(desired, list) and isinstance(observed, list) and len(desired) == len(observed):
        return [projection(mine, theirs) for mine, theirs in zip(desired, observed, strict=True)]
    return observed


def _same_quantity(desired: Any, observed: Any) -> bool:
    try:
        return amount_of(desired) == amount_of(observed)
    except (TypeError, ValueError):
        return False
