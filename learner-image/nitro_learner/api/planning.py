"""Plans of trainings from a script or a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nitro_api import NitroTrainingJob
from nitro_learner.studies.planning.measuring import planned
from nitro_learner.studies.planning.plan import Plan


def plan(job: NitroTrainingJob | Mapping[str, Any] | str | Path) -> Plan:
    """Say how long a job takes, what it costs, and with how many actors, as `nitro plan` does.

        plan = nitro.plan("examples/hopper.yaml")
        plan.cheapest.actors, plan.cheapest.dollars, plan.quickest.seconds
        plan.to_dict()                          # what `nitro plan --json` prints

    It trains the job for at most half a minute on this machine, in a folder that goes afterwards.

    Args:
        job: a model, a mapping as in a job file, YAML text, or the path of a job file.

    Raises:
        JobInvalid: lists every mistake in the job.
        ProbeFailed: no round ended in that time.
        TrainingFailed: the environment does not work here.
    """
    source: Any = job.to_dict() if isinstance(job, NitroTrainingJob) else job
    if isinstance(source, Mapping):
        source = dict(source)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return planned(source, ())
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="nitro-plan") as threads:
        return threads.submit(planned, source, ()).result()
