"""The values of a learner's report, in the forms that the status takes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nitro_api.costs.pod_use import PodUse
from nitro_api.spec.learner_status import (
    ACTORS_SILENT,
    CHECKPOINT_MISSED,
    ENVIRONMENT_FAULTY,
    ENVIRONMENT_SOUND,
    MOST_AGENTS,
    NOT_CHECKED,
    ROLLOUTS_CUT,
)
from nitro_api.spec.status_fields import LARGEST
from nitro_learner.training.round_report import PolicyReport

if TYPE_CHECKING:
    from nitro_api.spec.sharing import Sharing
    from nitro_learner.run.checking.report import Report
    from nitro_learner.training.needs import LaterNeed
    from nitro_learner.training.round_report import RoundReport
    from nitro_learner.training.sharing.toggles import Regrouping
    from nitro_learner.training.stop import Forecast

_MEND = (
    "Mend the environment, suspend the job, set spec.actor.image to its new image (with backend.type Local: "
    "spec.learner.image), and resume it; a new job unlearns what the fault has taught"
)
_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")


def history_entry(row: Mapping[str, Any], ready: int | None) -> dict[str, Any]:
    """A finished round, of which so many slots found a ready actor."""
    return present(
        {
            "round": int(row["round"]),
            "envSteps": int(row["env_steps"]),
            "rewardMean": readable(row["reward_mean"], 3),
            "evaluationMean": readable(row["evaluation_mean"], 3),
            "score": readable(row["boosting_score"], 4),
            "actors": int(row["actors"]),
            "ready": ready,
            "seconds": readable(row["seconds_total"], 3),
            "actorSeconds": readable(row["seconds_actor"], 3),
            "waves": _waves(row),
            "cost": readable(row["cost_total"], 6),
        }
    )


def _waves(row: Mapping[str, Any]) -> float | None:
    """How many mean rollouts long the sampling was; None where an actor's time is not known."""
    actor_seconds = row["seconds_actor"]
    sampling = row["seconds_dispatch"] + row["seconds_sample"]
    return readable(sampling / actor_seconds, 2) if actor_seconds else None


def progress(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of status.training that a finished round sets. The last evaluation stays until the next."""
    evaluation = present({"evaluationMean": readable(row["evaluation_mean"], 3)})
    return {
        "round": int(row["round"]),
        "envSteps": int(row["env_steps"]),
        "rewardMean": readable(row["reward_mean"], 3),
        "cutShare": readable(row["cut_share"], 3),
        "boostingScore": readable(row["boosting_score"], 4),
        "convexityRatio": row["convexity_ratio"],
        **evaluation,
    }


def ahead(forecast: Forecast) -> dict[str, Any]:
    """The fields of status.progress after a round. 99.96 percent are 99.9: not all is done."""
    fields: dict[str, Any] = {"percent": math.floor(1000 * forecast.share + 1e-9) / 10, "by": forecast.by}
    return fields if forecast.seconds is None else fields | {"etaSeconds": round(forecast.seconds)}


def cut(report: RoundReport, timeout_seconds: float) -> str | None:
    """That rollouts of a round were cut by spec.actor.timeoutSeconds; None where none was."""
    count = max(report.counters.retried.get("timeout", 0), report.counters.deadline_misses)
    if not count:
        return None
    others = f" (others took {report.seconds_actor:.1f} s)" if report.seconds_actor else ""
    return (
        f"{count} requests to the {report.actors} actors of round {report.round} were not answered within "
        f"spec.actor.timeoutSeconds, {timeout_seconds:g} s{others}"
    )


def rewound(last: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of status.training after the round that a run goes on from, as the history has it."""
    return {
        "envSteps": last.get("envSteps"),
        "rewardMean": last.get("rewardMean"),
        "boostingScore": last.get("score"),
        "convexityRatio": None,
    }


def worst(troubles: Mapping[str, str]) -> dict[str, str | None]:
    """The fields that tell one of several troubles: that of silent actors first, because the operator acts on
    it."""
    order = (ACTORS_SILENT, CHECKPOINT_MISSED, ROLLOUTS_CUT)
    reason = next((reason for reason in order if reason in troubles), None)
    return {"reason": reason, "message": troubles[reason] if reason else None}


def checked(report: Report) -> dict[str, str]:
    """The fields that tell what the check of the environment has found."""
    left = f"not checked: {report.left_out()}" if report.unchecked else ""
    if wrong := report.wrong():
        told = [*wrong, _MEND, left]
        value = ENVIRONMENT_FAULTY
    elif report.environment is None:
        told, value = [left], NOT_CHECKED
    else:
        told = ["nothing is wrong with it, as far as it was checked", *report.warnings, left]
        value = ENVIRONMENT_SOUND
    return {"check": value, "checkMessage": sentence(". ".join(filter(None, told)))}


def request(actors: int) -> dict[str, Any]:
    """The fields that request actors."""
    return {"requests": {"actors": actors}, "requestedActors": actors, "requestedAt": timestamp()}


def needs(at_once: int, later: Iterable[LaterNeed] = ()) -> dict[str, Any]:
    """The fields that say how many actors are needed now, and when how many."""
    expected = [{"afterSeconds": readable(need.after_seconds, 3), "actors": need.actors} for need in later]
    return {"needsNow": at_once, "needsLater": expected, "neededAt": timestamp()}


def spent(
    before: Mapping[str, float], learner: float, actors: float, pods: PodUse | None
) -> dict[str, float]:
    """The run's cost so far, and what of its pods that pays, where it is known. It never falls: rounds that
    are done again after a crash are paid twice."""
    now = {"learner": learner, "actors": actors, "total": learner + actors}
    if pods is not None:
        now |= {"podSeconds": pods.seconds, "vcpuSeconds": pods.vcpu}
    paid = {name: max(before.get(name, 0.0), round(value, 6)) for name, value in now.items()}
    return {name: value for name, value in before.items() if name != "estimated"} | paid


def sentence(text: str) -> str:
    """A message that can be applied: the client writes a character beyond 16 bits as two escapes, which
    the API server refuses."""
    return _BEYOND_16_BITS.sub("\N{REPLACEMENT CHARACTER}", text)[:1000]


def readable(value: float | None, digits: int) -> float | None:
    """Round a value for `kubectl get`, which prints all digits; metrics.csv has the exact value."""
    return None if value is None else round(value, digits)


def timestamp() -> str:
    """The present, as the status has times."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value which the status takes: JSON has no word for NaN and infinity."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, float) and not abs(value) <= LARGEST)
    }


class PolicyStatus:
    """Keeps status.policies and status.sharing. They stay empty in a run of one agent.

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
