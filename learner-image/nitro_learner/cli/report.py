"""Write the report of a run as one HTML file: the job, the plots, the cost and the versions.

Of a run folder it shows every round; of a job on a cluster what its status holds, the last 60 rounds.
A folder of the given name goes before a job, but not with --namespace or as `kubectl nitro report`: there a
name without a slash is a job's.

examples:
  nitro report runs/hopper-20260101-120000                  # writes report.html into it
  nitro report hopper --namespace team-a --out hopper.html
  kubectl nitro report hopper
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from nitro_learner.cli.common import (
    add_namespace,
    cluster_asked,
    some_path,
    some_text,
    unnamed,
    writing,
)
from nitro_learner.cli.exits import DONE, CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=some_text, help="run folder, or name of a job on the cluster")
    parser.add_argument(
        "-o", "--out", type=some_path, metavar="F", help="default: report.html, in the run folder if any"
    )
    add_namespace(parser)
    parser.set_defaults(of_cluster=parser.prog.startswith("kubectl "))


def run(arguments: argparse.Namespace) -> int:
    from nitro_learner.run.rundir import RunDir, RunDirError
    from nitro_learner.views import run_report

    folder, is_path = Path(arguments.run), os.sep in arguments.run
    if is_path and arguments.namespace is not None:
        raise CommandError(
            f"--namespace {arguments.namespace} asks for a job of the cluster, and {folder} is a path: leave "
            "one of them out"
        )
    named = not is_path and (arguments.of_cluster or arguments.namespace is not None)
    try:
        if folder.is_dir() and not named:
            found, output = run_report.of_run(folder), arguments.out or folder / "report.html"
        elif is_path:
            raise CommandError(f"{folder}: no such run folder")
        else:
            from nitro_learner.cluster.jobs import get_job

            try:
                with cluster_asked():
                    job = get_job(arguments.run, arguments.namespace)
            except CommandError as error:
                if named:
                    raise
                raise CommandError(
                    f"there is no folder {folder}, and on the cluster: {error}", error.code
                ) from None
            found, output = run_report.of_job(job), arguments.out or unnamed(Path("report.html"))
        html = found.html()
        with writing("--out", output, "Name a file that you may write."):
            RunDir(output.parent).write_text(output, html)
    except RunDirError as error:
        raise CommandError(str(error)) from None
    print(output)
    return DONE
