"""`nitro plot --pods`: what the actor pods of a run, or of a job on the cluster, did."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import job_asked, run_folder, unnamed, writing
from nitro_learner.cli.exits import DONE, CommandError

if TYPE_CHECKING:
    from nitro_learner.run.views.job_pods import JobPods

_PICTURE = "pods.png"


def run(arguments: argparse.Namespace) -> int:
    """Draw the pods of the one run that is named."""
    if len(arguments.run) > 1:
        raise CommandError(f"--pods draws one run or job at a time, and {len(arguments.run)} are given")
    if arguments.x != "steps":
        raise CommandError("--x is for returns: the axis of pods is time; leave it or --pods out")
    (given,) = arguments.run
    folder = run_folder(given, arguments)
    if folder is not None:
        return _of_run(folder, arguments.out or folder / _PICTURE)
    return _of_job(given, arguments)


def _of_run(folder: Path, out: Path) -> int:
    from nitro_learner.run.rundir import RunDir, RunDirError
    from nitro_learner.run.views.pod_bars import draw_sums

    try:
        with writing("--out", out, "Name a file that you may write."):
            print(draw_sums(RunDir(folder), out))
    except RunDirError as error:
        raise CommandError(str(error)) from None
    return DONE


def _of_job(name: str, arguments: argparse.Namespace) -> int:
    from nitro_learner.run.views.pod_bars import draw_lives

    out = arguments.out or unnamed(Path(_PICTURE))
    watched = _watch(name, arguments)
    now = time.time()
    lives = watched.lives.spans(now)
    if not lives:
        raise CommandError(
            f"job {name} has no actor pods any more; `nitro plot --pods` with its run folder draws the sums "
            "of its rounds"
            if watched.over
            else f"no actor pod of job {name} was seen on a node yet"
        )
    with writing("--out", out, "Name a file that you may write."):
        print(draw_lives(lives, watched.needs, name, out, end=now))
    return DONE


def _watch(name: str, arguments: argparse.Namespace) -> JobPods:
    """What is seen of the job until it is over or gone, or until Ctrl-C."""
    from nitro_learner.cluster.job_pods_watch import looks
    from nitro_learner.cluster.jobs import ClusterError, NamespaceJobs
    from nitro_learner.run.views.job_pods import JobPods

    watched = JobPods()
    interrupts.orderly()
    with job_asked(name, arguments):
        seen = looks(NamespaceJobs(arguments.namespace), name)
        watched.see(*next(seen), time.time())
        try:
            if not watched.over:
                told = f"nitro: watching the pods of {name}; Ctrl-C draws what was seen"
                print(told, file=sys.stderr, flush=True)
            while not watched.over:
                watched.see(*next(seen), time.time())
        except KeyboardInterrupt:
            pass
        except ClusterError as error:  # deleted with its pods: what was seen is worth a picture
            print(f"nitro: {error}", file=sys.stderr)
    return watched
