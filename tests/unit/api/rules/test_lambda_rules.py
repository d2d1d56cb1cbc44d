"""The Lambda backend's defaults, warnings and names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lambda_jobs import lambda_job
from nitro_api import load_job, resolve, warnings
from nitro_api.spec.lambda_backend import LambdaBackendSpec, function_name


def function(*changes: str) -> LambdaBackendSpec:
    found = resolve(lambda_job(*changes)).spec.backend.lambda_
    assert found is not None
    return found


def test_omitted_fields_get_their_defaults() -> None:
    found = function()
    assert (found.function_name, found.region, found.memory_mib) == ("nitro-rl_hopper", "us-east-2", 1024)
    assert found.manage
    assert found.qualifier is None
    assert function("spec.backend.lambda.provisionedConcurrency={}").qualifier == "nitro"


def test_memory_comes_from_the_actors_resources_and_is_billed() -> None:
    spec = resolve(lambda_job("spec.actor.resources={limits: {memory: 1800M}}")).spec
    assert spec.backend.lambda_ is not None
    assert spec.backend.lambda_.memory_mib == 1717  # 1.8e9 bytes, rounded up
    assert spec.pricing.actor_memory_gb == pytest.approx(1717 / 1024)
    assert function("spec.actor.resources={limits: {memory: 64Mi}}").memory_mib == 128
    assert resolve(lambda_job("spec.backend.lambda.memoryMiB=2048")).spec.pricing.actor_memory_gb == 2.0


@pytest.mark.parametrize(
    "url",
    [
        "https://lambda.us-east-2.amazonaws.com",
        "https://lambda-fips.us-gov-west-1.amazonaws.com/",
        "https://lambda.cn-north-1.amazonaws.com.cn",
        "https://vpce-0abc-1def.lambda.us-east-2.vpce.amazonaws.com",
    ],
)
def test_lambdas_own_addresses_need_no_credentials_of_the_job(url: str) -> None:
    assert function(f"spec.backend.lambda.endpointUrl={url}").endpoint_url == url


def test_another_address_is_taken_with_the_jobs_credentials() -> None:
    changes = (
        "spec.backend.lambda.endpointUrl=http://moto:5000",
        "spec.backend.lambda.credentialsSecret=aws",
    )
    assert function(*changes).endpoint_url == "http://moto:5000"


def test_function_names_differ_and_fit() -> None:
    long = function_name("a-namespace-" + "x" * 51, "a-job-of-many-letters")
    other = function_name("a-namespace-" + "x" * 51, "a-job-of-many-lettres")
    assert len(long) == len(other) == 64
    assert long != other


def test_no_warning_for_a_plain_job_and_one_for_each_doubtful_setting() -> None:
    assert warnings(lambda_job()) == []
    assert warnings(lambda_job("spec.pricing.actorMemoryGB=2")) == [
        "spec.pricing.actorMemoryGB: 2 is not what Lambda bills for memoryMiB 1024, 1; remove actorMemoryGB"
    ]
    reserved = "spec.backend.lambda.reservedConcurrency=4"
    assert warnings(lambda_job(reserved, "spec.scaling={scaler: nitro, maxActors: 8}")) == [
        "spec.backend.lambda.reservedConcurrency: 4 is below the 8 actors of the largest round, so larger "
        "rounds go in waves; raise it or lower maxActors"
    ]
    assert warnings(lambda_job(reserved, "spec.scaling={scaler: fixed, maxActors: 8}")) == []


def test_the_examples_differ_in_the_backend_block_alone() -> None:
    examples = Path(__file__).parents[4] / "examples"
    plain, function = (load_job(examples / f"{name}.yaml").to_dict() for name in ("hopper", "hopper-lambda"))
    assert function["spec"].pop("backend")["type"] == "Lambda"
    del plain["spec"]["backend"]
    assert function == plain
