"""Show all jobs of a cluster, live: phase, round, progress, return and its trend, actors, cost.

ACTORS are the ready ones of those granted, POLICIES those of jobs of several agents. Where actors sleep while
the learner learns, AWAKE, ASLEEP and DEFERRED (to wake, but without room) count them, STARTING and DRAINING
their pods. Columns give way to a narrow terminal. Without a terminal, or with --once, the table is printed
once. Ctrl-C ends it.

examples:
  nitro top
  nitro top --namespace team-a --interval 5
  nitro top --json | jq '.[] | select(.phase == "Running")'
  kubectl nitro top
"""

import argparse
import json
import math
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import add_namespace, cluster_asked
from nitro_learner.cli.exits import DONE, CommandError

_PLAIN_WIDTH = 180
"""Without a terminal nothing has to give way."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_namespace(parser, default="all namespaces")
    parser.add_argument(
        "--interval", type=_seconds, default=2.0, metavar="SECONDS", help="time between looks; default: 2"
    )
    parser.add_argument("--once", action="store_true", help="print the table once")
    parser.add_argument("--json", action="store_true", help="print the jobs once, as JSON")


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.live import Live

    from nitro_learner.cluster.jobs import list_jobs
    from nitro_learner.run.views.top import Row, table

    def look() -> list[Row]:
        now = datetime.now(UTC)
        with cluster_asked():
            return [Row.of(job, now) for job in list_jobs(arguments.namespace)]

    rows = look()
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return DONE
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else _PLAIN_WIDTH)
    if arguments.once or not terminal:
        console.print(table(rows, console.width))
        return DONE
    interrupts.orderly()
    with Live(table(rows, console.width), console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(arguments.interval)
                note = ""
                try:
                    rows = look()
                except CommandError as error:  # keep the last table, marked as old
                    note = f"{datetime.now():%H:%M:%S}: {error}"
                live.update(table(rows, console.width, note), refresh=True)
        except KeyboardInterrupt:
            pass
    console.print(table(rows, console.width))
    return DONE


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan  # within no limits
    if not 0.5 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not within 0.5 to 3600 seconds")
    return value
