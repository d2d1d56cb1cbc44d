"""What a reconcile costs of a job with many actor pods, of which all are to sleep."""

from __future__ import annotations

import dataclasses
import sys
from types import FrameType
from typing import Any

import pytest

from nitro_operator.backends.knative import scale_annotations
from nitro_operator.kube.kinds import POD, REVISION, TRAINING_JOB
from operator_objects import CONFIG, actor_pod, revision
from reconcile_bench import KEY, Bench, note, reported

Object = dict[str, Any]


def resting(monkeypatch: pytest.MonkeyPatch, pods: int) -> Bench:
    """A job of so many awake pods whose learner needs none for an hour."""
    bench = Bench(running=True, config=dataclasses.replace(CONFIG, resizes_per_second=1e9))
    scaling = {"scaler": "fixed", "minActors": pods, "initialActors": pods, "maxActors": pods, "hold": 3600}
    job = reported(version=2, scaling=scaling)
    word = {"neededAt": "2026-01-01T00:00:05Z", "needsNow": 0, "round": 1, "requestedActors": pods}
    job["status"]["training"] |= word | {"needsLater": [{"afterSeconds": 3600, "actors": pods}]}
    bench.kube.job = job
    bench.cache.put(TRAINING_JOB, job)
    about = {"namespace": "team", "labels": {"nitro.dev/job": "hopper"}, "uid": "revision"}
    owner = revision(**scale_annotations(pods))
    owner["metadata"] |= about
    bench.cache.put(REVISION, owner | {"apiVersion": REVISION.api_version, "kind": REVISION.kind})
    reference = {"apiVersion": REVISION.api_version, "kind": REVISION.kind, "controller": True}
    for number in range(pods):
        pod = actor_pod(f"p{number}", cpu="250m", allocated="250m", address=f"10.0.{number // 250}.{number}")
        pod["metadata"]["ownerReferences"] = [
            {**reference, "name": owner["metadata"]["name"], "uid": "revision"}
        ]
        bench.cache.put(POD, pod)

    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))
    return bench


async def calls_of_a_reconcile(monkeypatch: pytest.MonkeyPatch, pods: int) -> int:
    """Number of Python functions that a reconcile calls which puts pods to sleep."""
    bench = resting(monkeypatch, pods)
    await bench.reconciler.reconcile(KEY)
    bench.now = 5.0  # the gap is long enough to pay by now
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await bench.reconciler.reconcile(KEY)
    finally:
        sys.setprofile(before)
    patched = [one["spec"]["containers"] for one in bench.kube.written if one["kind"] == POD.kind]
    requests = [one["resources"]["requests"]["cpu"] for containers in patched for one in containers]
    assert requests == ["1m"] * 32, "one batch of pods is put to sleep"
    return calls


async def test_a_reconcile_that_puts_pods_to_sleep_costs_in_proportion_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = await calls_of_a_reconcile(monkeypatch, 64)
    many = await calls_of_a_reconcile(monkeypatch, 256)
    assert many < 5 * few
