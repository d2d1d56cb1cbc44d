"""Run folders with the checkpoint of a run that begins: policies of any algorithm without a training."""

import json
from pathlib import Path
from typing import Any

from nitro_actor.config import EnvironmentConfig
from nitro_actor.make_env import make_env
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import NitroTrainingJob, load_job, resolve
from nitro_learner.algorithms import registry
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.run.rundir import RunDir


def resolved(source: dict[str, Any]) -> NitroTrainingJob:
    return resolve(load_job(source))


def environment_of(job: NitroTrainingJob, copies: int) -> Any:
    config = job.spec.environment.to_actor() | {"envs": copies}
    return make_env(EnvironmentConfig.from_json(json.dumps(config)))


def untrained(source: dict[str, Any], folder: Path) -> NitroTrainingJob:
    """Write the checkpoint, and return the job."""
    job = resolved(source)
    environment = environment_of(job, 1)
    described = DescribedEnvironment.from_json(environment.spec.to_json())
    environment.close()
    policies = registry.make_policies(job.spec, described)
    store = CheckpointStore(RunDir(folder).checkpoints, keep_last=1)
    store.save(1, {"policies": policies.state_dict(), "played": policies.played(described)})
    return job
