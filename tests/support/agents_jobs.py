"""Jobs of several agents, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_api import FieldError, JobInvalid, load_job

SPREAD = "mpe2/simple_spread_v3"


def job(id: str = SPREAD, name: str = "ippo", **spec: Any) -> dict[str, Any]:
    """A job file; `algorithm` and `environment` add to what the first two arguments say of them."""
    algorithm = {"name": name, **spec.pop("algorithm", {})}
    environment = {"id": id, **spec.pop("environment", {})}
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "job"},
        "spec": {"environment": environment, "algorithm": algorithm, **spec},
    }


def refusal(source: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a job file that is refused."""
    with pytest.raises(JobInvalid) as invalid:
        load_job(source)
    return invalid.value.errors
