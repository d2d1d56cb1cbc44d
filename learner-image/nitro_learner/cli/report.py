"""Write the report of a run as one HTML file: the job, the plots, the cost and the versions.

Of a run folder it shows every round; of a job on a cluster what its status holds, the last 60 rounds.
A folder of the given name goes before a job, but not with --namespace or as `kubectl nitro report`: there a
name without a slash is a job's.

examples:
  nitro report runs/hopper-20260101-120000                  # writes report.html into it
  nitro report hopper --namespace team-a --out hopper.html
  kubectl nitro report hopper
"""

import argparse
from pathlib import Path

from nitro_learner.cli.common import (
    add_namespace,
    add_run_or_job,
    job_asked,
    run_folder,
    some_path,
    some_text,
    unnamed,
    writing,
)
from nitro_learner.cli.exits import DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=some_text, help="run folder, or name of a job on the cluster")
    parser.add_argument(
        "-o", "--out", type=some_path, metavar="F", help="default: report.html, in the run folder if any"
    )
    add_namespace(parser)
    add_run_or_job(parser)


def run(arguments: argparse.Namespace) -> int:
    from nitro_learner.run.rundir import write_text
    from nitro_learner.run.views import run_report

    folder = run_folder(arguments.run, arguments)
    if folder is not None:
        report, output = run_report.of_run(folder), arguments.out or folder / "report.html"
    else:
        from nitro_learner.cluster.jobs import get_job

        with job_asked(arguments.run, arguments):
            job = get_job(arguments.run, arguments.namespace)
        report, output = run_report.of_job(job), arguments.out or unnamed(Path("report.html"))
    html = report.html()
    with writing("--out", output, "Name a file that you may write."):
        write_text(output, html)
    print(output)
    return DONE
