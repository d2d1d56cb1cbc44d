"""The files of a run of several agents: policies.csv, one row per round and policy, and sharing.jsonl, one
line per toggle of sharing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nitro_learner.run.metrics_file import read_rows
from nitro_learner.run.recorders import append, csv_lines
from nitro_learner.run.rundir import RunDir, RunDirError, write_text
from nitro_learner.training.round_report import Listener, RoundReport, Row

if TYPE_CHECKING:
    from nitro_learner.training.sharing.toggles import Regrouping

STATS = (
    "kl",
    "entropy",
    "policy_loss",
    "value_loss",
    "explained_variance",
    "td_error",
    "q_mean",
    "epsilon",
    "learning_rate",
    "clip_fraction",
    "gradient_norm",
)
"""The statistics of a policy's update that have a column. The cell is empty where an algorithm has none."""

COLUMNS = (
    "round",
    "policy",
    "agents",
    "reward_mean",
    "evaluation_mean",
    "convexity_ratio",
    "boosting_score",
    "wanted_actors",
    *STATS,
)


@dataclass(frozen=True)
class Toggle:
    """A line of sharing.jsonl.

    Attributes:
        round: the round after which sharing toggled.
        shared: whether agents share policies from then on.
        groups: the agents of every policy.
        reason: why, as the end of a sentence.
        bases: what decided whose policy a group goes on with, by the policy's name; only for groups of
            several agents.
        distances: for each pool of agents that was compared, `agents` and the rows of their `distances`.
    """

    round: int
    shared: bool
    groups: dict[str, list[str]]
    reason: str
    bases: dict[str, str] = field(default_factory=dict)
    distances: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, regrouping: Regrouping) -> Toggle:
        """The toggle of an event."""
        return cls(
            regrouping.round,
            regrouping.shared,
            {policy: list(members) for policy, members in regrouping.groups.items()},
            regrouping.reason,
            dict(regrouping.bases),
            [
                {"agents": list(agents), "distances": matrix.tolist()}
                for agents, matrix in regrouping.distances.items()
            ],
        )


class PolicyFiles(Listener):
    """Write both files; each row is on the disk before a checkpoint knows of it."""

    essential = True

    def __init__(self, folder: RunDir) -> None:
        self._folder = folder

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        """Drop what will be made again, and a last line that was cut: rounds after `round`, and toggles from
        the one after `round` on, which happens as the next round begins."""
        kept = [row for number, row in _read(self._folder) if number <= round]
        write_text(self._folder.policies, csv_lines(COLUMNS, kept, head=True))
        toggles = [toggle for toggle in read_toggles(self._folder) if toggle.round < round]
        text = "".join(json.dumps(asdict(toggle)) + "\n" for toggle in toggles)
        write_text(self._folder.sharing, text)

    def on_round_done(self, report: RoundReport) -> None:
        rows = [
            {
                "round": report.round,
                "policy": name,
                "agents": " ".join(own.agents),
                "reward_mean": own.reward_mean,
                "evaluation_mean": own.evaluation_mean,
                "convexity_ratio": own.convexity_ratio,
                "boosting_score": own.score,
                "wanted_actors": own.wanted_actors,
                **{stat: own.stats.get(stat) for stat in STATS},
            }
            for name, own in report.policies.items()
        ]
        append(self._folder.policies, csv_lines(COLUMNS, rows))

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        append(self._folder.sharing, json.dumps(asdict(Toggle.of(regrouping))) + "\n")


def read_toggles(folder: RunDir) -> list[Toggle]:
    """The toggles of a run, in order; a last line cut by a crash is left out. Empty where there is no file.

    Raises:
        RunDirError: the file is damaged.
    """
    if not folder.sharing.exists():
        return []
    *lines, _ = folder.sharing.read_text(encoding="utf-8").split("\n")
    try:
        return [Toggle(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise RunDirError(f"{folder.sharing} is damaged: {error}.") from None


def read_groups(folder: RunDir) -> list[tuple[int, str, tuple[str, ...]]]:
    """Round, policy and its agents, of every row of policies.csv. Empty where there is no file.

    Raises:
        RunDirError: the file is damaged.
    """
    return [(round, row["policy"], tuple(row["agents"].split())) for round, row in _read(folder)]


def _read(folder: RunDir) -> list[tuple[int, dict[str, str]]]:
    """Round and row of every row of policies.csv. Raises RunDirError where the file is damaged."""
    try:
        rows = [(int(row["round"]), row) for row in read_rows(folder.policies)]
    except (ValueError, KeyError) as error:
        raise RunDirError(f"{folder.policies} is damaged: {error}.") from None
    if any("policy" not in row or "agents" not in row for _, row in rows):
        raise RunDirError(f"{folder.policies} is damaged: it lacks the column policy or agents.")
    return rows
