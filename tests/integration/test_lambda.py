"""Rounds on Lambda: our handler under the real awslambdaric, AWS's own part played by lambda_front."""

import asyncio
import hashlib
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from lambda_front import Front, Function, serve
from lambda_support import CREDENTIALS, NAME, Noise, front, function, lambda_round, settings, tls_in_front_of
from local_support import assert_same, redis_server, sample
from nitro_api.rules import payload_rules
from nitro_learner.backends.base import BackendError, FatalError, RetryableError
from nitro_learner.backends.lambda_backend import LambdaBackend
from nitro_learner.sampling.plans import RoundResult
from ports import free_port


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def billed(result: RoundResult) -> list[int]:
    """Milliseconds of the invocations, sorted."""
    return sorted(round(1e3 * seconds) for seconds in result.stats.billed_seconds)


async def test_payload_and_redis_with_tls_give_the_same_fragments_and_bills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with redis_server() as redis, tls_in_front_of(redis.url, tmp_path) as (redis_url, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # this process and the sandboxes trust it
        await _compare_transports(function(variables={"NITRO_REDIS_URL": redis_url}), redis_url)


async def _compare_transports(what: Function, redis_url: str) -> None:
    async with front(what) as (aws, url):
        async with lambda_round(url) as (backend, work):
            (start,) = aws.bills
            assert backend.take_bills() == [start.billed_ms / 1e3]
            assert backend.take_bills() == []
            first = await sample(work, 4)
            resumed = await sample(work, 4, round=2)
            assert first.stats.estimated == resumed.stats.estimated == 0
            assert billed(first) == sorted(bill.billed_ms for bill in aws.bills[1:5])
            assert billed(resumed) == sorted(bill.billed_ms for bill in aws.bills[5:])
            assert first.stats.cold_starts == len(aws.sandboxes)
        aws.knobs.json_logs = True
        async with lambda_round(url, redis_url=redis_url) as (_, work):
            done = len(aws.bills)
            again = await sample(work, 4)
            assert_same(first, again)
            assert billed(again) == sorted(bill.billed_ms for bill in aws.bills[done:])
        # What is /tmp in a sandbox stays empty.
        assert not [path for sandbox in aws.sandboxes for path in sandbox.directory.iterdir()]


async def test_every_kind_of_fault_is_retried_and_invocations_that_ran_are_billed() -> None:
    async with front(function(timeout_seconds=5.0)) as (aws, url), lambda_round(url) as (_, work):
        calm = await sample(work, 5)
        done = len(aws.bills)
        aws.faults.script = ["throttled", "service_error", "timeout", "death", "lost"]
        struck = await sample(work, 5)
        assert_same(calm, struck)
        assert struck.stats.retries == {
            "reserved_concurrency": 1,
            "service_error": 1,
            "timeout": 1,
            "sandbox_died": 1,
            "connection": 1,
        }
        bills = aws.bills[done:]
        assert sorted(bill.outcome for bill in bills) == ["death", "lost", *["ok"] * 5, "timeout"]
        reported = sorted(bill.billed_ms for bill in bills if bill.reported)
        (lost,) = [bill for bill in bills if not bill.reported]
        assert struck.stats.estimated == 1
        (guess,) = (Counter(billed(struck)) - Counter(reported)).elements()
        assert sum(billed(struck)) - guess == sum(reported)
        assert guess >= lost.billed_ms  # the network's time is in the guess


async def test_a_concurrency_below_the_round_makes_waves_without_retries() -> None:
    async with front(concurrency=1) as (aws, url), lambda_round(url, limit=8) as (_, work):
        result = await sample(work, 8)
        assert [fragment.slot for fragment in result.fragments] == list(range(8))
        assert set(result.stats.retries) == {"reserved_concurrency"}
        assert aws.most == 1
        assert len(result.stats.billed_seconds) == 8


async def test_reserved_concurrency_is_kept_to() -> None:
    async with front(concurrency=2) as (aws, url):
        changes = {"manage": True, "image": "x", "roleArn": "arn:aws:iam::123456789012:role/r"}
        async with lambda_round(url, limit=8, reservedConcurrency=2, **changes) as (backend, work):
            assert backend.limit == 2
            await sample(work, 6)
            assert aws.refused == []


async def test_a_slow_link_changes_nothing_but_the_time() -> None:
    async with (
        front(answer_delay_seconds=0.1, bytes_per_second=1e6) as (aws, url),
        lambda_round(url) as (_, work),
    ):
        result = await sample(work, 3)
        assert len(result.fragments) == 3
        assert billed(result) == sorted(bill.billed_ms for bill in aws.bills[1:])


async def test_invalid_settings_of_the_function_are_reported_in_the_words_of_its_sandbox() -> None:
    wrong = function({"id": "Hopper-v5", "envs": 0})
    async with front(wrong) as (aws, url):
        backend = LambdaBackend(settings(url), "Hopper-v5", envs=2, limit=1)
        with pytest.raises(BackendError, match=r"cannot start: .*envs is 0"):
            await backend.start()
        assert backend.take_bills() == [bill.billed_ms / 1e3 for bill in aws.bills]
        await backend.close()


@pytest.mark.parametrize(
    ("changes", "plays", "envs", "message"),
    [
        ({"functionName": "other"}, "Hopper-v5", 2, "there is no Lambda function other"),
        ({"memoryMiB": 2048}, "Hopper-v5", 2, f"memoryMiB: 2048; function {NAME} has 1024"),
        ({}, "Walker2d-v5", 2, "spec.environment.id: 'Walker2d-v5'; function nitro-test plays 'Hopper-v5'"),
        ({}, "Hopper-v5", 8, f"spec.environment.envsPerActor: 8; function {NAME} has 2; set .* the same"),
    ],
)
async def test_a_function_that_does_not_fit_is_refused(
    changes: dict[str, Any], plays: str, envs: int, message: str
) -> None:
    async with front() as (_, url):
        backend = LambdaBackend(settings(url, **changes), plays, envs=envs, limit=1)
        with pytest.raises(FatalError, match=message):
            await backend.start()
        await backend.close()


async def test_a_function_that_the_operator_still_makes_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nitro_learner.backends.lambda_backend._PAUSE_SECONDS", 0.05)
    async with front() as (aws, url):
        aws.functions["made-later"] = aws.functions.pop(NAME)
        backend = LambdaBackend(settings(url), "Hopper-v5", envs=2, limit=1, created_elsewhere=True)
        aws.on_refusal = lambda: aws.functions.update({NAME: aws.functions["made-later"]})
        assert (await backend.start()).id == "Hopper-v5"
        assert aws.refused[0] == "ResourceNotFoundException"
        await backend.close()


async def test_a_function_that_is_away_in_mid_run_is_waited_for_where_the_operator_makes_it() -> None:
    async with front() as (aws, url), lambda_round(url, created_elsewhere=True) as (_, work):
        removed = aws.functions.pop(NAME)
        aws.on_refusal = lambda: aws.functions.update({NAME: removed})
        result = await sample(work, 2)
        assert result.stats.retries == {"not_ready": len(aws.refused)}
        assert set(aws.refused) == {"ResourceNotFoundException"}


async def test_wrong_credentials_are_reported_soon_as_a_retryable_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nitro_learner.backends.lambda_backend._PAUSE_SECONDS", 0.05)
    async with front() as (_, url):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        backend = LambdaBackend(settings(url), "Hopper-v5", envs=2, limit=1)
        with pytest.raises(RetryableError, match=r"credentials: .*InvalidSignature.*must be valid"):
            await backend.start()
        await backend.close()


async def test_an_unreachable_aws_at_the_start_is_a_retryable_error() -> None:
    backend = LambdaBackend(
        settings(f"http://127.0.0.1:{free_port()}"), "Hopper-v5", envs=2, limit=1, ready_seconds=0
    )
    with pytest.raises(RetryableError, match=f"connection: Lambda function {NAME} does not answer; the last"):
        await backend.start()
    await backend.close()


async def test_a_request_that_lambda_would_not_take_is_refused_with_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with front() as (aws, url), lambda_round(url) as (_, work):
        monkeypatch.setattr(payload_rules, "LIMIT_BYTES", 2_000)
        with pytest.raises(
            FatalError, match=r"MB for a request with weights and end state.*lower hiddenSizes"
        ):
            await sample(work, 1)
        assert len(aws.bills) == 1


async def test_a_function_with_a_token_works_for_the_learner_that_has_it() -> None:
    guarded = function(variables={"NITRO_TOKEN_SHA256": hashlib.sha256(b"mine").hexdigest()})
    async with front(guarded) as (aws, url):
        async with lambda_round(url, token="mine") as (_, work):
            assert (await sample(work, 2)).stats.retries == {}
        for token in (None, "other"):
            done = len(aws.bills)
            stranger = LambdaBackend(settings(url), "Hopper-v5", envs=2, limit=1, token=token)
            with pytest.raises(FatalError, match=f"{NAME} refuses the token; set the variable NITRO_TOKEN"):
                await stranger.start()
            assert stranger.take_bills() == [bill.billed_ms / 1e3 for bill in aws.bills[done:]]
            await stranger.close()


async def test_a_function_that_has_no_new_token_yet_is_paid_for_and_that_is_no_try() -> None:
    guarded = function(variables={"NITRO_TOKEN_SHA256": hashlib.sha256(b"old").hexdigest()})
    async with front(guarded) as (aws, url):
        made = LambdaBackend(
            settings(url),
            "Hopper-v5",
            envs=2,
            limit=1,
            token="new",
            ready_seconds=0.0,
            created_elsewhere=True,
        )
        with pytest.raises(RetryableError, match="refuses the token; the operator gives it") as refusal:
            await made.start()
        assert isinstance(refusal.value.__cause__, RetryableError)
        assert not refusal.value.__cause__.is_try, "the operator changes the function soon"
        assert made.take_bills() == [bill.billed_ms / 1e3 for bill in aws.bills]
        await made.close()


async def test_an_invocation_at_the_start_whose_answer_is_lost_is_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nitro_learner.backends.lambda_backend._PAUSE_SECONDS", 0.05)
    async with front() as (aws, url):
        backend = LambdaBackend(settings(url), "Hopper-v5", envs=2, limit=1)
        aws.faults.script = ["lost"]
        assert (await backend.start()).id == "Hopper-v5"
        guess, reported = backend.take_bills()
        assert guess >= aws.bills[0].billed_ms / 1e3
        assert reported == aws.bills[1].billed_ms / 1e3
        await backend.close()


async def test_a_fragment_that_no_response_takes_is_refused_by_the_actor() -> None:
    noise = function({"id": "noise", "entryPoint": "lambda_support:Noise", "envs": 2})
    async with (
        front(noise) as (_, url),
        lambda_round(url, plays="noise", observations=Noise.SIZE) as (_, work),
    ):
        with pytest.raises(FatalError, match=r"rolloutLength: the fragment has \d+ bytes, a Lambda.*Redis"):
            await sample(work, 1, steps=512)


async def test_a_sandbox_out_of_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_learner.backends.lambda_backend._PAUSE_SECONDS", 0.05)
    async with front(function(memory_mib=40)) as (_, url):
        backend = LambdaBackend(settings(url, memoryMiB=128), "Hopper-v5", envs=2, limit=1)
        message = r"of 40 MiB were in use; raise spec.backend.lambda.memoryMiB"
        with pytest.raises(BackendError, match=message) as failure:
            await backend.start()
        assert not isinstance(failure.value, RetryableError), "no start will find more memory"
        await backend.close()


async def test_one_endpoint_serves_the_function_that_was_made_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with AWS: the operator makes the function, the learner invokes it, by one address."""
    monkeypatch.setenv("MOTO_LAMBDA_STUB_ECR", "true")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    moto = ThreadedMotoServer(port=0)
    moto.start()
    control = f"http://127.0.0.1:{moto.get_host_and_port()[1]}"
    try:
        async with serve(Front(control_plane=control)) as (aws, url):
            await asyncio.to_thread(_make_function, control, url)
            backend = LambdaBackend(
                settings(url, functionName="made", memoryMiB=512), "Hopper-v5", envs=2, limit=1
            )
            assert (await backend.start()).id == "Hopper-v5"
            assert [bill.memory_mib for bill in aws.bills] == [512]
            await backend.close()
    finally:
        moto.stop()


def _make_function(control: str, url: str) -> None:
    iam = boto3.client("iam", "us-east-2", endpoint_url=control)
    role = iam.create_role(RoleName="actors", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    boto3.client("lambda", "us-east-2", endpoint_url=url).create_function(
        FunctionName="made",
        PackageType="Image",
        Role=role,
        Code={"ImageUri": "123456789012.dkr.ecr.us-east-2.amazonaws.com/nitro-actor:1"},
        MemorySize=512,
        Timeout=30,
        Environment={"Variables": dict(function().environment)},
        ImageConfig={
            "EntryPoint": ["python", "-m", "awslambdaric"],
            "Command": ["nitro_actor.lambda_handler.handle"],
        },
    )
