"""spec.sharing: when agents share policies."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Model


class Sharing(Model):
    """When agents share policies, and which of them (MARLess, SoCC 2025). Agents of equal spaces only can
    share one."""

    mode: Literal["never", "always", "dynamic", "random-toggle", "random-base"] = "never"
    """`never`: each agent has a policy of its own. `always`: all agents of one class share one policy, which
    is told which of them it plays. `dynamic`: agents begin to share, or end it, whenever the training return
    stops rising as `slope` says. There are two control experiments. `random-toggle`: the same in random
    rounds and with random groups. `random-base`: as `dynamic`, but a group goes on with the policy of a
    random member. Default: never."""

    window: Annotated[int, Field(ge=2, le=1000)] = 10
    """Rounds W whose returns the slope is fitted to, and rounds at least before the first toggle and between
    two. Only with modes under which sharing toggles. Unit: rounds. Default: 10."""

    slope: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """tau, slope of the mean training return below which sharing toggles. Only with the modes `dynamic` and
    `random-base`. Unit: share of the returns' range so far, per round. Default: 0."""

    similarity: Literal["policy", "kde"] = "policy"
    """How unlike two agents are. `policy`: the mean divergence of their policies' action distributions on
    pooled observations. `kde`: the divergence of densities of their observations and actions, as the MARLess
    paper has it. Only with the modes `dynamic` and `random-base`. Default: policy."""

    group_batch: Literal["equal", "all"] = "equal"
    """What a shared policy learns from in a round. `equal`: as many samples as one agent has, drawn from all
    of its agents. `all`: all samples of all of its agents. Default: equal."""

    toggles: Annotated[int, Field(ge=1, le=1000)] | None = None
    """How often sharing begins or ends in the run. Only with mode `random-toggle`, which requires it.
    Default: none."""
