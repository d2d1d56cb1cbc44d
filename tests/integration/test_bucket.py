"""Runs in a bucket, against moto: the stand-in for Amazon's own S3, which cannot be reached from a test."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import boto3
import numpy as np
import pytest
from boto3.s3.transfer import S3Transfer

import nitro_learner as nitro
from learner_pod import trained
from nitro_api import JobInvalid, load_job, resolve
from nitro_api.spec.checkpoint import CheckpointBucket
from nitro_learner.checkpoints.attachments import Attachment
from nitro_learner.checkpoints.store import CheckpointError
from nitro_learner.run.bucket import BucketError, RunBucket
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import OpenRun, open_run
from nitro_learner.run.source import former_run, read_source
from nitro_learner.training.adoption import Source
from nitro_learner.training.failures import TrainingFailed

UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
JOB: dict[str, Any] = {
    "apiVersion": "nitro.dev/v1alpha1",
    "kind": "NitroTrainingJob",
    "metadata": {"name": "kept"},
    "spec": {"environment": {"id": "Hopper-v5"}, "learner": {"checkpoint": {"keepLast": 2}}},
}


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunBucket]:
    monkeypatch.setenv("NITRO_S3_AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("NITRO_S3_AWS_SECRET_ACCESS_KEY", "what")
    s3 = boto3.client(
        "s3", "us-east-1", endpoint_url=s3_endpoint, aws_access_key_id="who", aws_secret_access_key="what"
    )
    s3.create_bucket(Bucket="runs")
    yield bucket_at(s3_endpoint)
    for item in s3.list_objects_v2(Bucket="runs").get("Contents", []):
        s3.delete_object(Bucket="runs", Key=item["Key"])
    s3.delete_bucket(Bucket="runs")


def bucket_at(s3_endpoint: str, name: str = "runs") -> RunBucket:
    where = CheckpointBucket(bucket=name, prefix="team/a", region="us-east-1", endpoint_url=s3_endpoint)
    return RunBucket(where, "kept-1")


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def ledger(rounds: int) -> str:
    return "".join(
        json.dumps({"round": number, "learner": 0, "actors": 0, "details": {}}) + "\n"
        for number in range(1, rounds + 1)
    )


def test_a_run_is_restored_to_an_empty_disk(bucket: RunBucket, tmp_path: Path) -> None:
    job = resolve(load_job(JOB))
    run = open_run(RunDir(tmp_path / "first"), job, resume=True, run_id="r", bucket=bucket)
    for number in range(1, 5):
        run.folder.ledger.write_text(ledger(number))
        run.folder.metrics.write_text("\n".join(["round", *map(str, range(1, number + 1)), ""]))
        run.checkpoints.save(number, {"run": "r", "weights": np.full(3, number)})

    again = open_run(RunDir(tmp_path / "second"), job, resume=True, bucket=bucket)
    assert again.checkpoint is not None
    assert again.checkpoint.round == 4
    assert again.id == "r"
    assert again.checkpoint.state["weights"].tolist() == [4, 4, 4]
    assert sorted(path.name for path in again.folder.checkpoints.iterdir()) == [
        "round-000003.safetensors",
        "round-000004.safetensors",
    ]
    assert files(again.folder.path) == files(run.folder.path)


def test_the_best_policy_is_in_the_bucket_and_follows_a_better_one(bucket: RunBucket, tmp_path: Path) -> None:
    job = resolve(load_job(JOB))
    run = open_run(RunDir(tmp_path / "first"), job, resume=True, run_id="r", bucket=bucket)

    def in_the_bucket() -> dict[str, Any] | None:
        again = open_run(RunDir(tmp_path / f"{next(numbers)}"), job, resume=True, bucket=bucket)
        assert again.checkpoint is not None
        assert again.checkpoint.round == len(run.folder.ledger.read_text().splitlines())
        return again.checkpoints.best()

    numbers = itertools.count()
    for number, better in ((1, 5.0), (2, None), (3, 7.5), (4, None), (5, None)):
        run.folder.ledger.write_text(ledger(number))
        run.folder.metrics.write_text("\n".join(["round", *map(str, range(1, number + 1)), ""]))
        if better is not None:
            run.checkpoints.save_best(number - 1, {"run": "r", "weights": np.full(3, number)}, better)
        run.checkpoints.save(number, {"run": "r"})
        best = {"round": 0, "mean": 5.0} if number < 3 else {"round": 2, "mean": 7.5}
        assert in_the_bucket() == best
    run.checkpoints.save_best(5, {"run": "r"}, 8.0)  # by the evaluation at the end
    bucket.keep(run.folder, ended=True)
    assert in_the_bucket() == {"round": 5, "mean": 8.0}


def test_the_policies_of_another_run_are_read_with_the_jobs_own_settings_of_s3(
    s3_endpoint: str, bucket: RunBucket, tmp_path: Path
) -> None:
    run = open_run(RunDir(tmp_path / "first"), resolve(load_job(JOB)), resume=True, run_id="r", bucket=bucket)
    replay = Attachment("replay", lambda: {"rows": np.ones(3)})
    for number in (1, 2):
        run.checkpoints.save(number, {"run": "r", "weights": np.full(3, number), "replay": replay})
    own = {"s3": {"bucket": "others", "region": "us-east-1", "endpointUrl": s3_endpoint}}

    def source(name: str, **spec: Any) -> Source:
        spec = {**JOB["spec"], "learner": {"checkpoint": own}, "resumeFrom": {"s3": name}, **spec}
        job = resolve(load_job({**JOB, "metadata": {"name": "new"}, "spec": spec}))
        return read_source(name, job, RunDir(tmp_path / "new"))

    found = source("s3://runs/team/a/kept-1").state
    assert found["weights"].tolist() == [2, 2, 2]
    assert found["replay"] is None
    with pytest.raises(JobInvalid, match=r"spec.resumeFrom: has no checkpoint"):
        source("s3://runs/team/a/kept-2")
    with pytest.raises(JobInvalid, match=r"spec.network.hiddenSizes is .* there and \[8\] here"):
        source("s3://runs/team/a/kept-1", network={"hiddenSizes": [8]})
    with pytest.raises(
        BucketError, match=r"s3://away/kept-1/.*Check the address, spec.learner.checkpoint.s3"
    ):
        source("s3://away/kept-1")


@pytest.mark.usefixtures("bucket")
def test_a_whole_run_is_taken_from_a_bucket_under_another_identity(s3_endpoint: str, tmp_path: Path) -> None:
    first = f"kept-{UID}"
    where = CheckpointBucket(bucket="runs", prefix="team/a", region="us-east-1", endpoint_url=s3_endpoint)
    run = open_run(
        RunDir(tmp_path / first),
        resolve(load_job(JOB)),
        resume=True,
        run_id="r",
        bucket=RunBucket(where, first),
    )
    for number in (1, 2):
        run.folder.ledger.write_text(ledger(number))
        run.folder.metrics.write_text("\n".join(["round", *map(str, range(1, number + 1)), ""]))
        run.checkpoints.save(number, {"run": "r", "weights": np.full(3, number)})
    other = UID.replace("0f8f", "1f8f")
    begun = RunDir(tmp_path / f"kept-{other}")
    begun.path.mkdir()
    assert former_run(begun, "kept", RunBucket(where, begun.path.name)) == first
    assert former_run(run.folder, "kept", RunBucket(where, first)) is None
    assert former_run(begun, "kep", RunBucket(where, begun.path.name)) is None

    own = {"s3": {"bucket": "runs", "prefix": "new", "region": "us-east-1", "endpointUrl": s3_endpoint}}
    address = f"s3://runs/team/a/{first}"
    spec = {**JOB["spec"], "learner": {"checkpoint": own}, "resumeFrom": {"s3": address, "take": "Run"}}
    job = resolve(load_job({**JOB, "spec": spec}))
    place = RunBucket(job.spec.learner.checkpoint.s3 or where, begun.path.name)
    again = open_run(begun, job, resume=True, run_id=other, bucket=place, source=address)
    assert (again.id, [row["round"] for row in again.history]) == (other, [1, 2])
    assert again.checkpoint is not None
    assert again.checkpoint.state["weights"].tolist() == [2, 2, 2]
    with pytest.raises(JobInvalid, match=rf"has no checkpoint \(s3: {address}\)"):
        open_run(RunDir(tmp_path / "c"), job, resume=True, run_id=other, source="s3://runs/team/a/kept-3")


def test_a_policy_is_loaded_from_the_bucket(
    s3_endpoint: str, bucket: RunBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    run = open_run(RunDir(tmp_path / "first"), resolve(load_job(JOB)), resume=True, run_id="r", bucket=bucket)
    ones, zeros = np.ones((2, 2), np.float32), np.zeros(2, np.float32)
    tensors = {"policy.layers.0.weight": ones, "policy.layers.0.bias": zeros, "policy.head.weight": 0 * ones}
    network = {"kind": "mlp", "hidden": [2], "activation": "tanh", "head": "categorical"}
    seen = {"shape": [2], "frame": [2], "stack": 1, "dtype": "float32"}
    for number in (1, 2):
        bias = np.eye(2, dtype=np.float32)[number - 1]
        policy = {"meta": {"network": network}, "tensors": {**tensors, "policy.head.bias": bias}}
        played = {
            "environment": {"id": "e", "observation": seen, "action": {"kind": "discrete", "n": 2}},
            "version": number,
            "agents": {"agent": "default"},
            "policies": {"default": policy},
        }
        run.checkpoints.save(number, {"run": "r", "played": played})

    loaded = nitro.load("s3://runs/team/a/kept-1")
    assert loaded.round == 2
    assert loaded.act([0, 0]) == 1
    with pytest.raises(CheckpointError, match="s3://runs/team/a/kept-2: no checkpoint in it"):
        nitro.load("s3://runs/team/a/kept-2")
    with pytest.raises(BucketError, match=r"s3://away/kept-1/: .*\. Check the address, .* boto3") as refused:
        nitro.load("s3://away/kept-1")
    assert "spec." not in str(refused.value), "no job names a bucket"
    assert "goes on" not in str(refused.value), "nothing is trained"


def test_logs_are_copied_once_at_the_end(bucket: RunBucket, tmp_path: Path) -> None:
    job = resolve(load_job(JOB))
    run = open_run(RunDir(tmp_path / "first"), job, resume=True, run_id="r", bucket=bucket)
    run.folder.log.write_text("a line\n")
    run.checkpoints.save(1, {"run": "r"})
    bucket.restore(RunDir(tmp_path / "second"))
    assert not RunDir(tmp_path / "second").log.exists()
    bucket.keep(run.folder, ended=True)
    bucket.restore(RunDir(tmp_path / "third"))
    assert RunDir(tmp_path / "third").log.read_text() == "a line\n"


def test_what_a_failed_sitting_cost_is_known_to_the_next_pod(
    s3_endpoint: str,
    bucket: RunBucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its round has no checkpoint, with which the ledger would be copied."""
    where = {"bucket": "runs", "prefix": "team/a", "region": "us-east-1", "endpointUrl": s3_endpoint}
    wanted = copy.deepcopy(JOB)
    wanted["spec"]["learner"] = {"checkpoint": {"s3": where}}

    async def train(opened: OpenRun, *_: object, **__: object) -> None:
        opened.folder.ledger.write_text(ledger(1))
        raise TrainingFailed("no actor answers", resumable=True)

    def sitting() -> int:
        client = Mock(get=lambda: wanted)
        return trained(monkeypatch, client, lambda *_: MagicMock(), tmp_path / "kept-1")

    monkeypatch.setattr("nitro_learner.run.session.train", train)
    assert sitting() == 75
    bucket.restore(RunDir(tmp_path / "second"))
    assert RunDir(tmp_path / "second").ledger.read_text() == ledger(1)

    def refuse(*_: object) -> None:
        raise BucketError("s3://runs refuses")

    monkeypatch.setattr(RunBucket, "keep", refuse)
    assert sitting() == 75
    assert "s3://runs refuses" in caplog.text, "what is lost is told"


def test_a_short_outage_of_the_bucket_costs_nothing_and_a_long_one_ends_the_run(
    s3_endpoint: str, bucket: RunBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = resolve(load_job(JOB))
    away = bucket_at(s3_endpoint, "away")
    run = open_run(RunDir(tmp_path / "first"), job, resume=True, run_id="r", bucket=bucket)
    store = away.store(run.folder, 2)
    with pytest.raises(BucketError, match="s3://away/"):
        store.save(0, {"run": "r"})  # the policies of spec.resumeFrom, which the next pod would not find
    store = away.store(run.folder, 2)
    for number in range(1, 9):  # within seconds, in which nobody could mend anything
        store.save(number, {"run": "r"})
        assert store.missed is not None
        assert "s3://away/" in store.missed
    monkeypatch.setattr("nitro_learner.run.bucket._PATIENCE_SECONDS", 0.0)
    with pytest.raises(BucketError, match="s3://away/"):
        store.save(9, {"run": "r"})
    assert store.rounds() == [8, 9], "on the pod's own disk every checkpoint is whole"


def test_a_folder_with_a_run_is_not_overwritten(bucket: RunBucket, tmp_path: Path) -> None:
    job = resolve(load_job(JOB))
    run = open_run(RunDir(tmp_path / "first"), job, resume=True, run_id="r", bucket=bucket)
    run.folder.metrics.write_text("round\n1\n")
    run.checkpoints.save(1, {"run": "r"})
    run.folder.ledger.write_text(ledger(2))  # newer than the bucket
    again = open_run(RunDir(tmp_path / "first"), job, resume=True, bucket=bucket)
    assert again.folder.ledger.read_text() == ledger(2)


def test_a_copy_that_was_broken_off_is_made_again(
    bucket: RunBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = resolve(load_job(JOB))
    run = open_run(RunDir(tmp_path / "first"), job, resume=True, run_id="r", bucket=bucket)
    run.folder.metrics.write_text("round\n1\n")
    run.folder.ledger.write_text(ledger(1))
    run.checkpoints.save(1, {"run": "r"})
    download = S3Transfer.download_file

    def broken_off(transfer: S3Transfer, *, key: str, **more: Any) -> None:
        if "checkpoints" in key:
            raise OSError("broken off")
        download(transfer, key=key, **more)

    second = RunDir(tmp_path / "second")
    with monkeypatch.context() as patch:
        patch.setattr(S3Transfer, "download_file", broken_off)
        with pytest.raises(BucketError, match="broken off"):
            bucket.restore(second)
    assert sorted(files(second.path)) == ["job.yaml", "ledger.jsonl", "metrics.csv"]
    assert open_run(second, job, resume=True, bucket=bucket).checkpoint


def test_objects_that_name_no_file_are_left_alone(
    bucket: RunBucket, s3_endpoint: str, tmp_path: Path
) -> None:
    s3 = boto3.client(
        "s3", "us-east-1", endpoint_url=s3_endpoint, aws_access_key_id="who", aws_secret_access_key="what"
    )
    outside = tmp_path / "outside"
    for name in ("", "checkpoints/", "../outside", str(outside)):
        s3.put_object(Bucket="runs", Key=bucket.prefix + name, Body=b"")
    s3.put_object(Bucket="runs", Key=f"{bucket.prefix}metrics.csv", Body=b"round\n")
    folder = RunDir(tmp_path / "run")
    bucket.restore(folder)
    assert files(folder.path) == {"metrics.csv": b"round\n"}
    assert not outside.exists()
    bucket.keep(folder)
    assert len(s3.list_objects_v2(Bucket="runs")["Contents"]) == 5


def test_a_missing_bucket_is_named_with_the_remedy(
    s3_endpoint: str, bucket: RunBucket, tmp_path: Path
) -> None:
    assert str(bucket) == "s3://runs/team/a/kept-1/"
    missing = bucket_at(s3_endpoint, "no-such-bucket")
    with pytest.raises(BucketError, match=r"s3://no-such-bucket/team/a/kept-1/.*spec.learner.checkpoint.s3"):
        missing.restore(RunDir(tmp_path / "run"))


def test_incomplete_credentials_and_invalid_endpoints_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BucketError, match="Invalid endpoint"):
        bucket_at("http://no host")
    monkeypatch.setenv("NITRO_S3_AWS_ACCESS_KEY_ID", "who")
    with pytest.raises(BucketError, match="aws_secret_access_key"):
        bucket_at("http://127.0.0.1:9")
