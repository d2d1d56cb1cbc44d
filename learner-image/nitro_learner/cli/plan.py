"""Say how long a job takes, what it costs, and with how many actors, before it runs.

It trains the job for at most half a minute on this machine, in a folder that goes afterwards. From that it
models the job's rounds with actors as processes here, as pods on Knative and as Lambda functions, and, for
comparison, as a fixed pool of pods. A learner elsewhere counts as fast as here, and an actor as fast as one
core here. Prices are spec.pricing's.

With --from it trains nothing: it takes the rounds of earlier runs.

examples:
  nitro plan examples/hopper.yaml
  nitro plan job.yaml --set spec.scaling.maxActors=64
  nitro plan examples/hopper.yaml --from runs/hopper
  nitro plan --from runs/seed-1,runs/seed-2,runs/seed-3 --return 2000
  nitro plan job.yaml --json | jq .choices
"""

import argparse
import json
from pathlib import Path

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import add_set, refused, some_path
from nitro_learner.cli.exits import DONE, FAILED, CommandError

_OTHER_WAY = (
    "To plan all the same, train a few rounds where the environment works, or with more time "
    "(`nitro train JOB --set spec.stop.rounds=5`, or the job on its cluster), and give the run folder: "
    "`nitro plan JOB --from RUN`."
)


def some_paths(text: str) -> list[Path]:
    """The type of an option that names folders, with commas between them."""
    return [some_path(part) for part in text.split(",")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job",
        type=some_path,
        nargs="?",
        metavar="JOB.yaml",
        help="job file; with --from by default the job of the first run",
    )
    add_set(parser)
    parser.add_argument(
        "--from",
        dest="runs",
        type=some_paths,
        metavar="RUN[,RUN…]",
        help="plan by the rounds of these runs, and train nothing",
    )
    parser.add_argument(
        "--return",
        dest="target",
        type=float,
        metavar="R",
        help="say when each run of --from reached this mean return in an evaluation",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run(arguments: argparse.Namespace) -> int:
    from nitro_api import JobInvalid

    # Imported only now: it loads torch, which takes seconds.
    from nitro_learner.studies.planning import view
    from nitro_learner.studies.planning.measuring import planned, planned_from
    from nitro_learner.studies.planning.probe import ProbeFailed
    from nitro_learner.training.failures import TrainingFailed

    if arguments.job is None and not arguments.runs:
        raise CommandError("give a job file, or runs with --from")
    if arguments.target is not None and not arguments.runs:
        raise CommandError("--return asks when runs reached a return: name them with --from")
    interrupts.orderly()
    job, overrides, runs = arguments.job, arguments.overrides, arguments.runs
    try:
        plan = planned_from(job, overrides, runs, arguments.target) if runs else planned(job, overrides)
    except JobInvalid as error:
        raise refused(f"{job or runs[0]} is not a valid job:", error) from None
    except (ProbeFailed, TrainingFailed) as error:
        raise CommandError(f"{error}\n{_OTHER_WAY}", FAILED) from None
    if arguments.json:
        print(json.dumps(plan.to_dict()))
    else:
        print("\n".join([view.table(plan), "", view.notes(plan), view.advice(plan)]))
    return DONE
