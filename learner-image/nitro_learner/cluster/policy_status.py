"""What the job's status says of a run of several agents: status.policies and status.sharing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from nitro_api.spec.learner_status import MOST_AGENTS
from nitro_api.spec.status_fields import LARGEST
from nitro_learner.training.round_report import PolicyReport

if TYPE_CHECKING:
    from nitro_api.spec.sharing import Sharing
    from nitro_learner.training.sharing.toggles import Regrouping


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value which the status takes: JSON has no word for NaN and infinity."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, float) and not abs(value) <= LARGEST)
    }


class PolicyStatus:
    """Keeps both parts. They stay empty in a run of one agent.

    Args:
        previous: the status that an earlier pod left.
    """

    def __init__(self, previous: Mapping[str, Any]) -> None:
        self._policies: list[dict[str, Any]] = list(previous.get("policies", []))
        self._sharing: dict[str, Any] = dict(previous.get("sharing", {}))

    def starting(self, sharing: Sharing | None) -> None:
        """A run with this spec.sharing starts or goes on; None for one agent."""
        if sharing is not None:
            self._sharing = {"toggles": 0, **self._sharing, "mode": sharing.mode}

    def played(self, policies: Mapping[str, PolicyReport]) -> None:
        """A round was sampled with these policies."""
        if sum(len(own.agents) for own in policies.values()) < 2:
            return
        self._policies = [
            {
                "name": name,
                "agents": list(own.agents[:MOST_AGENTS]),
                "rewardMean": None if own.reward_mean is None else round(own.reward_mean, 3),
                "convexityRatio": own.convexity_ratio,
            }
            for name, own in list(policies.items())[:MOST_AGENTS]
        ]
        self._group([own.agents for own in policies.values()])

    def regrouped(self, regrouping: Regrouping) -> None:
        """Sharing has toggled: the policies are others from the next round on."""
        known = {policy["name"]: policy for policy in self._policies}
        self._policies = [
            {**known.get(name, {}), "name": name, "agents": list(agents[:MOST_AGENTS])}
            for name, agents in list(regrouping.groups.items())[:MOST_AGENTS]
        ]
        for policy in self._policies:
            if policy["name"] in regrouping.fresh:
                policy.pop("rewardMean", None)
                policy.pop("convexityRatio", None)
        self._sharing |= {
            "toggles": regrouping.number,
            "round": regrouping.round,
            "message": regrouping.sentence[:1000],
        }
        self._group(regrouping.groups.values())

    def _group(self, groups: Collection[Collection[str]]) -> None:
        self._sharing |= {"groups": len(groups), "shared": any(len(agents) > 1 for agents in groups)}

    def body(self) -> dict[str, Any]:
        """The fields of the status."""
        fields: dict[str, Any] = {}
        if self._policies:
            fields["policies"] = [present(policy) for policy in self._policies]
        if self._sharing:
            fields["sharing"] = dict(self._sharing)
        return fields
