"""The numbers of a report: what every finished run had reached at the budget, and how variants compare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.planning.spec import Budget, Experiment
from nitro_experiments.reading.curves import Curve, FinishedRun, Floats
from nitro_experiments.reading.readings import Reading
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.few_seeds import Interval

_GRID = 200

Line = dict[str, str | float]
"""A line of a CSV file by column."""


@dataclass(frozen=True)
class Comparison:
    """A variant against another, over paired seeds.

    It holds the differences of the score at the budget and of its mean over training, and the probability
    that a run of the variant scores higher.
    """

    variant: str
    other: str
    difference: Interval
    over_training: Interval
    improvement: float


@dataclass(frozen=True)
class Band:
    """A metric of one variant over what was spent: mean and its 95 % interval, f64 [n] each."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


class Results:
    """Finished runs of one environment.

    Only seeds that every variant has finished count: otherwise variants would be judged by different seeds.

    Attributes:
        environment: its id.
        seeds: the seeds that count.
        runs: by variant, in the order of `seeds`. Variants of `early` and `missing` are left out.
        early: variants of which runs ended before the budget, and how many did. None of their runs count:
            without those that ended early, the rest would be a choice by return or by cost.
        missing: variants without a seed that counts.
        fixed: the variants of `runs` with scaler `fixed`.
        target: the return whose price is reported; None where there is none.
    """

    def __init__(
        self,
        environment: str,
        runs_by_variant: Mapping[str, Mapping[int, FinishedRun]],
        experiment: Experiment,
        fixed: Collection[str],
    ) -> None:
        self.budget: Budget = experiment.budget or Budget()
        self.early = {
            variant: count
            for variant, runs in runs_by_variant.items()
            if (count := sum(run.end(self.budget.unit) < self.budget.amount for run in runs.values()))
        }
        present = {name: runs for name, runs in runs_by_variant.items() if runs and name not in self.early}
        common = set.intersection(*(set(runs) for runs in present.values())) if present else set()
        self.environment = environment
        self.seeds = sorted(common)
        self.runs = {
            variant: [runs[seed] for seed in self.seeds] for variant, runs in present.items() if common
        }
        self.missing = [variant for variant in runs_by_variant if variant not in {*self.runs, *self.early}]
        self.fixed = [variant for variant in self.runs if variant in fixed]
        self.target = experiment.target_in(environment)
        self._experiment = experiment
        self._spans: dict[str, tuple[float, float]] = {}

    def curves(self, variant: str, metric: str, unit: str | None = None) -> list[Curve]:
        """The metric over what was spent, of each run: up to the budget, or in the unit `unit` to the end."""
        if unit is None:
            return [run.curve(metric, self.budget.unit, self.budget.amount) for run in self.runs[variant]]
        return [run.curve(metric, unit) for run in self.runs[variant]]

    def at_budget(self, variant: str, metric: str) -> Floats:
        """The metric when each run reached the budget, f64 [seeds]."""
        return np.array([curve.at(self.budget.amount) for curve in self.curves(variant, metric)])

    def knows(self, metric: str) -> bool:
        """Whether every run has the metric at the budget."""
        return all(np.isfinite(self.at_budget(variant, metric)).all() for variant in self.runs)

    def training(self, metric: str) -> tuple[float, float]:
        """Where `over_training` begins and ends.

        It begins where the curves of all runs are known: a curve that begins later lacks the poor returns of
        the beginning. It ends where the first of them ends, at the budget at the latest. Both are NaN where a
        run has no curve.
        """
        if metric not in self._spans:  # the same for all variants
            curves = [curve for variant in self.runs for curve in self.curves(variant, metric)]
            if curves and all(len(curve.x) for curve in curves):
                start = max(float(curve.x[0]) for curve in curves)
                end = min(self.budget.amount, *(float(curve.x[-1]) for curve in curves))
                self._spans[metric] = start, end
            else:
                self._spans[metric] = float("nan"), float("nan")
        return self._spans[metric]

    def over_training(self, variant: str, metric: str) -> Floats:
        """Mean of the metric over the interval of `training`, f64 [seeds]; NaN where that is empty."""
        start, end = self.training(metric)
        return np.array([curve.mean(start, end) for curve in self.curves(variant, metric)])

    def spent(self, variant: str, unit: str) -> Floats:
        """What each run had spent in the unit `unit` when it reached the budget, f64 [seeds]."""
        return np.array(
            [run.spent(self.budget.unit, unit).at(self.budget.amount) for run in self.runs[variant]]
        )

    def resumed_late(self, variant: str) -> float:
        """The share of all rollouts that went on from an episode's state older than one round; NaN where that
        is not known."""
        late, all_of_them = (
            sum(float(run.columns[name].sum()) for run in self.runs[variant])
            for name in ("resumed_late", "actors")
        )
        return late / all_of_them

    def price_of_target(self, variant: str) -> Floats:
        """What each run had cost when its score first reached the target, f64 [seeds].

        NaN where the score did not reach it within the budget.
        """
        assert self.target is not None
        prices = []
        for run, curve in zip(self.runs[variant], self.curves(variant, self._experiment.score), strict=True):
            reached = curve.reaches(self.target, self.budget.amount)
            prices.append(run.spent(self.budget.unit, "dollars").at(reached))
        return np.array(prices)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every variant with each of the experiment's `against`, as far as they have finished. Of two that
        are compared with each other, one direction counts."""
        asked = self._experiment.against or [next(iter(self._experiment.variants))]
        return [
            (variant, other)
            for number, other in enumerate(asked)
            if other in self.runs
            for variant in self.runs
            if variant != other and variant not in asked[:number]
        ]

    def comparisons(self, metric: str) -> list[Comparison]:
        """The comparison of each of the `pairs`."""
        comparisons = []
        for variant, other in self.pairs:
            ours, theirs = self.at_budget(variant, metric), self.at_budget(other, metric)
            training = self.over_training(variant, metric), self.over_training(other, metric)
            comparisons.append(
                Comparison(
                    variant,
                    other,
                    few_seeds.paired_difference(ours, theirs),
                    few_seeds.paired_difference(*training),
                    few_seeds.probability_of_improvement(ours, theirs),
                )
            )
        return comparisons

    @property
    def modelled_dollars(self) -> float:
        """The most by the price list at which each run's score is known; NaN where one has no score.

        Some variants may go on beyond the budget. A score that holds to its run's end would be older than
        those of the runs that go on, so the last point of each curve counts.
        """
        score = self._experiment.score
        curves = [curve for variant in self.runs for curve in self.curves(variant, score, "modelledDollars")]
        return min(float(curve.x[-1]) if len(curve.x) else float("nan") for curve in curves)

    def band(self, variant: str, metric: str, *, modelled: bool = False) -> Band | None:
        """The metric's mean and interval over what was spent up to the budget, or up to `modelled_dollars`;
        None where a run has fewer than two points."""
        curves = self.curves(variant, metric, "modelledDollars" if modelled else None)
        most = self.modelled_dollars if modelled else self.budget.amount
        if not curves or not all(len(curve.x) > 1 for curve in curves):
            return None
        start = 0.0 if curves[0].steps else max(curve.x[0] for curve in curves)
        end = min(most, *(curve.x[-1] for curve in curves))
        x = np.linspace(start, end, _GRID)
        values = np.array([curve.values(x) for curve in curves])
        return Band(x, *few_seeds.mean_band(values))


def results_of(experiment: Experiment, runs: Sequence[Reading]) -> list[Results]:
    """The results by environment."""
    by_environment: dict[str, dict[str, dict[int, FinishedRun]]] = defaultdict(lambda: defaultdict(dict))
    fixed = set()
    for reading in runs:
        planned = reading.planned
        if planned.control is None and planned.job.spec.scaling.record.plan == "constant":
            fixed.add(planned.variant)
        seeds = by_environment[planned.environment][planned.variant]
        if reading.run:
            seeds[planned.seed] = reading.run
    return [Results(name, variants, experiment, fixed) for name, variants in by_environment.items()]


def rows(runs: Sequence[Reading], results: Sequence[Results]) -> list[Line]:
    """One row per finished run, for runs.csv. Means over training use the interval of the compared runs."""
    of = {result.environment: result for result in results}
    return [
        _row(reading.planned, reading.run, of[reading.planned.environment]) for reading in runs if reading.run
    ]


def _row(run: PlannedRun, finished: FinishedRun, results: Results) -> Line:
    budget = results.budget
    curves = {
        metric: finished.curve(metric, budget.unit, budget.amount)
        for metric in ("reward_mean", "evaluation_mean")
    }
    return {
        "environment": run.environment,
        "variant": run.variant,
        "seed": run.seed,
        **{f"{metric}_at_budget": curve.at(budget.amount) for metric, curve in curves.items()},
        **{
            f"{metric}_over_training": curve.mean(*results.training(metric))
            for metric, curve in curves.items()
        },
        "rounds": float(finished.columns["round"][-1]),
        "actor_rounds": float(finished.columns["actor_rounds"][-1]),
        "env_steps": float(finished.columns["env_steps"][-1]),
        "resumed_late": float(finished.columns["resumed_late"].sum()),
        "cost": float(finished.columns["cost_total"][-1]),
        "seconds": float(finished.columns["wall_seconds"][-1]),
    }


def curve_rows(results: Sequence[Results], experiment: Experiment) -> Iterator[Line]:
    """What the pictures show, for curves.csv."""
    for result in results:
        for metric in experiment.figures:
            for variant in result.runs:
                band = result.band(variant, metric)
                if band is None:
                    continue
                for x, mean, low, high in zip(band.x, band.mean, band.low, band.high, strict=True):
                    yield {
                        "environment": result.environment,
                        "metric": metric,
                        "variant": variant,
                        result.budget.unit: float(x),
                        "mean": float(mean),
                        "low": float(low),
                        "high": float(high),
                    }
