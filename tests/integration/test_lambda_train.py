"""`nitro train --backend lambda`, sandboxes failing: the local run to the bit, and a ledger that adds up."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lambda_support import CREDENTIALS, NAME
from train_support import SUPPORT, nitro, recorded, write_job

FAULTS = ("throttled", "service_error", "timeout", "death")
PRICE_GB_SECOND, PRICE_REQUEST = 1.66667e-5, 2e-7


@contextmanager
def front_process() -> Iterator[str]:
    """The stand-in for AWS as a process; its URL."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "lambda_front", "--timeout", "3"),
            *("--environment", '{"id": "Hopper-v5", "envs": 4}'),
        ],
        cwd=SUPPORT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait(timeout=120)


def call(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method="GET" if body is None else "PUT")
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def test_equals_the_local_run_and_every_invocation_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with front_process() as url:
        function = {"manage": False, "functionName": NAME, "region": "us-east-2", "endpointUrl": url}
        function["credentialsSecret"] = "aws"
        job = write_job(tmp_path, backend={"type": "Lambda", "lambda": function})
        # One of each, behind the health invocation, and then as it comes.
        call(f"{url}/front/knobs", {"script": [None, *FAULTS], "fault_rate": 0.1, "faults": FAULTS})
        remote, local = tmp_path / "lambda", tmp_path / "local"
        ran = nitro(
            "train", job, "--backend", "lambda", "--run-dir", remote, record=tmp_path / "lambda.jsonl"
        )
        assert ran.returncode == 0, ran.stderr
        bills = call(f"{url}/front/bills")
    # The same file trains on this machine without a change.
    ran = nitro("train", job, "--run-dir", local, record=tmp_path / "local.jsonl")
    assert ran.returncode == 0, ran.stderr
    assert recorded(tmp_path / "lambda.jsonl") == recorded(tmp_path / "local.jsonl")

    assert {"timeout", "death", "ok"} <= {bill["outcome"] for bill in bills}
    entries = [json.loads(line) for line in (remote / "ledger.jsonl").read_text().splitlines()]
    assert sum(entry["details"]["invocations"] for entry in entries) == len(bills)
    assert sum(entry["details"]["estimatedInvocations"] for entry in entries) == 0
    # Independently of the learner: 1 GB, each invocation by itself.
    paid = sum(bill["billed_ms"] / 1e3 * PRICE_GB_SECOND + PRICE_REQUEST for bill in bills)
    assert sum(entry["actors"] for entry in entries) == pytest.approx(paid, rel=1e-3)


def test_a_job_without_the_block_cannot_run_there(tmp_path: Path) -> None:
    ran = nitro("train", write_job(tmp_path), "--backend", "lambda", "--run-dir", tmp_path / "run")
    assert ran.returncode == 2
    assert "spec.backend.lambda: is required with type: Lambda" in ran.stderr
