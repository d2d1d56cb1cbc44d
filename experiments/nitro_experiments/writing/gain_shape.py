"""How a round's improvement grows with its actors, measured by variants with a fixed number of actors.

Two laws say how many rounds r a run of I actors needs to a given return, by the gradient noise scale B_noise
and the rollout length T:

    one step:          r ~ 1 + N / I          (McCandlish et al. 2018, equation 2.6)
    bounded movement:  r ~ sqrt(1 + N / I)    (where clip and KL target bound how far a round moves)

with N = B_noise / T. N is fitted here, one for all seeds, and a factor for each seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.curves import Floats
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.few_seeds import Interval
from nitro_experiments.statistics.results import Results
from nitro_experiments.writing import cells

LAWS = {"one step": 1.0, "bounded movement": 0.5}
"""The power of 1 + N / I by law."""

_FEWEST_NUMBERS, _FEWEST_SEEDS = 3, 3  # With two numbers every law fits; an interval needs several seeds.
_NOISES = np.geomspace(0.01, 1e5, 3001)
_MOST_ACTORS = 1024
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Fit:
    """A law fitted to rounds by number of actors.

    Attributes:
        noise: N.
        rounds: by the law, f64 [n], the geometric mean over seeds.
        error: root mean square of the law's relative error over the numbers of actors.
    """

    noise: float
    rounds: Floats
    error: float


@dataclass(frozen=True)
class GainShape:
    """Rounds to the target by number of actors.

    Attributes:
        actors: the fixed numbers, ascending, f64 [n].
        variants: their variants, in the same order.
        rounds: of each run that reached the target with all of them, f64 [seeds, n].
    """

    actors: Floats
    variants: list[str]
    rounds: Floats

    @classmethod
    def of(cls, results: Results, experiment: Experiment) -> Self | None:
        """The shape that the finished runs show.

        None where there is no target, where fewer than three numbers of actors were run or one of them by
        several variants, and where fewer than three seeds reached the target after their first round.
        """
        target = results.target
        if target is None:
            return None
        actors = {name: float(results.runs[name][0].columns["actors"][0]) for name in results.fixed}
        variants = sorted(actors, key=actors.__getitem__)
        if len(variants) < _FEWEST_NUMBERS or len(set(actors.values())) < len(variants):
            return None
        curves = [results.curves(name, experiment.score, "rounds") for name in variants]
        rounds = np.array([[curve.reaches(target, np.inf) for curve in column] for column in curves]).T
        rounds = rounds[(np.nan_to_num(rounds) > 0).all(axis=1)]
        if len(rounds) < _FEWEST_SEEDS:
            return None
        return cls(np.array([actors[name] for name in variants]), variants, rounds)

    def fits(self) -> dict[str, Fit]:
        """Each law, fitted to all seeds."""
        return {law: _fit(np.log(self.rounds), self.actors, power) for law, power in LAWS.items()}

    def noise(self, power: float) -> Interval:
        """N with its interval over seeds, by the jackknife of its logarithm."""
        logs, count = np.log(self.rounds), len(self.rounds)
        full = np.log(_fit(logs, self.actors, power).noise)
        without = [
            np.log(_fit(np.delete(logs, seed, axis=0), self.actors, power).noise) for seed in range(count)
        ]
        mean = few_seeds.mean(count * full - (count - 1) * np.array(without))
        return Interval(float(np.exp(full)), float(np.exp(mean.low)), float(np.exp(mean.high)), mean.p)


def _fit(logs: Floats, actors: Floats, power: float) -> Fit:
    """Least squares of log rounds, f64 [seeds, n]. A factor for each seed leaves only the means to fit."""
    means = logs.mean(axis=0)
    laws = power * np.log1p(_NOISES[:, None] / actors)
    laws += (means.mean() - laws.mean(axis=1))[:, None]
    errors = ((laws - means) ** 2).mean(axis=1)
    best = int(errors.argmin())
    return Fit(float(_NOISES[best]), np.exp(laws[best]), float(np.sqrt(errors[best])))


def table(results: Results, experiment: Experiment) -> Iterator[str]:
    """The lines of the section; none where there is no shape."""
    shape = GainShape.of(results, experiment)
    if shape is None:
        return
    yield "### Gain by number of actors\n"
    yield (
        f"Rounds that each fixed number of actors took to a return of {results.target:g}, over the "
        f"{len(shape.rounds)} seeds that reached it with all of them, and what two laws give. N is the "
        "gradient noise scale in rollouts, as it would have to be; it is fitted to the measured rounds.\n"
    )
    noises = {law: shape.noise(power) for law, power in LAWS.items()}
    heads = [f"{law}, N = {cells.interval(noise)}" for law, noise in noises.items()]
    yield from cells.head(["actors in every round", "rounds", *heads], texts=0)
    fits = shape.fits()
    for index, count in enumerate(shape.actors):
        measured = cells.interval(few_seeds.mean(shape.rounds[:, index]))
        yield cells.line(
            [f"{count:.0f}", measured, *(cells.number(fit.rounds[index]) for fit in fits.values())]
        )
    errors = (f"{law} {100 * fit.error:.1f} %" for law, fit in fits.items())
    yield f"\nError of the laws, root mean square: {', '.join(errors)}.\n"


def best_number(results: Results, experiment: Experiment) -> Iterator[str]:
    """What the better law says of a price list: the number of actors that costs least to the target.

    Args:
        results: with the list's modelled costs.
        experiment: says the score.
    """
    shape = GainShape.of(results, experiment)
    if shape is None:
        return
    law, fit = min(shape.fits().items(), key=lambda item: item[1].error)
    costs = np.array([_cost_of_a_round(results, name) for name in shape.variants])
    per_actor, base = np.polyfit(shape.actors, costs, 1)
    # Actors cost nothing where machines are paid for whatever they do.
    if per_actor <= 0 or per_actor * shape.actors[-1] < _NEGLIGIBLE * base:
        return
    counts = np.arange(1.0, _MOST_ACTORS + 1)

    def to_target(actors: Floats) -> Floats:
        return np.asarray((base + per_actor * actors) * (1 + fit.noise / actors) ** LAWS[law])

    best = counts[to_target(counts).argmin()]
    saved = 100 * (1 - to_target(best) / to_target(shape.actors))
    low, high = shape.actors[0], shape.actors[-1]
    beyond = "" if low <= best <= high else f" (beyond the {low:.0f} to {high:.0f} that were run)"
    numbers = ", ".join(f"{count:.0f}" for count in shape.actors)
    yield (
        f"A round costs {cells.dollars(float(base))} and {cells.dollars(float(per_actor))} for each actor, "
        f"so K is {base / per_actor:,.1f}. With that, and the law {law} with N = {cells.number(fit.noise)} "
        f"(see gain by number of actors above), {best:.0f} actors{beyond} in every round are "
        f"cheapest to the target. Against {numbers} actors that saves "
        f"{', '.join(f'{share:.1f} %' for share in saved)}.\n"
    )


def _cost_of_a_round(results: Results, variant: str) -> float:
    """Modelled dollars of a round, the mean over the variant's runs."""
    runs = results.runs[variant]
    return float(np.mean([run.columns["modelled_cost"][-1] / len(run.columns["round"]) for run in runs]))
