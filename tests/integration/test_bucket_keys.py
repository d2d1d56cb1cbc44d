"""A bucket's keys are replaced while its learner runs: moto, behind a door that takes one key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from test_bucket import JOB, files
from werkzeug.serving import make_server

from nitro_api import load_job, resolve
from nitro_api.costs.prices import RoundCost
from nitro_api.spec.checkpoint import CheckpointBucket
from nitro_learner.cli import learn
from nitro_learner.run.bucket import BucketError, RunBucket
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import OpenRun, open_run
from nitro_learner.training.round_report import Outcome

REFUSED = b"<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist</Message></Error>"


class Door:
    """An S3 that knows one access key."""

    def __init__(self) -> None:
        self.accepted = "OLD"
        self.url = ""

    def serve(self, moto: Any) -> Callable[..., Iterable[bytes]]:
        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if f"Credential={self.accepted}/" not in environ.get("HTTP_AUTHORIZATION", ""):
                start("403 Forbidden", [("Content-Length", str(len(REFUSED))), ("Connection", "close")])
                return [REFUSED]
            answered: Iterable[bytes] = moto(environ, start)
            return answered

        return answer


@pytest.fixture
def door() -> Iterator[Door]:
    from moto.moto_server.werkzeug_app import (  # moto takes seconds to load
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )

    found = Door()
    app = found.serve(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    s3 = boto3.client(
        "s3", "us-east-1", endpoint_url=found.url, aws_access_key_id="OLD", aws_secret_access_key="x"
    )
    s3.create_bucket(Bucket="renewed")
    yield found
    server.shutdown()
    thread.join(10)


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the kubelet keeps; the variables have what it held at the start."""
    folder = tmp_path / "keys"
    folder.mkdir()
    write(folder, "OLD")
    monkeypatch.setenv("NITRO_S3_CREDENTIALS", str(folder))
    monkeypatch.setenv("NITRO_S3_AWS_ACCESS_KEY_ID", "OLD")
    monkeypatch.setenv("NITRO_S3_AWS_SECRET_ACCESS_KEY", "secret of OLD")
    return folder


def write(folder: Path, key: str) -> None:
    (folder / "AWS_ACCESS_KEY_ID").write_text(key)
    (folder / "AWS_SECRET_ACCESS_KEY").write_text(f"secret of {key}")


def opened(door: Door, folder: Path) -> tuple[RunBucket, OpenRun]:
    where = CheckpointBucket(bucket="renewed", region="us-east-1", endpoint_url=door.url)
    bucket = RunBucket(where, folder.name)
    return bucket, open_run(RunDir(folder), resolve(load_job(JOB)), resume=True, run_id="r", bucket=bucket)


def test_a_running_learner_takes_up_the_new_keys(door: Door, keys: Path, tmp_path: Path) -> None:
    bucket, run = opened(door, tmp_path / tmp_path.name)
    run.checkpoints.save(1, {"run": "r"})
    door.accepted = "NEW"
    run.checkpoints.save(2, {"run": "r"})
    assert "InvalidAccessKeyId" in str(run.checkpoints.missed)
    assert "Check spec.learner.checkpoint.s3, its credentials" in str(run.checkpoints.missed)
    write(keys, "NEW")
    run.checkpoints.save(3, {"run": "r"})
    assert run.checkpoints.missed is None
    bucket.restore(RunDir(tmp_path / "next"))
    assert set(files(tmp_path / "next")) >= {f"checkpoints/round-{n:06d}.safetensors" for n in (2, 3)}


def test_a_learner_of_an_older_operator_has_the_variables_alone(
    door: Door, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NITRO_S3_CREDENTIALS")
    write(keys, "NEW")
    _, run = opened(door, tmp_path / tmp_path.name)
    run.checkpoints.save(1, {"run": "r"})
    assert run.checkpoints.missed is None


@pytest.mark.parametrize("finished", [True, False])
def test_the_end_of_a_run_waits_for_new_keys(
    door: Door, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool
) -> None:
    bucket, run = opened(door, tmp_path / tmp_path.name)
    door.accepted = "NEW"
    run.checkpoints.save(7, {"run": "r"})
    outcome = Outcome("RoundsDone", "done", finished, 7, RoundCost(0.0, 0.0), 0.0)
    reporter = Mock()
    monkeypatch.setattr(learn.time, "sleep", lambda _: write(keys, "NEW"))
    if not finished:  # its pod is asked to end, so there is no time to wait
        with pytest.raises(BucketError, match="InvalidAccessKeyId"):
            learn._keep_end(bucket, run, outcome, reporter)
        return
    learn._keep_end(bucket, run, outcome, reporter)
    assert [call[0] for call in reporter.method_calls] == [
        "on_checkpoint_missed",
        "on_checkpoint_saved",
        "on_run_ended",
    ]
    assert "InvalidAccessKeyId" in reporter.on_checkpoint_missed.call_args.kwargs["why"]
    reporter.on_checkpoint_saved.assert_called_once_with(round=7, location=str(bucket))
    bucket.restore(RunDir(tmp_path / "next"))
    assert "checkpoints/round-000007.safetensors" in files(tmp_path / "next")
