"""Check job files: every mistake with its field, what was found, what is allowed and the remedy.

The environment is built and checked too, for ten seconds at most; `nitro check-env` says more of it. A
package that it needs and that is not here is a mistake, unless the job names an image for its actors. So is
a scaler or an algorithm of your own that cannot be made, unless the job names an image for its learner.
`kubectl nitro validate` is for jobs of a cluster: there it is a warning, and spec.resumeFrom is allowed.

examples:
  nitro validate examples/hopper.yaml
  nitro validate --resolved examples/hopper.yaml       # with every default filled in
  nitro validate --json job.yaml                       # for programs
  nitro validate --set spec.scaling.maxActors=32 job.yaml
  nitro validate --code my-folder job.yaml
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from nitro_api import FieldError, JobInvalid, NitroTrainingJob
from nitro_learner.cli.code import add_code, found_code
from nitro_learner.cli.common import add_run_or_job, add_set, print_notes, some_path
from nitro_learner.cli.exits import BAD_INPUT, DONE
from nitro_learner.studies.job_check import JobCheck


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=some_path, nargs="+", metavar="JOB.yaml", help="job file")
    add_set(parser)
    add_code(parser, "its digest must be that of spec.code, if the job has one")
    add_run_or_job(parser)
    parser.add_argument("--resolved", action="store_true", help="print the job with every default filled in")
    parser.add_argument("--json", action="store_true", help="print one JSON object per file")


def run(arguments: argparse.Namespace) -> int:
    digest = found_code(arguments.code).digest if arguments.code else None
    return max(_validate(path, arguments, digest) for path in arguments.job)


def _validate(path: Path, arguments: argparse.Namespace, digest: str | None) -> int:
    errors: list[dict[str, Any]] = []
    check = JobCheck(path, arguments.overrides, elsewhere=arguments.of_cluster)
    resolved = None
    try:
        job, complete = check.run()
        if digest not in (None, job.spec.code or digest):
            told = f"is not the digest of {arguments.code}, which is {digest}; set it, and make a new job"
            raise JobInvalid([FieldError("spec.code", job.spec.code, told)])
        resolved = complete
    except JobInvalid as error:
        errors = [
            {"path": item.path, "value": _writable(item.value), "message": item.message}
            for item in error.errors
        ]
        if not arguments.json:
            print(
                f"{path}: {len(error.errors)} mistake{'s' if len(error.errors) > 1 else ''}", file=sys.stderr
            )
            for item in error.errors:
                print(f"  {item}", file=sys.stderr)
    if arguments.json:
        print(
            json.dumps(
                {
                    "file": str(path),
                    "valid": not errors,
                    "errors": errors,
                    "warnings": check.warnings,
                    "remarks": check.remarks,
                    **({"resolved": resolved.to_dict()} if resolved and arguments.resolved else {}),
                }
            )
        )
    elif resolved:
        print_notes(path, check)
        print(_yaml(resolved) if arguments.resolved else f"{path}: valid\n", end="")
    return BAD_INPUT if errors else DONE


def _yaml(job: NitroTrainingJob) -> str:
    """The job as text that the output's encoding has, so that it can be read as the same job again."""
    text = job.to_yaml()
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return job.to_yaml(escaped=True)
    return text


def _writable(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return None
    return value
