"""Where the numbers of a report come from: which runs, on which machine, and how they are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.curves import UNITS
from nitro_experiments.statistics.results import Line


def made_by(machines: Sequence[Mapping[str, Any]], experiment: Experiment, finished: Sequence[Line]) -> str:
    """The machines, and what the finished runs took."""
    seconds = sum(float(row["seconds"]) for row in finished)
    planned = len(experiment.seeds) * len(experiment.compared) * max(1, len(experiment.environments))
    descriptions = [
        f"{machine.get('cluster') or '{processor} ({cores} cores)'.format(**machine)}{_gpu(machine)}, "
        f"Python {machine['python']}, "
        + ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        for machine in machines
    ]
    # A run of this machine keeps one core busy; one of a cluster, a learner and its actors.
    unit = "hours" if any("cluster" in machine for machine in machines) else "core-hours"
    return (
        f"\n{len(finished)} of {planned} runs are finished and took {seconds / 3600:.2f} {unit}, on "
        + ("; and on ".join(descriptions) or "an unknown machine")
        + ".\n"
    )


def _gpu(machine: Mapping[str, Any]) -> str:
    """The learner's GPU, if it had one."""
    return f" with {machine['gpu']}" if "gpu" in machine else ""


def how_to_read(experiment: Experiment) -> Iterator[str]:
    """The last section of a report: what its words mean."""
    budget = experiment.budget
    assert budget is not None
    yield "## How to read this\n"
    yield (
        f"Every run has the same budget, {budget.amount:,.10g} {UNITS[budget.unit]}. Its curve is read "
        "there, by linear interpolation between the rounds before and after. A return lies at what was spent "
        "before its round, because the round samples with the policy that earlier rounds have trained. So "
        "the training return at the budget is that of the last round's episodes.\n"
    )
    yield (
        "Over training means the curve's mean where the curves of all compared runs are known. IQM is the "
        "interquartile mean. P is the probability that a run of the first scores higher than a run of the "
        "second.\n"
    )
    yield (
        "Intervals are 95 % by Student's t over seeds, each for itself; differences are paired by seed. "
        "Verdicts of one table are corrected together by Holm's method, so that the chance of a wrong one "
        "among them is at most 5 %."
    )
