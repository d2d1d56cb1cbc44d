"""The newest version of every job and child that the watches reported, indexed by job."""

from collections import defaultdict
from collections.abc import Container, Iterable

from nitro_operator.kube.kinds import TRAINING_JOB, JobKey, Kind, Object
from nitro_operator.kube.names import JOB_LABEL
from nitro_operator.kube.slim import slim

REMEMBERED_REMOVALS = 10_000
"""Many more than the objects that are removed during one request."""


class Cache:
    """Jobs and children by kind and name. Single-threaded: used from the event loop only.

    Watches, answers to our writes and lists use different connections, so an older state may arrive later.
    An old state never brings back a removed object, and a list never removes an object that is newer than
    the list.

    Usage::

        cache.put(kinds.POD, event["object"])
        cache.expect_list(kinds.POD)
        cache.replace(kinds.POD, await kube.list(...))
    """

    def __init__(self) -> None:
        self._objects: dict[JobKey, dict[Kind, dict[str, Object]]] = defaultdict(lambda: defaultdict(dict))
        self._removed: dict[str, Object] = {}  # uid -> the metadata's version of its end
        self._put_since: dict[Kind, set[tuple[JobKey, str]]] = {}  # while a list is expected

    def put(self, kind: Kind, obj: Object) -> JobKey | None:
        """Store an object unless a newer state of it is cached. Returns its job; None if it belongs to none.

        The job must be reconciled in either case. The answer to our own write is stored before its event
        arrives. It may contain an earlier change by somebody else, on which nobody has acted yet.
        """
        key = job_of(kind, obj)
        if key is not None:
            self._store(key, kind, obj)
            if kind in self._put_since:
                self._put_since[kind].add((key, obj["metadata"]["name"]))
        return key

    def _store(self, key: JobKey, kind: Kind, obj: Object) -> bool:
        name = obj["metadata"]["name"]
        known = (self.get(kind, key, name), self._removed.get(obj["metadata"].get("uid", "")))
        if not all(_newer(obj, state) for state in known if state is not None):
            return False
        self._objects[key][kind][name] = slim(kind, obj)
        return True

    def remove(self, kind: Kind, obj: Object) -> JobKey | None:
        """Forget an object. A newer object of the same name stays."""
        key = job_of(kind, obj)
        if key is None:
            return None
        name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
        stored = self.get(kind, key, name)
        if stored is not None and stored["metadata"]["uid"] == uid:
            del self._objects[key][kind][name]
        version = obj["metadata"].get("resourceVersion", "")
        self._removed[uid] = {"metadata": {"uid": uid, "resourceVersion": version}}
        if len(self._removed) > REMEMBERED_REMOVALS:
            del self._removed[next(iter(self._removed))]
        return key

    def expect_list(self, kind: Kind) -> None:
        """Note that a list of a kind is requested: objects that are put from now on may be newer than it."""
        self._put_since[kind] = set()

    def replace(self, kind: Kind, objects: Iterable[Object], unseen: Container[str] = ()) -> set[JobKey]:
        """Replace all objects of a kind by a full list. Returns the jobs for which something changed.

        Args:
            unseen: namespaces that could not be listed; their objects stay.
        """
        changed: set[JobKey] = set()
        listed = self._put_since.pop(kind, set())
        for obj in objects:
            key = job_of(kind, obj)
            if key is not None:
                listed.add((key, obj["metadata"]["name"]))
                if self._store(key, kind, obj):
                    changed.add(key)
        for key, kinds in list(self._objects.items()):
            if key.namespace in unseen:
                continue
            for name in [name for name in kinds.get(kind, {}) if (key, name) not in listed]:
                del kinds[kind][name]
                changed.add(key)
        return changed

    def job(self, key: JobKey) -> Object | None:
        return self.get(TRAINING_JOB, key, key.name)

    def jobs(self) -> list[tuple[JobKey, Object]]:
        """All jobs, in no order."""
        return [
            (key, kinds[TRAINING_JOB][key.name])
            for key, kinds in self._objects.items()
            if kinds.get(TRAINING_JOB)
        ]

    def get(self, kind: Kind, key: JobKey, name: str) -> Object | None:
        return self._objects[key][kind].get(name) if key in self._objects else None

    def children(self, kind: Kind, key: JobKey) -> list[Object]:
        return list(self._objects[key][kind].values()) if key in self._objects else []

    def forget(self, key: JobKey) -> None:
        """Drop the index of a deleted job, unless it still has children."""
        if not any(self._objects[key].values()):
            del self._objects[key]


def job_of(kind: Kind, obj: Object) -> JobKey | None:
    """The key of the job: the object itself, or the one that its label names."""
    meta = obj["metadata"]
    if kind is TRAINING_JOB:
        return JobKey(meta["namespace"], meta["name"])
    name = (meta.get("labels") or {}).get(JOB_LABEL)
    return JobKey(meta["namespace"], name) if name else None


def _newer(obj: Object, stored: Object) -> bool:
    """Whether `obj` is a later state than `stored`: answers to our writes overtake the watch events."""
    if obj["metadata"].get("uid") != stored["metadata"].get("uid"):
        return bool(
            obj["metadata"].get("creationTimestamp", "") >= stored["metadata"].get("creationTimestamp", "")
        )
    new, old = obj["metadata"].get("resourceVersion", ""), stored["metadata"].get("resourceVersion", "")
    if new.isdigit() and old.isdigit():
        return int(new) > int(old)
    return bool(new != old)
