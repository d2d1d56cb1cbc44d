"""Measure one actor of a job on this machine and recommend its size on Lambda and on Knative.

A real actor process plays the job's environment with the job's network for some seconds. Memory is its peak;
times are processor time of this machine's core, so a Lambda function's may differ. Prices are spec.pricing's.

examples:
  nitro profile examples/hopper.yaml
  nitro profile job.yaml --set spec.environment.rolloutLength=1024
  nitro profile job.yaml --json | jq .lambda.memoryMiB
"""

import argparse
import asyncio
import json
from typing import Any

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import add_set, read_job, some_path
from nitro_learner.cli.exits import DONE, FAILED, CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=some_path, metavar="JOB.yaml", help="job file")
    add_set(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run(arguments: argparse.Namespace) -> int:
    from nitro_learner.studies.resolved_job import backend_overrides

    overrides = [*backend_overrides("Local"), "spec.backend.local.processes=1"]
    spec = read_job(arguments.job, [*arguments.overrides, *overrides]).spec
    # Imported only now: it loads torch, which takes seconds.
    from nitro_learner.studies import profiling
    from nitro_learner.training.failures import TrainingFailed, as_training_failure

    interrupts.orderly()
    try:
        with as_training_failure():
            measured = asyncio.run(profiling.measure(spec))
    except TrainingFailed as error:
        raise CommandError(str(error), FAILED) from None
    choices = profiling.settings(measured, spec.pricing)
    best = profiling.recommended(choices)
    result = {
        "environment": spec.environment.id,
        "steps": measured.steps,
        "rollouts": measured.rollouts,
        "peakMiB": round(measured.peak_bytes / 2**20, 1),
        "startSeconds": round(measured.start_seconds, 3),
        "rolloutSeconds": measured.seconds,
        "coreSeconds": measured.core_seconds,
        "stepsPerCoreSecond": measured.steps / measured.core_seconds,
        "lambda": {
            "memoryMiB": best.memory_mib if best else None,
            "settings": [
                {
                    "memoryMiB": choice.memory_mib,
                    "cores": choice.cores,
                    "rolloutSeconds": choice.seconds,
                    "dollarsPer1000Steps": choice.dollars,
                    "fits": choice.fits,
                }
                for choice in choices
            ],
        },
        "knative": {
            "requests": profiling.requests(measured),
            "perPod": profiling.per_pod(spec.scaling),
            "dollarsPer1000Steps": profiling.pod_dollars(measured, spec.pricing),
        },
    }
    print(json.dumps(result) if arguments.json else shown(result))
    return DONE


def shown(result: dict[str, Any]) -> str:
    """The result for people."""
    best, pod = result["lambda"]["memoryMiB"], result["knative"]
    lines = [
        f"{result['environment']}: {result['steps']} steps in {result['rolloutSeconds']:.3f} s "
        f"({result['stepsPerCoreSecond']:,.0f} steps per second of a core), peak memory "
        f"{result['peakMiB']:.0f} MiB, {result['rollouts']} rollouts measured",
        "",
        "  memory MiB   cores  s/rollout  $ per 1,000 steps",
    ]
    for row in result["lambda"]["settings"]:
        note = "too little memory" if not row["fits"] else "recommended" if row["memoryMiB"] == best else ""
        lines.append(
            f"  {row['memoryMiB']:>10,} {row['cores']:>7.2f} {row['rolloutSeconds']:>10.3f} "
            f"{row['dollarsPer1000Steps']:>18.3g}  {note}".rstrip()
        )
    request = pod["requests"]
    lines += [
        "",
        f"Lambda:  spec.backend.lambda.memoryMiB: {best}"
        if best
        else "Lambda:  no function has enough memory",
        f"Knative: spec.actor.resources: {{requests: {{cpu: {request['cpu']}, memory: {request['memory']}}}, "
        f"limits: {{memory: {request['memory']}}}}}",
        f"         spec.actor.perPod: {pod['perPod']}, so that fewer and larger pods start and end",
        f"         ${pod['dollarsPer1000Steps']:.3g} per 1,000 steps while a pod is busy",
    ]
    return "\n".join(lines)
