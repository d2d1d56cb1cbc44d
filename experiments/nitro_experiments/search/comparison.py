"""The study in an experiment's folder, and the comparison of its best trial with the job's own settings."""

from __future__ import annotations

from collections.abc import Sequence

from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import DEFAULT, Experiment
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.reading.price_list import PriceList
from nitro_experiments.search import search_report
from nitro_experiments.search.study import SearchStudy
from nitro_experiments.search.trials import name_of, own_settings
from nitro_experiments.writing import experiment_report
from nitro_learner.run.same_job import deciding


def open_study(folder: ExperimentDir, experiment: Experiment) -> SearchStudy:
    """The search's study; a new one where there is none.

    Raises:
        OtherJob: it is that of other settings.
        RunDirError: it is damaged.
    """
    search, budget = experiment.search, experiment.budget
    assert search is not None
    assert budget is not None
    job = plan(experiment.comparing(DEFAULT, {}))[0].job.to_dict()["spec"]
    fields = {f"spec.{path}": value for path, value in deciding(job).items() if path != "seed"}
    given = search.to_dict()
    about = {f"search.{name}": given[name] for name in ("space", "seeds", "prune")}
    settings = {**fields, **about, "budget": budget.to_dict(), "score": experiment.score}
    return SearchStudy(folder.search, search, settings)


def compared(experiment: Experiment, study: SearchStudy) -> Experiment | None:
    """The experiment that compares the best trial with the job's own settings; None where there is no such
    trial, or where it is the one with these settings."""
    best = study.best()
    if best is None or best.settings == own_settings(experiment):
        return None
    return experiment.comparing(name_of(best.number), dict(best.settings))


def report(
    folder: ExperimentDir, experiment: Experiment, prices: Sequence[PriceList] = (), *, busy: bool = False
) -> str:
    """Write the report of an experiment, with or without a search, and return its text.

    The arguments are those of experiment_report.write.

    Raises:
        RunDirError: there is nothing to report yet, or the search's study cannot be used.
    """
    if experiment.search is None:
        return experiment_report.write(folder, experiment, prices, busy=busy)
    study = open_study(folder, experiment)
    searched = search_report.write(folder, experiment, study)
    comparison = compared(experiment, study)
    opening = "" if comparison else search_report.opening(study)
    nothing = experiment.model_copy(update={"search": None, "seeds": []})
    return experiment_report.write(
        folder, comparison or nothing, prices, opening=opening, searched=searched, busy=busy
    )
