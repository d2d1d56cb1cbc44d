"""Pod settings that Kubernetes takes are taken; loading/wrong_jobs.yaml has those that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_api import load_job
from pod_settings_support import UNUSUAL


@pytest.mark.parametrize("settings", UNUSUAL, ids=str)
@pytest.mark.parametrize("part", ["actor", "learner"])
def test_an_unusual_setting_that_kubernetes_takes_is_taken(part: str, settings: dict[str, Any]) -> None:
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "hopper"},
        "spec": {"environment": {"id": "Hopper-v5"}, part: settings},
    }
    written = getattr(load_job(job).spec, part).to_dict()
    assert written.keys() >= settings.keys()
