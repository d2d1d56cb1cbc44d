"""The report of a run: one HTML file that needs nothing else, of a run folder or of a job on a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import yaml

from nitro_api.costs.amounts import dollars
from nitro_learner.run.learner_functions import FunctionCost, function_cost
from nitro_learner.run.metrics_file import columns_of, read_metrics
from nitro_learner.run.published import published_spec
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.views.agent_groups import AgentGroups, groups_of, rows_of
from nitro_learner.run.views.charts import POINTS, Columns, axes_of, charts, figures, learning_charts
from nitro_learner.run.views.plot_axes import X_AXES
from nitro_learner.run.views.plot_groups import summary_of
from nitro_learner.training.short_episodes import end_short, known, reason

Pairs = Sequence[tuple[str, str]]
_HISTORY = {
    "env_steps": "envSteps",
    "reward_mean": "rewardMean",
    "evaluation_mean": "evaluationMean",
    "boosting_score": "score",
    "actors": "actors",
    "cost_total": "cost",
}
_NOW = {"env_steps": "envSteps", "cut_share": "cutShare"}
"""What the status has for the last round, whatever the learner's version. Of the cut share it has no other
round's."""


@dataclass(frozen=True)
class RunReport:
    """What the page says.

    Attributes:
        job: as YAML would hold it: metadata, and the spec that may be published.
        outcome: how the run ended, or where it is.
        columns: its rounds, as metrics.csv names them.
        cost: US dollars by component, `total` last.
        evaluation: mean, std and episodes of the final evaluation, where there was one.
        versions: versions of the packages that it was trained with.
        note: what a reader should know of the data.
        pods: pod-seconds that were paid, and actor-seconds that were used; None without pods.
        groups: who played which policy; only for several agents.
        functions: modelled cost of the updates as serverless functions; only for several agents.
        best: best training return of the run; None where it is that of the columns.
        scaler: who decided the number of actors; None where it is not known yet.
    """

    job: Mapping[str, Any]
    outcome: str
    columns: Columns
    cost: Mapping[str, float]
    evaluation: Mapping[str, float] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    pods: tuple[float, float] | None = None
    groups: AgentGroups | None = None
    functions: FunctionCost | None = None
    best: float | None = None
    scaler: str | None = None

    def html(self) -> str:
        """The page."""
        spec, name = self.job["spec"], self.job["metadata"]["name"]
        algorithm = spec.get("algorithm", {})
        subtitle = [
            spec["environment"].get("id") or spec["environment"]["entryPoint"],
            f"{algorithm.get('name', 'ppo')}, preset {algorithm.get('preset', 'tuned')}",
            *([f"scaler {self.scaler}"] if self.scaler else []),
            self.outcome,
        ]
        page, style = (
            (files(__package__) / name).read_text(encoding="utf-8") for name in ("report.html", "report.css")
        )
        return Template(page).substitute(
            style=style.rstrip(),
            title=escape(f"{name}: Nitro report"),
            subtitle=escape(" · ".join(subtitle)),
            facts="".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in self._facts()),
            charts=self._charts() or "<p>No round is finished yet.</p>",
            note=escape(self._note()),
            learning=self._learning(),
            sharing=self._sharing(),
            cost=_table(self._cost()),
            job=escape(yaml.safe_dump(dict(self.job), sort_keys=False, allow_unicode=True)),
            versions=_table(tuple(self.versions.items()) or (("not recorded", ""),)),
        )

    def _charts(self) -> str:
        """The charts over each x axis that there is data for, and a choice between them. The choice needs no
        script: the page's style shows the charts of the axis that is checked."""
        names = axes_of(self.columns)
        choices = [
            f'<label><input type="radio" name="x" id="x-{name}"{" checked" if name == names[0] else ""}>'
            f" over {escape(X_AXES[name].label.lower())}</label> "
            for name in names
            if len(names) > 1
        ]
        drawn = [
            f'<div class="charts over-{name}">{figures(charts(self.columns, name, self.groups))}</div>'
            for name in names
        ]
        return "".join([*choices, *drawn])

    def _learning(self) -> str:
        """The charts about learning, over one axis only: a page of all axes would be large."""
        names = axes_of(self.columns)
        drawn = learning_charts(self.columns, names[0]) if names else []
        return f'<h2>Learning</h2><div class="charts">{figures(drawn)}</div>' if drawn else ""

    @property
    def _short(self) -> bool:
        """Whether training returns are those of short episodes only."""
        return end_short(self.columns)

    def _facts(self) -> Pairs:
        facts = []
        if self.evaluation:
            mean, std = self.evaluation["mean"], self.evaluation["std"]
            facts.append(("Final return, mean actions", f"{mean:,.1f} ±\N{NO-BREAK SPACE}{std:,.1f}"))
        elif self._short and (value := _last(self.columns, "evaluation_mean")) is not None:
            facts.append(("Last evaluation, mean actions", f"{value:,.1f}"))
        training = "Training return, short episodes only" if self._short else "Training return"
        for title, column, pattern in (
            (training, "reward_mean", "{:,.1f}"),
            ("Rounds", "round", "{:,.0f}"),
            ("Environment steps", "env_steps", "{:,.0f}"),
            ("Training time, seconds", "wall_seconds", "{:,.0f}"),
        ):
            if (value := _last(self.columns, column)) is not None:
                facts.append((title, pattern.format(value)))
        actors = self.columns.get("actors")
        if actors is not None and np.isfinite(actors).any():
            fewest, most = np.nanmin(actors), np.nanmax(actors)
            text = f"{fewest:.0f} to {most:.0f}" if fewest < most else f"{most:.0f}"
            facts.append(("Actors of a round", text))
        if self.pods is not None:
            paid, used = self.pods
            facts.append(("Actor pods", f"paid {paid:,.0f} pod-seconds, used {used:,.0f}"))
        if "total" in self.cost:
            facts.append(("Cost", self._amounts()["total"]))
        return facts

    def _cost(self) -> Pairs:
        rows = [*self._amounts().items()]
        if self.functions:
            rows.append(("learner functions (modelled, not in the total)", f"${self.functions.dollars:,.6f}"))
        total, steps = self.cost.get("total"), _last(self.columns, "env_steps")
        if total and steps:
            rows.append(("per 1,000 environment steps", f"${1000 * total / steps:,.6f}"))
        best = self._best()
        if total and best is not None and best > 0:
            rows.append(("per 1,000 points of the best return", f"${1000 * total / best:,.6f}"))
        return rows

    def _amounts(self) -> dict[str, str]:
        """The cost by component as text. The learner's and the actors' add up to the total."""
        shown = {name: dollars(amount)[0] for name, amount in self.cost.items()}
        if {"learner", "actors", "total"} <= self.cost.keys():
            amounts = dollars(self.cost["learner"], self.cost["actors"])
            shown |= zip(("total", "learner", "actors"), amounts, strict=True)
        return shown

    def _best(self) -> float | None:
        if self.best is not None and not self._short:
            return self.best
        mean = "evaluation_mean" if self._short else "reward_mean"
        return float(np.nanmax(self.columns[mean])) if known(self.columns, mean) else None

    def _sharing(self) -> str:
        """The section about which agents shared policies, when, and what this saved. Empty for one agent."""
        if self.groups is None:
            return ""
        titles = ("After round", "What", "Groups", "Distances between agents")
        head = "".join(f"<th>{title}</th>" for title in titles)
        rows = [rows_of(toggle) for toggle in self.groups.toggles]
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        marked = "<p>The dotted lines of the charts show when.</p>"
        table = f"<table><tr>{head}</tr>{body}</table>{marked}" if rows else "<p>Sharing never toggled.</p>"
        return f"<h2>Sharing</h2>{table}<p>{escape(self._saved())}</p>"

    def _saved(self) -> str:
        """What sharing saved of the policies' updates."""
        assert self.groups is not None
        rounds, agents = len(self.groups.policies), len(self.groups.agents)
        updates = sum(len(set(policies.values())) for policies in self.groups.policies)
        text = (
            f"{updates:,} updates of policies in {rounds:,} rounds; with a policy for each agent there would "
            f"be {agents * rounds:,}, so sharing saved {1 - updates / (agents * rounds):.0%}."
        )
        if self.functions and self.functions.apart:
            saved = 1 - self.functions.dollars / self.functions.apart
            text += (
                f" Modelled as serverless learner functions, they cost ${self.functions.dollars:,.6f} "
                f"instead of ${self.functions.apart:,.6f} ({saved:.0%} less); in fact they ran in the "
                "learner."
            )
        return text

    def _note(self) -> str:
        rounds = len(self.columns.get("round", ()))
        parts = [self.note] if self.note else []
        if self._short:
            parts.append(reason(self.job["spec"]["environment"]))
        elif rounds and not known(self.columns, "reward_mean"):
            parts.append("No training episode has ended, so there is no training return.")
        if rounds > POINTS:
            parts.append(
                f"{rounds:,} rounds are drawn as {POINTS} means of {rounds / POINTS:.1f} rounds each."
            )
        return " ".join(parts)


def of_run(path: Path) -> RunReport:
    """The report of a run folder, also of a run that still trains or was cut off.

    Raises:
        RunDirError: it holds no finished round, or is damaged.
    """
    folder = RunDir(path)
    columns = columns_of(read_metrics(folder.metrics))
    summary = summary_of(folder, columns)
    job = folder.read_job()
    scaling = job["spec"]["scaling"]
    rounds = {name: float(columns[f"cost_{name}"][-1]) for name in ("learner", "actors", "total")}
    return RunReport(
        job={"metadata": {"name": job["metadata"]["name"]}, "spec": published_spec(job["spec"])},
        scaler=scaling.get("entryPoint", scaling["scaler"]),
        outcome=summary.get("message", "not ended yet"),
        columns=columns,
        # A summary has the evaluation at the end, too.
        cost=max(rounds, summary.get("cost", rounds), key=lambda cost: cost["total"]),
        evaluation=summary.get("evaluation"),
        versions=summary.get("versions", {}),
        pods=_pods(summary.get("actors", {})),
        groups=groups_of(folder, len(columns["round"])),
        functions=function_cost(folder),
    )


def of_job(job: Mapping[str, Any]) -> RunReport:
    """The report of a job on a cluster, from its status."""
    status = job.get("status") or {}
    training = status.get("training") or {}
    history = training.get("history") or []
    rows = [
        {"round": entry["round"], **{name: entry.get(key) for name, key in _HISTORY.items()}}
        for entry in history
    ]
    if rows:
        rows[-1] |= {name: training.get(key) for name, key in _NOW.items()}
    message = training.get("message")
    phase = status.get("phase", "Pending")
    return RunReport(
        job={
            "metadata": {"name": job["metadata"]["name"], "namespace": job["metadata"]["namespace"]},
            "spec": published_spec(job["spec"]),
        },
        scaler=status.get("scaler"),
        outcome=f"{phase}: {message}" if message else phase,
        columns=columns_of([{**dict.fromkeys(_NOW), **row} for row in rows]),
        cost={
            k: status["cost"][k] for k in ("learner", "actors", "total") if k in (status.get("cost") or {})
        },
        best=training.get("rewardBest"),
        pods=_pods({**(status.get("actors") or {}), **training}),
        note="The status holds the last 60 rounds; the whole run lies beside the checkpoint"
        + (f", {status['checkpoint']['location']}." if status.get("checkpoint") else "."),
    )


def _pods(row: Mapping[str, Any]) -> tuple[float, float] | None:
    paid, used = row.get("podSeconds"), row.get("busySeconds")
    return (float(paid), float(used)) if paid and used is not None else None


def _last(columns: Columns, name: str) -> float | None:
    values = columns.get(name, np.empty(0))
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None


def _table(rows: Pairs) -> str:
    return "".join(
        f'<tr><th>{escape(name)}</th><td class="number">{escape(value)}</td></tr>' for name, value in rows
    )
