"""What of a learner's state a new run takes from another run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ANEW = frozenset(
    {
        "env_steps",
        "kl_coefficient",
        "owed",
        "param_groups",  # RLlib's optimisers have the learning rate there
        "passes",
        "replay",
        "running",  # returns of episodes that have not ended
        "steps",
        "target_updated",
        "trained",
        "updates",
    }
)
"""Names of the parts of a learner's state that begin anew: counters, schedules, what adapts to the job's
settings, and replayed data. The other parts are what was learned."""


def adopted(saved: Any, own: Any) -> Any:
    """A learner's saved state, with the learner's own parts where they begin anew.

    Args:
        saved: another learner's `state_dict()`; attachments may be missing.
        own: the `state_dict()` of an equal learner as its run begins.
    """
    if not (isinstance(saved, Mapping) and isinstance(own, Mapping)):
        return saved
    return {
        name: own[name] if name in ANEW and name in own else adopted(value, own.get(name))
        for name, value in saved.items()
    }
