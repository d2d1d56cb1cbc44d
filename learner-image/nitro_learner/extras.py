"""What a job needs that is not installed everywhere: Ray's RLlib, for algorithms whose name begins with
`rllib/`.

Nothing heavy is imported for jobs that do without it.
"""

from __future__ import annotations

import importlib.util
import logging
import os

from nitro_api import FieldError, JobInvalid, JobSpec

RLLIB = "rllib/"
"""How spec.algorithm.name begins where RLlib learns."""

UNCHECKED = "spec.algorithm.rllib: is checked when the learner starts, because RLlib is not installed here"
_MISSING = (
    "needs Ray's RLlib, which is not installed; run pip install 'nitro-learner[train,rllib]', on a cluster "
    "use a learner image that was built with --build-arg EXTRAS=rllib"
)


_PACKAGES = ("ray", "tree", "fsspec", "pandas", "pyarrow", "scipy")
"""What importing RLlib needs: those of the extra `rllib`, by their modules' names."""


class RllibError(Exception):
    """RLlib failed in an update; the message has its reason."""


def lacking(spec: JobSpec) -> bool:
    """Whether the job asks for RLlib where it is not installed."""
    return spec.algorithm.name.startswith(RLLIB) and not all(map(importlib.util.find_spec, _PACKAGES))


def check(spec: JobSpec) -> None:
    """Makes sure that a resolved job can be trained here.

    Raises:
        JobInvalid: RLlib is needed and not installed, or refuses the job's settings.
    """
    if not spec.algorithm.name.startswith(RLLIB):
        return
    if lacking(spec):
        raise JobInvalid([FieldError("spec.algorithm.name", spec.algorithm.name, _MISSING)])
    prepare()
    from nitro_learner.algorithms.rllib import settings

    found = settings.mistakes(spec.algorithm.name, spec.algorithm.rllib or {})
    if found:
        raise JobInvalid(found)


def prepare() -> None:
    """Before the first import of Ray: no usage statistics, no runtime that starts by itself, no advice on
    parts that are not used here."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
    for name in (
        "ray._common.deprecation",
        "ray.rllib.algorithms.algorithm_config",
        "ray.rllib.utils.compression",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)
