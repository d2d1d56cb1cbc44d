"""The part of a report that tells of the search: its best trial, its trials and its picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.curves import UNITS
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.search import search_figures
from nitro_experiments.search.study import FIRST_STEP, STARTUP_TRIALS, STEPS, SearchStudy, Trial
from nitro_experiments.search.trials import nested, own_settings
from nitro_experiments.writing import cells
from nitro_experiments.writing.figures import TITLES
from nitro_learner.run.rundir import write_text

_MOST_ROWS = 50


def write(folder: ExperimentDir, experiment: Experiment, study: SearchStudy) -> str:
    """Draw the picture, write trials.csv, and return the text of the search's part of the report."""
    trials = [trial for trial in study.trials() if trial.state != "running"]
    write_text(folder.trials, cells.csv_text(_rows(trials)))
    return "\n".join(_text(folder, experiment, study, trials))


def _text(
    folder: ExperimentDir, experiment: Experiment, study: SearchStudy, trials: Sequence[Trial]
) -> Iterator[str]:
    search, budget = experiment.search, experiment.budget
    assert search is not None
    assert budget is not None
    yield "## The search\n"
    count = Counter(trial.state for trial in trials)
    counts = ", ".join(f"{count[state]} {state}" for state in ("complete", "pruned", "failed"))
    seconds, dollars = (
        sum(trial.spent.get(name, 0.0) for trial in trials) for name in ("seconds", "dollars")
    )
    yield (
        f"{len(trials)} of {search.trials} trials have ended ({counts}). "
        f"They took {seconds / 3600:.2f} core-hours and ${dollars:.4f}. "
        f"{_runs(search.seeds)} Optuna's TPE sampler proposes the settings, at random until "
        f"{STARTUP_TRIALS} trials have ended (complete or pruned)."
    )
    if search.prune:
        yield (
            f"A trial is pruned where its best score so far is below the median of the complete trials' at "
            f"equal spending. That is compared at every {STEPS}th part of a run's budget, here of "
            f"{budget.amount / STEPS:,.10g} {UNITS[budget.unit]}, from part {FIRST_STEP} and from "
            f"{STARTUP_TRIALS} complete trials on."
        )
    yield ""
    if not any(trial.score is not None or trial.reached for trial in trials):
        yield "No trial has a score yet.\n"
        return
    own = own_trial(experiment, trials)
    picture = folder.path / "figures" / "search.png"
    number = None if own is None else own.number
    search_figures.draw(trials, search.space, number, TITLES[experiment.score], picture)
    yield f"![Scores of the trials]({picture.relative_to(folder.path)})\n"
    best = study.best()
    if best is not None:
        yield from _best(best, own)
    importances = study.importances()
    if importances:
        yield "### Importances\n"
        yield "How much of the differences between complete trials each field explains, by PED-ANOVA.\n"
        yield from cells.head(["field", "share"])
        yield from (cells.line([f"`{name}`", f"{share:.0%}"]) for name, share in importances.items())
        yield ""
    yield from _table(trials, list(search.space))


def opening(study: SearchStudy) -> str:
    """What a report opens with where there is nothing to compare."""
    if study.best() is None:
        return "- **Nothing is known yet**: no trial has a score."
    return "- **No trial was better than the job's own settings.** Keep your settings."


def _runs(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"Each is one run with the seed {seeds[0]} and the whole budget."
    named = ", ".join(map(str, seeds))
    return f"Each is {len(seeds)} runs with the whole budget, by the seeds {named}; its score is their mean."


def own_trial(experiment: Experiment, trials: Sequence[Trial]) -> Trial | None:
    """The trial with the job's own settings; None where these lie outside of the space."""
    settings = own_settings(experiment)
    return next((trial for trial in trials if settings and trial.settings == settings), None)


def _best(best: Trial, own: Trial | None) -> Iterator[str]:
    yield f"### Best: trial {best.number}\n"
    if own is not None and own.number == best.number:
        yield (
            f"The job's own settings have the highest score, {cells.number(best.score or 0.0)}: no trial was "
            "better, so there is nothing to compare.\n"
        )
        return
    before = ""
    if own is not None and own.score is not None:
        before = f"; the job's own settings, trial {own.number}, have {cells.number(own.score)}"
    yield (
        f"Its score is {cells.number(best.score or 0.0)}{before}. The highest of many scores "
        "flatters its settings. What they gain is the difference below, which is of fresh seeds.\n"
    )
    yield "To use the settings, put them into the job:\n"
    yield f"```yaml\n{yaml.safe_dump(nested(best.settings), sort_keys=False).rstrip()}\n```\n"


def _table(trials: Sequence[Trial], fields: Sequence[str]) -> Iterator[str]:
    yield "### Trials\n"
    shown = trials
    if len(trials) > _MOST_ROWS:
        rank = sorted(trials, key=lambda trial: -(trial.score if trial.score is not None else float("-inf")))
        shown = rank[:_MOST_ROWS]
        yield f"The best {_MOST_ROWS}; `trials.csv` has all {len(trials)}.\n"
    short = [field.rpartition(".")[2] for field in fields]
    titles = short if len(set(short)) == len(short) else [field.removeprefix("spec.") for field in fields]
    yield from cells.head(["trial", *titles, "score", "", "rounds", "cost"])
    for trial in shown:
        values = [_setting(trial.settings[field]) for field in fields]
        rounds, cost = trial.spent.get("rounds"), trial.spent.get("dollars")
        score = "-" if trial.score is None else cells.number(trial.score)
        yield cells.line(
            [
                str(trial.number),
                *values,
                score,
                _how(trial),
                "-" if rounds is None else f"{rounds:,.0f}",
                "-" if cost is None else f"${cost:.4f}",
            ]
        )
    yield ""


def _how(trial: Trial) -> str:
    """What ended a trial early; empty for a complete one."""
    if trial.reached:
        part, score = trial.reached
        return f"pruned at {part:.0%} with {cells.number(score)}"
    return f"failed: {trial.message.splitlines()[0][:120]}" if trial.state == "failed" else ""


def _setting(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _rows(trials: Sequence[Trial]) -> Iterator[Mapping[str, Any]]:
    """The lines of trials.csv."""
    for trial in trials:
        yield {
            "trial": trial.number,
            "state": trial.state,
            **trial.settings,
            "score": trial.score,
            "pruned_at": trial.reached[0] if trial.reached else None,
            "pruned_score": trial.reached[1] if trial.reached else None,
            **{name: trial.spent.get(name) for name in ("rounds", "dollars", "seconds")},
            "message": trial.message,
        }
