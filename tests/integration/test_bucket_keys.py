"""A bucket's keys are replaced while its learner runs: moto, behind a door that takes one key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest

from learner_pod import trained
from nitro_api import load_job, resolve
from nitro_api.costs.prices import RoundCost
from nitro_api.spec.checkpoint import CheckpointBucket
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.run.bucket import RunBucket
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import OpenRun, open_run
from nitro_learner.training.round_report import Outcome
from s3_door import BUCKET, Door, door, keys
from train_support import job


@pytest.fixture
def store() -> Iterator[Door]:
    with door() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the kubelet keeps; the variables have what it held at the start."""
    folder = tmp_path / "keys"
    folder.mkdir()
    write(folder, "OLD")
    monkeypatch.setenv("NITRO_S3_CREDENTIALS", str(folder))
    for name, value in keys("OLD").items():
        monkeypatch.setenv(f"NITRO_S3_{name}", value)
    return folder


def write(folder: Path, key: str) -> None:
    for name, value in keys(key).items():
        (folder / name).write_text(value)


def bucket_of(store: Door) -> CheckpointBucket:
    return CheckpointBucket(bucket=BUCKET, region="us-east-1", endpoint_url=f"http://127.0.0.1:{store.port}")


def opened(store: Door, folder: Path) -> tuple[RunBucket, OpenRun]:
    bucket = RunBucket(bucket_of(store), folder.name)
    return bucket, open_run(RunDir(folder), resolve(load_job(job())), resume=True, run_id="r", bucket=bucket)


def test_a_running_learner_takes_up_the_new_keys(store: Door, folder: Path, tmp_path: Path) -> None:
    bucket, run = opened(store, tmp_path / "kept")
    run.checkpoints.save(1, {"run": "r"})
    store.accepted = "NEW"
    run.checkpoints.save(2, {"run": "r"})
    assert "InvalidAccessKeyId" in str(run.checkpoints.missed)
    assert "Check spec.learner.checkpoint.s3, its credentials" in str(run.checkpoints.missed)
    write(folder, "NEW")
    run.checkpoints.save(3, {"run": "r"})
    assert run.checkpoints.missed is None
    bucket.restore(RunDir(tmp_path / "next"))
    assert CheckpointStore(RunDir(tmp_path / "next").checkpoints, 1).rounds() == [1, 2, 3]


def test_a_learner_of_an_older_operator_has_the_variables_alone(
    store: Door, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NITRO_S3_CREDENTIALS")
    write(folder, "NEW")
    _, run = opened(store, tmp_path / "kept")
    run.checkpoints.save(1, {"run": "r"})
    assert run.checkpoints.missed is None


@pytest.mark.parametrize("finished", [True, False])
def test_the_end_of_a_run_waits_for_new_keys(
    store: Door, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool
) -> None:
    where = bucket_of(store)
    stored = job(backend={"type": "Knative"}, learner={"checkpoint": {"s3": where.model_dump(by_alias=True)}})

    async def train(run: OpenRun, *_: object, **__: object) -> tuple[Outcome, None]:
        store.accepted = "NEW"
        run.checkpoints.save(7, {"run": "r"})
        return Outcome("RoundsDone", "done", finished, 7, RoundCost(0.0, 0.0), 0.0), None

    made = MagicMock()
    reporter = made.__enter__.return_value
    monkeypatch.setattr("nitro_learner.run.session.train", train)
    monkeypatch.setattr("time.sleep", lambda _: write(folder, "NEW"))
    code = trained(monkeypatch, Mock(get=lambda: stored), lambda *_: made, tmp_path / "kept")
    told = [name for name, *_ in reporter.method_calls if name.startswith(("on_checkpoint", "on_run_ended"))]
    if not finished:  # its pod is asked to end, so there is no time to wait
        assert code == 75
        assert told == []
        state, reason, message = reporter.conclude.call_args.args
        assert (state, reason) == ("Running", "BucketUnusable")
        assert "InvalidAccessKeyId" in message
        return
    assert code == 0
    assert told == ["on_checkpoint_missed", "on_checkpoint_saved", "on_run_ended"]
    bucket = RunBucket(where, "kept")
    assert "InvalidAccessKeyId" in reporter.on_checkpoint_missed.call_args.kwargs["why"]
    reporter.on_checkpoint_saved.assert_called_once_with(round=7, location=str(bucket))
    bucket.restore(RunDir(tmp_path / "next"))
    assert CheckpointStore(RunDir(tmp_path / "next").checkpoints, 1).rounds() == [7]
