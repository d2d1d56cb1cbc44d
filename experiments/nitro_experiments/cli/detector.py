"""How good the boosting detector is on a run, and how good the other statistics are that a scaler could use.

Reliability: rounds are sampled again from their checkpoints, several times, and measured as the scaler
measured them. The report has the split-half rank correlation, the intraclass correlation (between rounds, and
between the changes from one measured round to the next), and the share of a measurement's variance that is
sampling noise.

Foresight: the rank correlation with what the next round improved, from the run's own metrics.

Gain (--gain): after each of these rounds the run is continued with minActors and with --factor times as many
in the next round; the difference of return some rounds later is what a statistic would have to foretell. A
third branch spends the same actors on further rounds instead. A second table adds up the gains of half of
the rounds, by who chooses them: each statistic, chance, or an oracle that knows the gains. Branches are kept
below RUN/detector and not trained again. It takes an on-policy algorithm, whose rounds learn from all of
their actors.

All checkpoints are needed: train with --set spec.learner.checkpoint.keepLast=1000. With several runs only
foresight is reported, averaged over them.

examples:
  nitro detector runs/hopper-20260101-120000
  nitro detector runs/hopper-20260101-120000 --rounds 20 --repeats 4 --gain 5 --ahead 3
  nitro detector runs/paper-small/runs/Hopper-v5/nitro/seed-*
"""

from __future__ import annotations

import argparse
import json

from nitro_api.algorithms.registry import RECORDS
from nitro_learner.cli import interrupts
from nitro_learner.cli.common import distinct, read_run, some_path
from nitro_learner.cli.exits import DONE, FAILED, CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=some_path, nargs="+", help="run folder")
    parser.add_argument(
        "--rounds", type=int, default=10, metavar="N", help="rounds to sample again; default: 10"
    )
    parser.add_argument("--repeats", type=int, default=4, metavar="N", help="times each; default: 4")
    parser.add_argument("--gain", type=int, metavar="SEEDS", help="measure the gain, over so many seeds")
    parser.add_argument("--factor", type=int, default=2, metavar="N", help="times minActors; default: 2")
    parser.add_argument("--ahead", type=int, default=3, metavar="N", help="rounds of a branch; default: 3")
    parser.add_argument("--jobs", type=int, metavar="N", help="branches at a time; default: one per core")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument(
        "--into",
        type=some_path,
        metavar="PAGE.md",
        help="also put a table into this page: between the detector's markers, or as a new page",
    )


def run(arguments: argparse.Namespace) -> int:
    for name, least in (("rounds", 3), ("repeats", 2), ("gain", 2), ("factor", 2), ("ahead", 1), ("jobs", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise CommandError(f"--{name} {value}: at least {least}")
    folders = distinct(arguments.run)
    if arguments.gain and len(folders) > 1:
        raise CommandError("--gain takes one run folder")
    runs = [read_run(path) for path in folders]
    if arguments.gain and runs[0][1].spec.algorithm.anneals:
        raise CommandError(
            f"--gain: the learning rate of {folders[0]} falls to zero over stop.rounds. Branches "
            "stop sooner, so theirs would fall faster; train a run with "
            "--set spec.algorithm.hyperparameters.learningRateAnneal=false"
        )
    if arguments.gain and runs[0][1].spec.algorithm.record.feeding != "rounds":
        others = [
            name for name, record in RECORDS.items() if record.feeding == "rounds" and record.agents == "one"
        ]
        raise CommandError(
            f"--gain: {folders[0]} is a run of {runs[0][1].spec.algorithm.name}, whose rounds end with half "
            "of their actors' fragments, but not with fewer than minActors. A branch with twice as many "
            f"actors would learn from no more; give a run of {' or '.join(others)}"
        )
    # Imported only now: they load torch, which takes seconds.
    from nitro_experiments.quality import detection
    from nitro_experiments.writing.markdown_sections import parts, replace
    from nitro_learner.run import logs
    from nitro_learner.training.failures import TrainingFailed, as_training_failure

    interrupts.orderly()
    logs.configure(structured=False)
    plan = detection.Plan(
        arguments.rounds, arguments.repeats, arguments.gain, arguments.factor, arguments.ahead, arguments.jobs
    )
    try:
        if arguments.into:
            # A page without a place for the table is known before the work is done.
            parts(arguments.into, "detector")
        with as_training_failure():
            result = detection.measure(runs, plan)
        if arguments.into:
            replace(arguments.into, "detector", detection.markdown(result, runs[0][1]))
    except TrainingFailed as error:
        raise CommandError(str(error), FAILED) from None
    print(json.dumps(result) if arguments.json else "\n".join(detection.lines(result)))
    return DONE
