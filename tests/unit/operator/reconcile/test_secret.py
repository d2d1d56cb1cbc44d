"""How often the operator reads a job's Secret, and what follows when it is gone."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.builders import credentials_secret, learner_job
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import SECRET
from nitro_operator.observation.metering import PodMeter
from nitro_operator.observation.observed import Observed
from nitro_operator.reconcile.memory import JobMemory
from nitro_operator.reconcile.start import ensure_secret
from operator_objects import make_view
from reconcile_bench import FakeKube


@pytest.mark.parametrize(
    ("learner", "stored", "there"), [(True, True, True), (True, False, False), (False, True, True)]
)
async def test_a_secret_is_read_once_at_each_look(learner: bool, stored: bool, there: bool) -> None:
    kube, view = FakeKube(), make_view()
    if stored:
        kube.secrets[view.credentials] = credentials_secret(view)
    observed = Observed(learner_job=learner_job(view, None) if learner else None)
    memory: Any = JobMemory(view.uid, PodMeter())
    assert await ensure_secret(kube, view, memory, observed, 1000.0) is there  # type: ignore[arg-type]
    assert kube.read == [SECRET]
    assert kube.written == []
    assert (memory.credentials is not None) is not there, "the next one has another name"


async def test_a_secret_of_another_owner_is_refused_at_each_look() -> None:
    kube, view = FakeKube(), make_view()
    secret = credentials_secret(view)
    secret["metadata"]["ownerReferences"][0]["uid"] = "another"
    kube.secrets[view.credentials] = secret
    for learner in (None, learner_job(view, None)):
        memory: Any = JobMemory(view.uid, PodMeter())
        with pytest.raises(ApiError, match="another owner"):
            await ensure_secret(kube, view, memory, Observed(learner_job=learner), 1000.0)  # type: ignore[arg-type]
