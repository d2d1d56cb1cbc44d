"""Say how long a job takes, what it costs, and with how many actors, before it runs.

It trains the job for at most half a minute on this machine, in a folder that goes afterwards. From that it
models the job's rounds with actors as processes here, as pods on Knative and as Lambda functions, and, for
comparison, as a fixed pool of pods. A learner elsewhere counts as fast as here, and an actor as fast as one
core here. Prices are spec.pricing's.

examples:
  nitro plan examples/hopper.yaml
  nitro plan job.yaml --set spec.scaling.maxActors=64
  nitro plan job.yaml --json | jq .choices
"""

import argparse
import json

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import add_set, refused, some_path
from nitro_learner.cli.exits import DONE, FAILED, CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=some_path, metavar="JOB.yaml", help="job file")
    add_set(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run(arguments: argparse.Namespace) -> int:
    from nitro_api import JobInvalid

    # Imported only now: it loads torch, which takes seconds.
    from nitro_learner.studies.planning import view
    from nitro_learner.studies.planning.measuring import planned
    from nitro_learner.studies.planning.probe import ProbeFailed
    from nitro_learner.training.failures import TrainingFailed

    interrupts.orderly()
    try:
        plan = planned(arguments.job, arguments.overrides)
    except JobInvalid as error:
        raise refused(f"{arguments.job} is not a valid job:", error) from None
    except (ProbeFailed, TrainingFailed) as error:
        raise CommandError(str(error), FAILED) from None
    if arguments.json:
        print(json.dumps(plan.to_dict()))
    else:
        print("\n".join([view.table(plan), "", view.notes(plan), view.advice(plan)]))
    return DONE
