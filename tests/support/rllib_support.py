"""What RLlib's tests share: resolved jobs for its algorithms, and those algorithms on Hopper's spaces."""

import json
from typing import Any

from learner_support import HOPPER, job, learner_of
from nitro_api import NitroTrainingJob

SMALL = {"network__hiddenSizes": [16, 16], "seed": 7}


def rllib_job(
    name: str = "rllib/ppo",
    preset: str = "paper",
    *,
    settings: dict[str, Any] | None = None,
    **overrides: Any,
) -> NitroTrainingJob:
    """A resolved job; `settings` are RLlib's, the rest as for `learner_support.job`."""
    given = {} if settings is None else {"algorithm__rllib": json.dumps(settings)}
    return job(preset, algorithm__name=name, **given, **(SMALL | overrides))


def algorithm(name: str = "rllib/ppo", settings: dict[str, Any] | None = None, **overrides: Any) -> Any:
    """The algorithm of such a job."""
    spec = rllib_job(name, settings=settings, **overrides).spec
    return learner_of(spec, HOPPER)
