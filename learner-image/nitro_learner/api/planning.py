"""Plans of trainings from a script or a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nitro_api import NitroTrainingJob
from nitro_learner.api.run import Run
from nitro_learner.studies.planning.measuring import planned, planned_from
from nitro_learner.studies.planning.plan import Plan


def plan(
    job: NitroTrainingJob | Mapping[str, Any] | str | Path | None = None,
    *,
    runs: Sequence[Run | str | Path] = (),
    target: float | None = None,
) -> Plan:
    """Say how long a job takes, what it costs, and with how many actors, as `nitro plan` does.

        plan = nitro.plan("examples/hopper.yaml")
        plan.cheapest.actors, plan.cheapest.dollars, plan.quickest.seconds
        plan.to_dict()                          # what `nitro plan --json` prints

    Without `runs` it trains the job for at most half a minute on this machine, in a folder that goes
    afterwards.

    Args:
        job: a model, a mapping as in a job file, YAML text, or the path of a job file; by default the job of
            the first run.
        runs: earlier runs, or their folders, by whose rounds it plans.
        target: a mean return of evaluations; `reached` then says when each of the runs reached it.

    Raises:
        JobInvalid: lists every mistake in the job.
        RunDirError: a folder holds no run with a round, or a run of another job.
        ValueError: there is neither a job nor a run, or a target without runs.
        ProbeFailed: no round ended in that time.
        TrainingFailed: the environment does not work here.
    """
    source: Any = job.to_dict() if isinstance(job, NitroTrainingJob) else job
    if isinstance(source, Mapping):
        source = dict(source)
    if runs:
        return planned_from(
            source, (), [one.path if isinstance(one, Run) else Path(one) for one in runs], target
        )
    if source is None:
        raise ValueError("give a job, or runs=")
    if target is not None:
        raise ValueError("target= says when runs reached a return: name them with runs=")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return planned(source, ())
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="nitro-plan") as threads:
        return threads.submit(planned, source, ()).result()
