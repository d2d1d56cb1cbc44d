"""What a request or a fragment on Lambda cannot carry is refused."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import zstandard
from gymnasium import spaces

from actor_support import conv_weights, environment, policies_of, rollout, spec_of, weights
from lambda_jobs import lambda_job
from nitro_actor.actions import Discrete
from nitro_api import JobInvalid, resolve
from nitro_api.rules import payload_rules


def test_weights_that_cannot_fit_are_refused_with_limit_size_and_remedy() -> None:
    with pytest.raises(JobInvalid) as caught:
        lambda_job("spec.network.hiddenSizes=[2048, 2048]")
    assert str(caught.value) == (
        "spec.network.hiddenSizes: [2048, 2048]; needs 15.2 MB for a request with the weights, but with "
        "transport: Payload Lambda takes 4.7 MB (6 MB as base64); lower hiddenSizes, or set "
        "spec.backend.lambda.transport: Redis"
    )
    assert lambda_job(
        "spec.network.hiddenSizes=[2048, 2048]",
        "spec.backend.lambda.transport=Redis",
        "spec.backend.lambda.redis={secretName: redis}",
    )


def test_the_networks_of_games_are_counted() -> None:
    game, paper = "spec.environment.id=ALE/Pong-v5", "spec.algorithm.preset=paper"
    assert lambda_job(game, paper)
    with pytest.raises(JobInvalid, match=r"hiddenSizes: \[512\]; needs 6\.\d MB for a request"):
        lambda_job(game)
    spec = spec_of("ALE/Pong-v5", (84, 84), "uint8", Discrete(6), 4)
    for preset, settings in (("paper", [paper]), ("tuned", ["spec.backend={type: Local}"])):
        tensors = conv_weights(spec, preset).tensors
        compress = zstandard.ZstdCompressor(level=1).compress
        sent = sum(len(compress(tensor.tobytes())) for tensor in tensors.values())
        assert 0.9 * sent <= payload_rules.least_weights(resolve(lambda_job(game, *settings)).spec) <= sent


def test_rollouts_that_cannot_fit_are_refused() -> None:
    with pytest.raises(
        JobInvalid, match=r"spec\.environment\.rolloutLength: 131072; needs 5\.3 MB for a resp"
    ):
        lambda_job("spec.environment.rolloutLength=131072")
    # An environment of unknown shape is given the benefit of the doubt.
    assert lambda_job("spec.environment.id=Mine-v0", "spec.environment.rolloutLength=131072")
    assert lambda_job("spec.environment.rolloutLength=131072", "spec.environment.entryPoint=mine:make")


def test_a_rollout_without_the_distribution_may_be_longer() -> None:
    steps = "spec.environment.rolloutLength=130000"
    with pytest.raises(JobInvalid, match=r"spec\.environment\.rolloutLength: 130000; needs"):
        lambda_job(steps)
    assert lambda_job(steps, "spec.algorithm.name=impact")


@pytest.mark.parametrize("name", payload_rules.SPACES)
def test_known_shapes_are_right(name: str) -> None:
    env = gymnasium.make(name)
    continuous = isinstance(env.action_space, spaces.Box)
    sizes = (
        int(np.prod(env.observation_space.shape)),
        int(np.prod(env.action_space.shape)) if continuous else 0,
    )
    assert payload_rules.SPACES[name] == sizes


@pytest.mark.parametrize("algorithm", ["ppo", "impact"])
@pytest.mark.parametrize("name", ["Hopper-v5", "Humanoid-v5", "CartPole-v1"])
def test_the_estimated_size_is_at_most_the_real_size(name: str, algorithm: str) -> None:
    env = environment(name, 1)
    policy = weights(env.spec, hidden=(256, 256))
    spec = resolve(
        lambda_job(
            f"spec.algorithm.name={algorithm}",
            f"spec.environment={{id: {name}, rolloutLength: 512, envsPerActor: 1}}",
            "spec.network.hiddenSizes=[256, 256]",
        )
    ).spec
    fragment = rollout(
        env,
        policies_of(policy, env.spec),
        seed=1,
        steps=512,
        state={},
        optional_tensors=spec.algorithm.tensors,
    )
    compress = zstandard.ZstdCompressor(level=1).compress
    sent = sum(len(compress(tensor.tobytes())) for tensor in fragment.values())
    assert payload_rules.least_fragment(spec) <= sent
    sent = sum(len(compress(tensor.tobytes())) for tensor in policy.tensors.values())
    assert payload_rules.least_weights(spec) <= sent


def test_a_message_of_the_capacity_fits_as_base64() -> None:
    import base64

    message = base64.b64encode(bytes(payload_rules.CAPACITY_BYTES))
    assert (
        len(message) + payload_rules.ENVELOPE_BYTES
        <= payload_rules.LIMIT_BYTES
        < len(message) + payload_rules.ENVELOPE_BYTES + 8
    )


def test_arguments_that_lambda_takes_in_no_variable_are_refused_with_the_limit() -> None:
    assert lambda_job(f"spec.environment.kwargs.text={'x' * 3500}")
    with pytest.raises(JobInvalid, match=r"spec\.environment\.kwargs: .*Lambda takes 4096"):
        lambda_job(f"spec.environment.kwargs.text={'x' * 4096}")
