"""Compare variants of a job over seeds to the same budget, or search for better settings, and report.

`run` trains what is not trained yet, and then writes the report. `report` writes the report of what is
finished. The --help of each has more examples.

The file says what it shows, the base job, the variants, the seeds and the budget: see experiments/ and
docs/experiments.md. In place of variants it can have a search: trials with settings that Optuna proposes, and
the best of them compared with the job's own settings on fresh seeds.

examples:
  nitro experiment run experiments/paper-small.yaml
  nitro experiment run experiments/search-cartpole.yaml
  nitro experiment report runs/paper-small
"""

from __future__ import annotations

import argparse
import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_learner.cli.common import add_namespace, add_set, refused, some_path
from nitro_learner.cli.exits import DONE, FAILED, CommandError

if TYPE_CHECKING:
    from nitro_experiments.planning.plan import PlannedRun
    from nitro_experiments.planning.spec import Experiment

_RUN = """\
Train what is not trained yet, and then write the report.

As many runs train at a time as there are cores, or with --cluster four. It can be stopped at any moment (also
by kill -9) and goes on when it is called again.

examples:
  nitro experiment run experiments/paper-small.yaml
  nitro experiment run experiments/paper-small.yaml --set seeds='[0, 1, 2]' --dir runs/three
  nitro experiment run experiments/paper-small.yaml --cluster --namespace team-a
  nitro experiment run experiments/long-budgets.yaml --only 'Hopper-v5/fixed-4*/seed-[01]'
  nitro experiment run experiments/search-cartpole.yaml --jobs 2
  nitro experiment run experiments/search-cartpole.yaml --set search.trials=40     # 20 more trials
"""
_REPORT = """\
Write the report of what is finished: report.md with tables and pictures, report.html as one file with all of
it, runs.csv and curves.csv. It opens with the answer.

examples:
  nitro experiment report runs/paper-small
  nitro experiment report runs/paper-small --into experiments/results/paper-small.md
  nitro experiment report runs/boosting-small --prices experiments/prices/*.yaml --busy
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    as_above: Any = {"epilog": parser.epilog, "formatter_class": parser.formatter_class}
    run = actions.add_parser("run", help="train what is missing, then report", description=_RUN, **as_above)
    run.add_argument("spec", type=some_path, metavar="SPEC.yaml", help="the experiment")
    run.add_argument("--dir", type=some_path, metavar="D", help="folder of the results; default: runs/NAME")
    run.add_argument(
        "--jobs", type=int, metavar="N", help="runs at a time; default: one per core, on a cluster 4"
    )
    run.add_argument(
        "--cluster",
        action="store_true",
        help="train each run as a job of the cluster that kubectl uses, then copy its files",
    )
    add_namespace(run)
    run.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="train now only runs whose ENVIRONMENT/VARIANT/seed-SEED matches; several give the order",
    )
    run.add_argument("--json", action="store_true", help="print one JSON object per change")
    add_set(run)
    report = actions.add_parser(
        "report", help="write the report of what is finished", description=_REPORT, **as_above
    )
    report.add_argument("dir", type=some_path, metavar="DIR", help="folder of the results")
    report.add_argument(
        "--into",
        type=some_path,
        metavar="PAGE.md",
        help="also put it into this page: between this experiment's markers, or as a new page",
    )
    report.add_argument(
        "--prices",
        type=some_path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="price lists: also say what the runs would have cost by them (see experiments/prices/)",
    )
    report.add_argument(
        "--busy",
        action="store_true",
        help="the machine did other work beside the runs: leave out what they cost by its clock",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "run":
        return _run(arguments)
    return _report(arguments.dir, arguments.into, arguments.prices, arguments.busy)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.jobs is not None and arguments.jobs < 1:
        raise CommandError(f"--jobs {arguments.jobs}: at least 1")
    if arguments.namespace and not arguments.cluster:
        raise CommandError(f"--namespace {arguments.namespace}: needs --cluster")
    experiment, runs = _read(arguments.spec, arguments.overrides)
    trained = chosen(runs, arguments.only)
    # Imported only now that the input was found to be good.
    from nitro_experiments.cli.experiment_run import run_experiment

    return run_experiment(arguments, experiment, trained)


def _read(path: Path, overrides: list[str]) -> tuple[Experiment, list[PlannedRun]]:
    """The experiment, and its runs; of a search there are none before it has ended."""
    from nitro_api import JobInvalid
    from nitro_experiments.planning.plan import plan
    from nitro_experiments.planning.spec import load
    from nitro_experiments.search import trials

    try:
        experiment = load(path, overrides)
        if experiment.search:
            trials.check(experiment)
        return experiment, plan(experiment)
    except JobInvalid as error:
        raise refused(f"{path} is not a valid experiment:", error) from None


def chosen(runs: list[PlannedRun], patterns: list[str]) -> list[PlannedRun]:
    """The runs that match a pattern, in the patterns' order; each control after its sources. All without a
    pattern."""
    from nitro_api.schema.wording import nearest

    if not patterns:
        return runs
    selected: dict[str, PlannedRun] = {}
    for pattern in patterns:
        matching = [run for run in runs if fnmatch.fnmatchcase(run.label.removeprefix("runs/"), pattern)]
        if not matching:
            close = nearest(pattern, [run.label.removeprefix("runs/") for run in runs])
            remedy = f"did you mean {close}?" if close else f"one is {runs[0].label.removeprefix('runs/')}"
            raise CommandError(f"--only {pattern}: matches no run's ENVIRONMENT/VARIANT/seed-SEED; {remedy}")
        for run in matching:
            for planned in (*run.sources, run):
                selected.setdefault(planned.label, planned)
    return list(selected.values())


def _report(path: Path, page: Path | None, listed: list[Path], busy: bool) -> int:
    from nitro_api import JobInvalid
    from nitro_experiments.reading.folder import ExperimentDir

    folder = ExperimentDir(path)
    if not folder.spec.exists():
        raise CommandError(f"{path} holds no experiment (it has no {folder.spec.name})")
    folder.check_ours()
    experiment, runs = _read(folder.spec, [])
    if not (runs or experiment.search):
        raise CommandError(f"{path}: this experiment has no runs to report; its commands say what they made")
    if busy and experiment.budget and experiment.budget.unit == "dollars":
        message = "cannot leave out measured costs, because the budget is in dollars; report without it"
        raise CommandError(f"--busy: {message}")
    from nitro_experiments.reading import price_list
    from nitro_experiments.search import comparison
    from nitro_experiments.writing import experiment_report

    prices = []
    for file in listed:
        try:
            prices.append(price_list.load(file))
        except JobInvalid as error:
            raise refused(f"{file} is not a valid price list:", error) from None
    try:
        text = comparison.report(folder, experiment, prices, busy=busy)
        if page is not None:
            experiment_report.insert(text, folder, experiment.name, page)
    except OSError as error:
        raise CommandError(f"{error.filename or page or folder.path}: {error.strerror}", FAILED) from None
    print(page or folder.report)
    return DONE
