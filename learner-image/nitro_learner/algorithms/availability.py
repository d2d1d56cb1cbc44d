"""The availability of Ray's RLlib. Algorithms whose name begins with `rllib/` need it, and it is not
installed everywhere.

Jobs that do not need it import nothing heavy.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import re

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_api.errors import installing

UNCHECKED = (
    "spec.algorithm.rllib: is checked when the learner starts, because the RLlib that it needs is not "
    "installed here"
)
_REMEDY = (
    f"{installing('train', 'rllib')}, on a cluster use a learner image that was built with "
    "--build-arg EXTRAS=rllib"
)
_PACKAGES = ("nitro_rllib", "ray", "tree", "fsspec", "pandas", "pyarrow", "scipy")
"""Our package of RLlib's learners and what it needs, by their modules' names: the extra `rllib`."""


class RllibError(Exception):
    """RLlib failed in an update; the message has its reason."""


def lacking(spec: JobSpec) -> bool:
    """Whether the job needs RLlib, and RLlib is missing or has another version than the needed one."""
    return spec.algorithm.record.settings == "rllib" and _obstacle() is not None


def check(spec: JobSpec) -> None:
    """Make sure that a resolved job can be trained here.

    Raises:
        JobInvalid: RLlib is needed and not installed, in another version or broken, or refuses the job's
            settings.
    """
    if spec.algorithm.record.settings != "rllib":
        return
    obstacle = _obstacle()
    if obstacle:
        raise _unusable(spec, obstacle)
    prepare()
    try:
        (settings,) = importlib.metadata.entry_points(group="nitro.settings", name="rllib")
        mistakes = settings.load()
    except Exception as error:  # importing a broken package can raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise _unusable(
            spec, f"needs RLlib of Ray {_needed()}, which cannot be imported ({reason})"
        ) from error

    errors = mistakes(spec.algorithm.name, spec.algorithm.rllib or {})
    if errors:
        raise JobInvalid(errors)


def check_actions(spec: JobSpec, environment: DescribedEnvironment) -> None:
    """Make sure that RLlib can learn the actions of an environment, where the job needs RLlib.

    Raises:
        JobInvalid: it cannot.
    """
    if spec.algorithm.record.settings != "rllib":
        return
    # Imported only now: `nitro validate` loads this module, and NumPy takes a tenth of a second.
    from nitro_actor.actions import Continuous, Discrete, action_space

    why = ""
    if not isinstance(action_space(environment.only_class.action), Continuous | Discrete):
        why = (
            "learns no MultiDiscrete or MultiBinary actions, as the environment has them; take ppo or impact"
        )
    elif environment.only_class.action.get("masked"):
        why = "takes no action masks, and the environment has them; take ppo or impact"
    if why:
        raise JobInvalid([FieldError("spec.algorithm.name", spec.algorithm.name, why)])


def _obstacle() -> str | None:
    """The reason why the installed packages cannot be used, found without importing them; else None."""
    if not all(map(importlib.util.find_spec, _PACKAGES)):
        return "needs Ray's RLlib, which is not installed"
    needed = _needed()
    try:
        installed = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return f"needs RLlib of Ray {needed}, but the package ray that is found has no version"
    if not installed.startswith(f"{needed}."):
        return f"needs RLlib of Ray {needed}, but Ray {installed} is installed"
    return None


def _needed() -> str:
    """The minor of Ray that nitro-rllib pins: 2.60."""
    pins = (
        re.match(r"ray\b.*>=(\d+\.\d+)", line) for line in importlib.metadata.requires("nitro-rllib") or ()
    )
    return next(pin[1] for pin in pins if pin)


def _unusable(spec: JobSpec, obstacle: str) -> JobInvalid:
    return JobInvalid([FieldError("spec.algorithm.name", spec.algorithm.name, f"{obstacle}; {_REMEDY}")])


def prepare() -> None:
    """Set Ray's options before its first import: no usage statistics, no runtime that starts by itself, no
    advice on parts that are not used here."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
    for name in (
        "ray._common.deprecation",
        "ray.rllib.algorithms.algorithm_config",
        "ray.rllib.utils.compression",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)
