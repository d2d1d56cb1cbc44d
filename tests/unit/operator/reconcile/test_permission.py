"""What a platform forbids: of a job that starts, and of one that runs already."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from nitro_operator.config import Config
from nitro_operator.kube.kinds import LEARNER_JOB, POD, TRAINING_JOB
from operator_objects import CONFIG, learner_job, pod
from reconcile_bench import KEY, Bench, conditions_of, has_secret, reported

Object = dict[str, Any]
UNCONFINED = {"container.apparmor.security.beta.kubernetes.io/learner": "unconfined"}
WEAKER = [
    {"learner": {"annotations": UNCONFINED}},
    {"actor": {"annotations": {"k8s.v1.cni.cncf.io/networks": "other"}}},
    {"learner": {"labels": {"security.istio.io/tlsMode": "disabled"}}},
    {"actor": {"labels": {"azure.workload.identity/use": "true"}}},
]


def bench_with(
    monkeypatch: pytest.MonkeyPatch, spec: Object, *, running: bool, config: Config = CONFIG
) -> Bench:
    bench = Bench(running=running, config=config)
    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
    job = reported(version=2, **spec)
    job["metadata"]["generation"] = 2
    bench.kube.job = job
    bench.cache.put(TRAINING_JOB, job)
    return bench


@pytest.mark.parametrize("spec", WEAKER)
async def test_a_new_job_whose_metadata_is_not_listed_does_not_start(
    monkeypatch: pytest.MonkeyPatch, spec: Object
) -> None:
    bench = bench_with(monkeypatch, spec, running=False)
    await bench.reconciler.reconcile(KEY)
    assert [obj["kind"] for obj in bench.kube.written] == ["NitroTrainingJob"], "nothing is made"
    assert bench.kube.written[-1]["status"]["phase"] == "Pending"
    said = conditions_of(bench)["Ready"]
    ((part, fields),) = spec.items()
    ((field, keys),) = fields.items()
    assert (said["status"], said["reason"]) == ("False", "MetadataForbidden")
    assert f"spec.{part}.{field}: a job may not give its pods '{next(iter(keys))}'" in said["message"]
    assert f"platform.{field.removesuffix('s')}Prefixes" in said["message"]
    assert "kueue.x-k8s.io/" in said["message"], "what is allowed"


async def test_a_platform_allows_what_it_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = {"annotations": ("k8s.v1.cni.cncf.io/networks",), "labels": ()}
    config = dataclasses.replace(CONFIG, metadata_prefixes=allowed)
    bench = bench_with(monkeypatch, WEAKER[1], running=False, config=config)
    await bench.reconciler.reconcile(KEY)
    assert "Job" in [obj["kind"] for obj in bench.kube.written]


@pytest.mark.parametrize("spec", WEAKER)
async def test_a_job_that_runs_already_goes_on_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, spec: Object
) -> None:
    bench = bench_with(monkeypatch, spec | {"backend": {"type": "Local"}}, running=True)
    await bench.reconciler.reconcile(KEY)
    assert bench.kube.deleted == []
    assert bench.kube.written[-1]["status"]["phase"] == "Running"
    said = conditions_of(bench)["Ready"]
    assert (said["status"], said["reason"]) == ("True", "MetadataForbidden")
    assert said["message"].startswith("the job was started before this was forbidden, and runs on with it")
    assert "MetadataForbidden" in [one.reason for one in bench.told if one.warning]

    # Its learner is gone after a suspension: a resumed job starts anew.
    bench.cache.remove(LEARNER_JOB, learner_job(namespace="team", labels={"nitro.dev/job": "hopper"}))
    bench.cache.remove(POD, pod("learner"))
    bench.kube.written.clear()
    await bench.reconciler.reconcile(KEY)
    assert [obj["kind"] for obj in bench.kube.written] == ["NitroTrainingJob"]
    assert conditions_of(bench)["Ready"]["status"] == "False"
