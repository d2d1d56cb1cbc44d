"""The Lambda backend's defaults, warnings, and what its payload cannot carry."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import zstandard
from gymnasium import spaces

from actor_support import conv_weights, environment, weights
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.policy import Policy
from nitro_actor.rollout import rollout
from nitro_api import JobInvalid, NitroTrainingJob, load_job, payload, resolve, warnings
from nitro_api.lambda_backend import LambdaBackend, function_name

JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: hopper, namespace: rl}
spec:
  environment: {id: Hopper-v5}
  backend:
    type: Lambda
    lambda:
      image: 123456789012.dkr.ecr.us-east-2.amazonaws.com/nitro-actor:0.1.0
      roleArn: arn:aws:iam::123456789012:role/nitro-actor
"""


def job(*changes: str) -> NitroTrainingJob:
    return load_job(JOB, changes)


def function(*changes: str) -> LambdaBackend:
    found = resolve(job(*changes)).spec.backend.lambda_
    assert found is not None
    return found


def test_what_is_left_out_is_filled_in() -> None:
    found = function()
    assert (found.function_name, found.region, found.memory_mib) == ("nitro-rl-hopper", "us-east-2", 1024)
    assert found.manage
    assert found.qualifier is None
    assert function("spec.backend.lambda.provisionedConcurrency={}").qualifier == "nitro"


def test_memory_is_what_the_actors_resources_say_and_what_is_billed() -> None:
    spec = resolve(job("spec.actor.resources={limits: {memory: 1800M}}")).spec
    assert spec.backend.lambda_ is not None
    assert spec.backend.lambda_.memory_mib == 1717  # 1.8e9 bytes, rounded up
    assert spec.pricing.actor_memory_gb == pytest.approx(1717 / 1024)
    assert function("spec.actor.resources={limits: {memory: 64Mi}}").memory_mib == 128
    assert resolve(job("spec.backend.lambda.memoryMiB=2048")).spec.pricing.actor_memory_gb == 2.0


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
    assert warnings(job()) == []
    assert warnings(job("spec.pricing.actorMemoryGB=2")) == [
        "spec.pricing.actorMemoryGB: 2 is not what Lambda bills for memoryMiB 1024, 1; remove actorMemoryGB"
    ]
    assert warnings(job("spec.backend.lambda.reservedConcurrency=4", "spec.scaling.maxActors=8")) == [
        "spec.backend.lambda.reservedConcurrency: 4 is below scaling.maxActors, 8, so larger rounds go in "
        "waves; raise it or lower maxActors"
    ]


def test_weights_that_cannot_fit_are_refused_with_limit_size_and_remedy() -> None:
    with pytest.raises(JobInvalid) as caught:
        job("spec.network.hiddenSizes=[2048, 2048]")
    assert str(caught.value) == (
        "spec.network.hiddenSizes: [2048, 2048]; needs 15.2 MB for a request with the weights, but with "
        "transport: Payload Lambda takes 4.7 MB (6 MB as base64); lower hiddenSizes, or set "
        "spec.backend.lambda.transport: Redis"
    )
    assert job(
        "spec.network.hiddenSizes=[2048, 2048]",
        "spec.backend.lambda.transport=Redis",
        "spec.backend.lambda.redis={secretName: redis}",
    )


def test_the_networks_of_games_are_counted() -> None:
    game, paper = "spec.environment.id=ALE/Pong-v5", "spec.algorithm.preset=paper"
    assert job(game, paper)
    with pytest.raises(JobInvalid, match=r"hiddenSizes: \[512\]; needs 6\.\d MB for a request"):
        job(game)
    spec = EnvironmentSpec("ALE/Pong-v5", (84, 84), "uint8", 6, None, None, None, True, 4)
    for preset, settings in (("paper", [paper]), ("tuned", ["spec.backend={type: Local}"])):
        _, tensors = conv_weights(spec, preset)
        compress = zstandard.ZstdCompressor(level=1).compress
        sent = sum(len(compress(tensor.tobytes())) for tensor in tensors.values())
        assert 0.9 * sent <= payload.least_weights(resolve(job(game, *settings)).spec) <= sent


def test_rollouts_that_cannot_fit_are_refused() -> None:
    with pytest.raises(
        JobInvalid, match=r"spec\.environment\.rolloutLength: 131072; needs 5\.3 MB for a resp"
    ):
        job("spec.environment.rolloutLength=131072")
    # An environment of unknown shape is given the benefit of the doubt.
    assert job("spec.environment.id=Mine-v0", "spec.environment.rolloutLength=131072")
    assert job("spec.environment.rolloutLength=131072", "spec.environment.entryPoint=mine:make")


@pytest.mark.parametrize("name", payload.SPACES)
def test_known_shapes_are_right(name: str) -> None:
    env = gymnasium.make(name)
    continuous = isinstance(env.action_space, spaces.Box)
    sizes = (
        int(np.prod(env.observation_space.shape)),
        int(np.prod(env.action_space.shape)) if continuous else 0,
    )
    assert payload.SPACES[name] == sizes


@pytest.mark.parametrize("name", ["Hopper-v5", "Humanoid-v5", "CartPole-v1"])
def test_what_is_refused_is_less_than_what_is_really_sent(name: str) -> None:
    env = environment(name, 1)
    meta, tensors = weights(env.spec, hidden=(256, 256))
    fragment = rollout(env, Policy(meta, tensors, env.spec), seed=1, steps=512, state={})
    spec = resolve(
        job(
            f"spec.environment={{id: {name}, rolloutLength: 512, envsPerActor: 1}}",
            "spec.network.hiddenSizes=[256, 256]",
        )
    ).spec
    compress = zstandard.ZstdCompressor(level=1).compress
    sent = sum(len(compress(tensor.tobytes())) for tensor in fragment.values())
    assert payload.least_fragment(spec) <= sent
    sent = sum(len(compress(tensor.tobytes())) for tensor in tensors.values())
    assert payload.least_weights(spec) <= sent


def test_a_message_of_the_capacity_fits_as_base64() -> None:
    import base64

    message = base64.b64encode(bytes(payload.CAPACITY_BYTES))
    assert (
        len(message) + payload.ENVELOPE_BYTES
        <= payload.LIMIT_BYTES
        < len(message) + payload.ENVELOPE_BYTES + 8
    )


def test_the_examples_differ_in_the_backend_block_alone() -> None:
    examples = Path(__file__).parents[3] / "examples"
    plain, function = (load_job(examples / f"{name}.yaml").to_dict() for name in ("hopper", "hopper-lambda"))
    assert function["spec"].pop("backend")["type"] == "Lambda"
    del plain["spec"]["backend"]
    assert function == plain
