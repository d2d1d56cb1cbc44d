"""Check an environment before a training: its interface, its seeds, its values, its ends and its state.

It is built as an actor builds it, in a process of its own. gymnasium's check_env or PettingZoo's
parallel_api_test checks it, and Nitro does: that reset and step return what they should, within their spaces;
that equal seeds give equal episodes; that nothing returned or given is changed afterwards; that episodes end;
whether they go on in the next round, and what that costs. What the time did not suffice for is named.

A fault changes what is learned, and ends this command with exit code 2. Warnings and remarks do not. `nitro
validate` checks the same, and so does `nitro train` before its first round, for a second.

examples:
  nitro check-env examples/hopper.yaml                     # the environment of a job
  nitro check-env my_package.my_module:MyEnv               # an entry point, a class or a function
  nitro check-env CartPole-v1                               # an id, of gymnasium or PettingZoo
  nitro check-env my_package:Maze-v0 --set spec.environment.kwargs.size=9
  nitro check-env job.yaml --seconds 60                    # of a slow environment
  nitro check-env job.yaml --json | jq .faults
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_learner.cli.common import add_set, refused, some_text
from nitro_learner.cli.exits import BAD_INPUT, DONE, CommandError

if TYPE_CHECKING:
    from nitro_api import ResolvedJob
    from nitro_learner.run.checking.report import Report

_ID = re.compile(r".*[-_]v\d+")
"""Names that end in a version are ids, with or without a module; others with a colon are entry points."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "environment", type=some_text, metavar="JOB.yaml|ENTRY_POINT|ID", help="a job file, or an environment"
    )
    add_set(parser)
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="longest time of the check, once the environment is built; default: 10",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    from nitro_api import JobInvalid
    from nitro_learner.studies.environment_start import examined

    given = arguments.environment
    try:
        job = _job(given, arguments.overrides)
    except JobInvalid as error:
        raise refused(f"{given} cannot be checked:", error) from None
    report = examined(job.spec, arguments.seconds)
    name = job.spec.environment.entry_point or job.spec.environment.id
    if arguments.json:
        print(json.dumps(_object(str(name), report)))
    else:
        print("\n".join(_lines(str(name), report)))
    return DONE if report.sound else BAD_INPUT


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds, above 0 and at most 3600")
    return seconds


def _job(given: str, overrides: list[str]) -> ResolvedJob:
    """The job of a file, or one that names an environment.

    Raises:
        CommandError: there is no such file.
        JobInvalid: lists every mistake.
    """
    from nitro_api import load_job, resolve
    from nitro_learner.studies import environment_ids

    path = Path(given)
    source: Any = path
    if not path.is_file():
        if path.suffix in (".yaml", ".yml", ".json") or path.is_dir():
            raise CommandError(f"{given}: no such job file")
        entry = ":" in given and not _ID.fullmatch(given)
        spec: dict[str, Any] = {"environment": {"entryPoint" if entry else "id": given}}
        if environment_ids.of_several_agents(given):
            spec["algorithm"] = {"name": "ippo"}
        source = {
            "apiVersion": "nitro.dev/v1alpha1",
            "kind": "NitroTrainingJob",
            "metadata": {"name": "check"},
            "spec": spec,
        }
    return resolve(load_job(source, overrides, look_up=environment_ids.mistakes))


def _lines(name: str, report: Report) -> list[str]:
    told = [
        *(("fault", text) for text in report.wrong()),
        *(("warning", text) for text in report.warnings),
        *(("remark", text) for text in report.remarks),
        *(("", text) for text in [*report.costs(), *report.gaps()]),
    ]
    count = len(report.wrong())
    verdict = f"{count} fault{'s' if count > 1 else ''}" if count else "sound, as far as it was checked"
    return [f"{name}: {verdict}", *(f"  {kind:<9}{text}" for kind, text in told)]


def _object(name: str, report: Report) -> dict[str, Any]:
    return {
        "environment": name,
        "sound": report.sound,
        "faults": report.wrong(),
        "warnings": report.warnings,
        "remarks": report.remarks,
        "notChecked": report.unchecked,
        "measured": {_camel(key): value for key, value in report.measured.items()},
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
