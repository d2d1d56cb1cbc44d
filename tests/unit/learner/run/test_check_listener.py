"""What a run's start tells of its environment: how it fits the job, and what the check has found."""

from typing import Any

import pytest

from actor_support import environment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec, NitroTrainingJob, resolve
from nitro_learner.run.check_listener import CheckListener, EnvironmentCheck
from train_support import job

pytestmark = pytest.mark.slow


def resolved(**environment: Any) -> JobSpec:
    return resolve(NitroTrainingJob.model_validate(job(environment=environment))).spec


async def started(spec: JobSpec, entry_point: str, check: EnvironmentCheck | None, *, new: bool) -> None:
    async with CheckListener(check, spec, new=new) as listener:
        described = DescribedEnvironment.from_json(environment("x", 1, entry_point).spec.to_json())
        listener.environment = lambda: described
        listener.on_run_started(round=0, rounds=None, history=[])


@pytest.mark.parametrize("new", [True, False])
async def test_a_wrapper_that_keeps_state_over_episodes_is_named_at_every_start(
    caplog: pytest.LogCaptureFixture, new: bool
) -> None:
    spec = resolved(entryPoint="actor_support:normalised_walk")
    await started(spec, "actor_support:normalised_walk", None, new=new)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "NormalizeObservation" in record.getMessage()


@pytest.mark.parametrize("new", [True, False])
async def test_bounds_are_told_while_the_policies_know_nothing(
    caplog: pytest.LogCaptureFixture, new: bool
) -> None:
    entry = "scaled_environments:Wide"
    await started(resolved(entryPoint=entry), entry, None, new=new)
    assert ["the first policy's actions" in message for message in caplog.messages] == [True] * new
