"""The jobs of the end-to-end tests: small enough for two cores, large enough to last through some trouble."""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]

ROUNDS = 14
MIN_ACTORS, MAX_ACTORS, INITIAL_ACTORS = 4, 24, 8
TINY_LEARNER: Object = {
    "requests": {"cpu": "10m", "memory": "256Mi"},
    "limits": {"memory": "4Gi"},
}
TINY_ACTOR: Object = {"requests": {"cpu": "5m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}


def hopper(
    *,
    rounds: int = ROUNDS,
    actors: tuple[int, int, int] = (MIN_ACTORS, INITIAL_ACTORS, MAX_ACTORS),
    **changes: Any,
) -> Object:
    """The spec of a Hopper job with the Nitro scaler.

    Args:
        rounds: rounds of the run.
        actors: fewest, first round's and most actors.
        changes: top-level fields of the spec; maps are merged into what is here.
    """
    spec: Object = {
        "seed": 7,
        "environment": {"id": "Hopper-v5", "rolloutLength": 256, "envsPerActor": 1},
        "evaluation": {"episodes": 1, "everyRounds": 8},
        "stop": {"rounds": rounds},
        "scaling": {
            "scaler": "nitro",
            "minActors": actors[0],
            "initialActors": actors[1],
            "maxActors": actors[2],
            "decay": 1,
        },
        "actor": {"resources": TINY_ACTOR, "timeoutSeconds": 60},
        "learner": {
            "resources": TINY_LEARNER,
            "backoffLimit": 6,
            "checkpoint": {"pvc": {"size": "1Gi", "retain": False}},
        },
    }
    return merged(spec, changes)


def spread(*, rounds: int = 12, **changes: Any) -> Object:
    """The spec of a job with the three agents of simple_spread, and MARLess' scaler.

    A slope is never as large as 1, so sharing toggles whenever the window is full.

    Args:
        rounds: rounds of the run.
        changes: top-level fields of the spec; maps are merged into what is here.
    """
    spec = hopper(rounds=rounds, actors=(2, 6, 6)) | {
        "environment": {"id": "mpe2/simple_spread_v3", "rolloutLength": 100, "envsPerActor": 4},
        "algorithm": {"name": "ippo"},
        "sharing": {"mode": "dynamic", "window": 4, "slope": 1.0},
        "scaling": {"scaler": "marless", "minActors": 2, "initialActors": 6, "maxActors": 6},
    }
    return merged(spec, changes)


def merged(base: Object, changes: Object) -> Object:
    """A copy of `base` with `changes` merged into its maps."""
    found = copy.deepcopy(base)
    for key, value in changes.items():
        inner = found.get(key)
        found[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return found
