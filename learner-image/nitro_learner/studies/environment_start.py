"""What the start of a training would say of a job's environment: it is built here, in a process of its own.

Only the environment itself knows whether its arguments are right, which spaces it has and who plays in it.
Where the actors run in pods that differ from this machine, what is found here is a warning.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_learner.studies import environment_ids

BUILD_SECONDS = 120.0
"""The longest time that a start has for it, too."""
_LAST_LINES = 3


def check(spec: JobSpec) -> list[str]:
    """Build a resolved job's environment and see whether the job fits it. Returns warnings.

    Raises:
        JobInvalid: the environment cannot be used, or does not fit the job.
    """
    if environment_ids.doubts(spec):  # the actors' image may have what this machine has not
        return []
    answer = _described(spec)
    if "environment" in answer:
        return _fitting(spec, answer["environment"])
    environment = spec.environment
    name = "id" if environment.entry_point is None else "entryPoint"
    path, value = f"spec.environment.{name}", environment.entry_point or environment.id
    if not answer["installed"] or own_pods(spec):
        return [f"{path}: on this machine {answer['error']}"]
    raise JobInvalid([FieldError(path, value, answer["error"])])


def own_pods(spec: JobSpec) -> bool:
    """Whether the actors' pods have what this machine may not have: an image, files or variables of the
    job's own."""
    function, actor = spec.backend.lambda_, spec.actor
    own_function = function is not None and function.image is not None
    return bool(actor.image or actor.volumes or actor.env or own_function)


def _fitting(spec: JobSpec, environment: Mapping[str, Any]) -> list[str]:
    from nitro_learner.algorithms import fits  # these need numpy, which takes long to load
    from nitro_learner.training import first_actions, lost_digits, stateful_wrappers

    fits.check(spec, environment)
    if spec.network.type == "conv" and "classes" not in environment:
        from nitro_learner.networks.architecture import NetworkMisfit, arguments  # loads torch

        try:
            arguments(spec, environment)
        except NetworkMisfit as error:
            path, _, message = str(error).partition(" ")
            raise JobInvalid([FieldError(path.rstrip(":"), spec.network.type, message)]) from None
    return [
        *stateful_wrappers.warnings(environment, spec),
        *first_actions.warnings(environment),
        *lost_digits.warnings(environment),
    ]


def _described(spec: JobSpec) -> dict[str, Any]:
    """The EnvironmentSpec, or why there is none."""
    settings = json.dumps({**spec.environment.to_actor(), "envs": 1})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "nitro_actor.describe"],
            env={**os.environ, "NITRO_ENVIRONMENT": settings},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"it is not built within {BUILD_SECONDS:g} s", "installed": True}
    with contextlib.suppress(ValueError):
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
    last = "; ".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
    return {"error": f"its process ended with code {done.returncode}: {last}", "installed": True}
