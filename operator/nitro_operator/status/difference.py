"""How a new status differs from the published one: a change that matters is written at once."""

import re
from dataclasses import dataclass

from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported

OWNED = (
    "phase",
    "conditions",
    "observedGeneration",
    "startTime",
    "completionTime",
    "scaler",
    "actors",
    "checkpoint",
)
_PROMISE = re.compile(r"at about \d\d:\d\d:\d\d UTC")
COUNTS = ("ready", "starting", "draining", "awake", "asleep", "deferred")
METERED = (
    *("podSeconds", "vcpuSeconds", "podVCPU", "idlePercent"),
    *("started", "startSeconds", "drainSeconds", "wakeSeconds"),
)


@dataclass(frozen=True)
class Difference:
    """How a new status differs from the published one."""

    matters: bool
    """Whether something changed that readers wait for."""
    counts: bool
    """Whether a number of pods changed."""
    meter: bool
    """Whether the pod-seconds, or what was measured of pods, changed."""
    words: bool
    """Whether a message of a condition changed, and neither its value nor its reason."""


def difference(new: Object, job: Object) -> Difference:
    """How the owned part of the status, `new`, differs from that of `job`."""
    published = reported.status(job)
    old = {key: published[key] for key in OWNED if key in published}
    checkpoint = reported.section(job, "checkpoint")
    if "checkpoint" in old:  # its round and time are the learner's
        old["checkpoint"] = {key: checkpoint[key] for key in ("location",) if key in checkpoint}
    old["actors"] = reported.section(job, "actors")
    counts = any(new["actors"].get(name) != old["actors"].get(name) for name in COUNTS)
    metered = any(new["actors"].get(name) != old["actors"].get(name) for name in METERED)
    matters = _steady(new) != _steady(old)
    words = not matters and new["conditions"] != old.get("conditions")
    return Difference(matters=matters, counts=counts, meter=metered, words=words)


def _steady(status: Object) -> Object:
    actors = {k: v for k, v in status["actors"].items() if k not in (*COUNTS, *METERED)}
    # A time that is promised is over soon: a message of it is not written later, as other words are.
    conditions = [
        condition | {"message": _PROMISE.findall(str(condition.get("message") or ""))}
        for condition in status.get("conditions") or []
    ]
    return status | {"actors": actors, "conditions": conditions}
