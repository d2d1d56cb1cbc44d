"""Check a job and have a cluster train it.

The job is checked as `kubectl nitro validate` checks it; nothing is sent if there is a mistake. --follow
shows its rounds as they end, with the exit codes of `nitro follow`: Ctrl-C stops following, and the job goes
on.

The cluster is that of kubectl, or in a pod the pod's own. The right to create and to get
nitrotrainingjobs.nitro.dev is enough; --code needs the right to create configmaps, too.

examples:
  nitro submit examples/hopper.yaml
  nitro submit examples/hopper.yaml --follow
  nitro submit job.yaml --set metadata.name=job-3 --set spec.seed=3
  nitro submit job.yaml --code my-folder               # with the environment and other parts of your own
  nitro submit job.yaml --namespace team-a --context staging
"""

from __future__ import annotations

import argparse
import sys

from nitro_learner.cli import follow
from nitro_learner.cli.code import add_code, found_code
from nitro_learner.cli.common import (
    add_context,
    add_namespace,
    add_set,
    cluster_asked,
    print_notes,
    refused,
    some_path,
)
from nitro_learner.cli.exits import DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=some_path, metavar="JOB.yaml", help="job file")
    add_set(parser)
    add_code(parser, "it goes to the cluster as a ConfigMap, and its digest becomes spec.code")
    add_namespace(parser, default="the job's, else kubectl's current one")
    add_context(parser)
    parser.add_argument("--follow", action="store_true", help="show the rounds as they end")


def run(arguments: argparse.Namespace) -> int:
    from nitro_api import JobInvalid
    from nitro_learner.cluster.handle import send
    from nitro_learner.studies.job_check import JobCheck

    package = found_code(arguments.code) if arguments.code else None
    digest = [f"spec.code={package.digest}"] if package else []
    check = JobCheck(arguments.job, [*arguments.overrides, *digest], elsewhere=True)
    try:
        job, _ = check.run(applied=False)
        print_notes(arguments.job, check)
        with cluster_asked():
            sent = send(
                job, arguments.namespace, arguments.context, package.config_map() if package else None
            )
    except JobInvalid as error:
        raise refused(f"{arguments.job} is not a valid job:", error) from None
    print(f"job {sent.name} is in namespace {sent.namespace}", flush=True)
    if not arguments.follow:
        print(f"to follow it: {follow.command(sent)}", file=sys.stderr)
        return DONE
    with cluster_asked():
        return follow.follow(sent)
