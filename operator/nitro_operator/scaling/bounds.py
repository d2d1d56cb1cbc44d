"""The range of a job's later requests, as far as its scaler fixes it in advance."""

from __future__ import annotations

import math

from nitro_api import JobSpec
from nitro_api.resolution.resolve import fades


def bounds(spec: JobSpec, round: int, requested: int) -> tuple[int, int]:
    """Fewest and most actors that any later round can request.

    Args:
        spec: resolved.
        round: last finished round; the present request is for the one after it.
        requested: the present request.
    """
    scaling = spec.scaling
    fewest, most = scaling.min_actors, scaling.max_actors
    if scaling.record.plan == "constant":
        return requested, requested
    if scaling.record.plan == "schedule" and scaling.schedule:
        later = scaling.schedule[round + 1 :] or scaling.schedule[-1:]
        return min(later), max(later)
    if scaling.record.monotone:
        return max(fewest, requested), most
    if fades(spec):
        # The round after the present one is scored with d^(round + 1), and the score is 1 at most.
        return fewest, max(fewest, math.floor(most * scaling.decay ** (round + 1)))
    return fewest, most
