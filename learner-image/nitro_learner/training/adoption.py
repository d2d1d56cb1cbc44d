"""A run that begins with the policies of another one (spec.resumeFrom, or `nitro train --from`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import FieldError, JobInvalid
from nitro_api.errors import ABSENT
from nitro_api.rules.resume_rules import unequal
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.training.sharing.toggles import Sharing

RESUME_FROM = "spec.resumeFrom"


@dataclass(frozen=True)
class Source:
    """Another run, with whose policies a run begins.

    Attributes:
        named: what names it: spec.resumeFrom on a cluster, else what the user has given.
        state: of its checkpoint.
        round: after which that was saved.
    """

    named: str
    state: Mapping[str, Any]
    round: int


def adopt(source: Source, policies: PolicySet, sharing: Sharing, environment: DescribedEnvironment) -> None:
    """Begin with what another run's policies have learned, and with its groups of agents.

    Args:
        source: the other run.
        policies: of the run that starts.
        sharing: of the run that starts.
        environment: of the actors.

    Raises:
        JobInvalid: the state is of other spaces, networks or algorithms.
    """
    here = spaces_of(environment)
    there = source.state["spaces"]
    differing = [
        f"{name} are {there.get(name)!r} there and {here.get(name)!r} here" for name in unequal(there, here)
    ]
    if differing:
        raise misfit(source.named, differing)
    try:
        policies.adopt(source.state["policies"])
        sharing.adopt(source.state["sharing"])
    except ValueError as error:
        raise misfit(source.named, [str(error)]) from error


def misfit(named: str, differing: list[str]) -> JobInvalid:
    """The refusal of a job, with all that differs from the other run that `named` names."""
    both = "; ".join(differing)
    anew = " and create it anew" if named == RESUME_FROM else ""
    message = f"does not fit this job: {both}. They must be equal; correct the job{anew}"
    return JobInvalid([FieldError(named, ABSENT, message)])


def spaces_of(environment: DescribedEnvironment) -> dict[str, Any]:
    """What agents see and do, by words: shapes of observations, and numbers or sizes of actions."""
    found: dict[str, Any] = {}
    for one in environment.classes:
        found[f"agents of {one.name}"] = list(one.agents)
        found[f"observations of {one.name}"] = list(one.observation["shape"])
        found[f"actions of {one.name}"] = [one.action["kind"], one.action.get("n", one.action.get("size"))]
        if one.action.get("rescaled"):
            found[f"actions of {one.name}"].append("rescaled")
    return found
