"""Follow a job of a cluster: its rounds as `nitro train` shows them, what it waits for, and its end.

What is shown comes from the job's status: the last 60 rounds and each new one. Ctrl-C stops following with
exit code 75, and the job goes on. Exit code 0 says that the job has succeeded, 1 that it has failed or was
deleted.

examples:
  nitro follow hopper
  nitro follow hopper --namespace team-a --context staging
  nitro follow hopper && nitro report hopper
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from typing import TYPE_CHECKING

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import add_context, add_namespace, cluster_asked
from nitro_learner.cli.exits import DONE, FAILED, INTERRUPTED, CommandError

if TYPE_CHECKING:
    from nitro_api import JobStatus
    from nitro_learner.cluster.handle import ClusterJob
    from nitro_learner.run.views.table import LiveTable, PlainLines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="NAME", help="name of the job")
    add_namespace(parser)
    add_context(parser)


def run(arguments: argparse.Namespace) -> int:
    from nitro_learner.cluster.handle import ClusterJob

    with cluster_asked():
        return follow(ClusterJob(arguments.job, namespace=arguments.namespace, context=arguments.context))


def command(job: ClusterJob) -> str:
    """The command that follows a job."""
    words = ["nitro", "follow", job.name, "--namespace", job.namespace]
    return shlex.join([*words, *(["--context", job.context] if job.context else [])])


def follow(job: ClusterJob) -> int:
    """Show a job until it has ended, and return the exit code.

    Raises:
        ClusterError: the cluster does not answer, or the job was deleted.
        CommandError: the job failed.
    """
    from nitro_learner.cluster.handle import failure

    interrupts.orderly()
    try:
        status = _shown(job)
    except KeyboardInterrupt:
        print(f"the job goes on. To follow it again: {command(job)}", file=sys.stderr)
        return INTERRUPTED
    training, cost = status.training, status.cost
    if status.phase == "Failed":
        more = shlex.join(["kubectl", "describe", "ntj", job.name, "--namespace", job.namespace])
        raise CommandError(f"{failure(job.name, status)}\nmore: {more}", FAILED)
    print(f"done: {(training and training.message) or 'the job has succeeded'}")
    if training and training.evaluation_mean is not None:
        print(f"final return {training.evaluation_mean:.1f} with mean actions")
    if cost and cost.total is not None:
        print(f"cost ${cost.total:.4f} (learner ${cost.learner or 0:.4f}, actors ${cost.actors or 0:.4f})")
    return DONE


def _shown(job: ClusterJob) -> JobStatus:
    """Show rounds and waits until the job has ended; its last status."""
    from nitro_api import JobInvalid, JobStatus
    from nitro_learner.cluster.handle import SeenRounds
    from nitro_learner.run.views.table import LiveTable, PlainLines, note, reported

    rounds, seen, status, before = None, SeenRounds(), JobStatus(), ""
    with contextlib.suppress(JobInvalid):  # another release may have made it
        rounds = job.job.spec.stop.rounds
    with contextlib.ExitStack() as stack:
        view: LiveTable | PlainLines = PlainLines(stages=False)
        if sys.stdout.isatty():
            view = stack.enter_context(LiveTable(stages=False))
        for status in job.looks():
            for entry in seen.take(status):
                cut = status.training.cut_share if status.training else None
                view.show(reported(entry, status, rounds), note(entry.reward_mean, cut))
            state = _state(status)
            if state != before:
                view.does(state)
                before = state
        view.does("")
    return status


def _state(status: JobStatus) -> str:
    """What the job does now, or waits for."""
    from nitro_learner.cluster.handle import condition_of

    if status.phase is None:
        return "Pending: no operator has looked at it yet; does one run?"
    ready = condition_of(status, "Ready")
    if ready is None or ready.status == "True" or not ready.message:
        return status.phase
    return f"{status.phase}: {ready.message}"
