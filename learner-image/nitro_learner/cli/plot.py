"""Draw a run folder: return, length of episodes, how well the learner learns, and cost beside the actors,
over environment steps and over time.

Several folders are compared by return, boosting score, actors and cost. Runs of one job become one curve,
mean and one standard deviation: they may differ in spec.seed, spec.backend, spec.actor, spec.learner,
spec.suspend and spec.stop. Runs of different spec.stop.rounds are curves of their own where training depends
on it, as with learningRateAnneal. Each environment has its own panel of returns.

With --pods: what the actor pods of one job did beside the phases of its learner. Of a job on the cluster each
pod is a bar: the command watches them until the job has none left, or until Ctrl-C, and needs the right to
list pods. Of a run folder it draws the CPU that the pods of each round requested, from its ledger.

examples:
  nitro plot runs/hopper-20260101-120000                    # writes result.png into it
  nitro plot runs/nitro-* runs/fixed-* --out compared.png
  nitro plot runs/nitro-* runs/fixed-* --x dollars          # what the same money buys
  nitro plot --pods hopper --namespace team-a               # writes pods.png when the job is over
  nitro plot --pods runs/hopper-20260101-120000             # writes pods.png into it
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import (
    add_namespace,
    add_run_or_job,
    check_picture,
    distinct,
    job_asked,
    run_folder,
    some_path,
    some_text,
    unnamed,
    writing,
)
from nitro_learner.cli.exits import DONE, CommandError
from nitro_learner.run.views.plot_axes import X_AXES

if TYPE_CHECKING:
    from nitro_learner.run.views.pod_lives import JobPods

_PICTURE = "pods.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=some_text, nargs="+", help="run folder; with --pods also a job's name")
    parser.add_argument("--pods", action="store_true", help="draw the actor pods of one run, or of one job")
    add_namespace(parser)
    add_run_or_job(parser)
    parser.add_argument(
        "--x",
        choices=tuple(X_AXES),
        default=next(iter(X_AXES)),
        help="x axis of the left column; that of the right one is time (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=some_path,
        help="picture (.png, .svg or .pdf); default: result.png in the folder, compared.png for several, "
        "with --pods pods.png",
    )


def run(arguments: argparse.Namespace) -> int:
    check_picture(arguments.out)
    if arguments.pods:
        return _draw_pods(arguments)
    if arguments.namespace is not None:
        raise CommandError("--namespace is for the pods of a job: add --pods, or leave it out")
    from nitro_learner.run.rundir import RunDir
    from nitro_learner.run.views.plot import draw_curves
    from nitro_learner.run.views.plot_groups import group, read_run, same_seeds

    runs = distinct([Path(run) for run in arguments.run])
    out = arguments.out or (runs[0] / "result.png" if len(runs) == 1 else unnamed(Path("compared.png")))
    groups = group([read_run(RunDir(path)) for path in runs])
    for message in same_seeds(groups.values()):
        print(f"nitro: {message}", file=sys.stderr)
    with writing("--out", out, "Name a file that you may write."):
        print(draw_curves(groups, out, arguments.x))
    return DONE


def _draw_pods(arguments: argparse.Namespace) -> int:
    """Draw what the actor pods of a run, or of a job on the cluster, did."""
    if len(arguments.run) > 1:
        raise CommandError(f"--pods draws one run or job at a time, and {len(arguments.run)} are given")
    if arguments.x != "steps":
        raise CommandError("--x is for returns: the axis of pods is time; leave it or --pods out")
    (given,) = arguments.run
    folder = run_folder(given, arguments)
    if folder is None:
        return _draw_job_pods(given, arguments)
    from nitro_learner.run.rundir import RunDir
    from nitro_learner.run.views.pod_bars import draw_sums

    out = arguments.out or folder / _PICTURE
    with writing("--out", out, "Name a file that you may write."):
        print(draw_sums(RunDir(folder), out))
    return DONE


def _draw_job_pods(name: str, arguments: argparse.Namespace) -> int:
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
    from nitro_learner.cluster.jobs import ClusterError, NamespaceJobs, looks
    from nitro_learner.run.views.pod_lives import JobPods

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
