"""The classes that spec.network.entryPoint and criticEntryPoint name, and modules of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import nitro_learner
from nitro_actor import entry_points, traces
from nitro_actor.config import EnvironmentConfigError
from nitro_api import FieldError, JobInvalid
from nitro_api.errors import ABSENT
from nitro_api.spec.network import Network
from nitro_learner.networks.own.skeleton import Unfit

Make = Callable[[int], nn.Module]
"""Makes a module with so many outputs, whose first parameters are drawn from torch's random numbers."""
ENTRY_POINT, CRITIC, SETTINGS = (
    f"spec.network.{name}" for name in ("entryPoint", "criticEntryPoint", "settings")
)
_OURS = Path(nitro_learner.__file__).parent


def makers(network: Network, shape: Sequence[int]) -> tuple[Make, Make]:
    """What makes the policy's module and the critic's.

    Args:
        network: with an entry point.
        shape: of an observation.

    Raises:
        JobInvalid: a class cannot be loaded, is no module's, or does not take these arguments.
    """
    assert network.entry_point, "the job's validation asks for it"
    policy = _maker(ENTRY_POINT, network.entry_point, network, shape)
    if network.critic_entry_point is None:
        return policy, policy
    return policy, _maker(CRITIC, network.critic_entry_point, network, shape)


def refused(path: str, name: str | None, error: Unfit) -> JobInvalid:
    """The error of a job whose module cannot be its network."""
    return JobInvalid([FieldError(path, name, f"names a module that cannot be used: {error}")])


def _maker(path: str, name: str, network: Network, shape: Sequence[int]) -> Make:
    entry_points.find_here()
    try:
        loaded = entry_points.load(name, image="the learner's image", ours=_OURS)
    except EnvironmentConfigError as error:
        raise JobInvalid([FieldError(path, name, str(error))]) from error
    if not isinstance(loaded, type) or not issubclass(loaded, nn.Module):
        what = f"must name a subclass of torch.nn.Module, and names {traces.shown(loaded)}"
        raise JobInvalid([FieldError(path, name, f"{what}; derive your class from it")])
    settings = network.settings or {}
    try:
        inspect.signature(loaded).bind(tuple(shape), 1, **settings)
    except TypeError as error:
        raise JobInvalid([_unmade(name, settings, loaded, str(error))]) from None

    def make(outputs: int) -> nn.Module:
        try:
            return loaded(tuple(shape), outputs, **settings)
        except Exception as error:
            raised = f"it raised {traces.words(error)}{traces.raised_at(error, ours=_OURS)}"
            raise JobInvalid([_unmade(name, settings, loaded, raised)]) from error

    return make


def seeded(make: Make, outputs: int, seed: int) -> nn.Module:
    """A module in evaluation mode, on the CPU, as torch's random numbers of this seed make it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(outputs).cpu().eval()


def _unmade(name: str, settings: dict[str, Any], made_of: type, why: str) -> FieldError:
    """The mistake that a class cannot be made."""
    place = traces.defined(made_of)
    what = f"do not fit the constructor of {name}{place}, which gets the observation's shape, the number of "
    return FieldError(SETTINGS, settings or ABSENT, f"{what}outputs and these: {why}; correct one of them")
