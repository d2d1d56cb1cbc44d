"""Evaluations in an environment with keyword arguments of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actor_support import RUN, container, request
from nitro_actor import keys, wire
from nitro_actor.actor import Actor
from nitro_actor.config import EnvironmentConfig
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.make_env import make_env, with_kwargs
from nitro_actor.protocol.fragment import FragmentContainer
from nitro_actor.protocol.request import Request

CARTPOLE = EnvironmentConfig("CartPole-v1", 2, {"sutton_barto_reward": False})
SPREAD = EnvironmentConfig("mpe2/simple_spread_v3", 1, {"N": 2})


class Store:
    """What a Redis would hold."""

    def __init__(self, weights: bytes) -> None:
        self._weights = weights
        self.fragments: list[bytes] = []

    def get(self, key: str) -> bytes | None:
        assert key == keys.weights(RUN, 1)
        return self._weights

    def append(self, key: str, value: bytes, ttl: int) -> None:  # noqa: ARG002
        self.fragments.append(value)


def evaluate(actor: Actor, store: Store, **changes: Any) -> FragmentContainer:
    asked = {"kind": "evaluate", "episodes": 3, "maxSteps": 1000, **changes}
    message = {
        name: value for name, value in request(**asked).items() if name not in ("steps", "optionalTensors")
    }
    actor.run(Request.decode(wire.encode(message, {})), store)
    return FragmentContainer.decode(store.fragments[-1])


def test_an_evaluation_plays_with_its_own_arguments_and_the_next_one_as_before() -> None:
    environment = make_env(CARTPOLE)
    actor, store = Actor(environment, with_kwargs(CARTPOLE)), Store(container(environment.spec))  # type: ignore[arg-type]
    before = evaluate(actor, store).tensors
    short = evaluate(actor, store, kwargs={"max_episode_steps": 5}).tensors
    assert short["episode_lengths"].tolist() == [5, 5, 5]
    again = evaluate(actor, store).tensors
    assert before["episode_lengths"].tolist() == again["episode_lengths"].tolist()
    assert (again["episode_lengths"] > 5).all()
    negative = evaluate(actor, store, kwargs={"sutton_barto_reward": True}).tensors["episode_returns"]
    assert (np.asarray(negative) <= 0).all()


@pytest.mark.parametrize(
    ("id_", "kwargs"),
    [
        ("CartPole-v1", {"sutton_barto_reward": True}),
        ("Hopper-v5", {"healthy_reward": 2.0}),
        ("FrozenLake-v1", {"is_slippery": False}),
    ],
)
def test_an_evaluation_has_as_many_copies_as_episodes_and_the_returns_of_all_copies(
    id_: str, kwargs: dict[str, Any]
) -> None:
    config = EnvironmentConfig(id_, 16)
    own = make_env(EnvironmentConfig(id_, 16, kwargs))
    weights = container(own.spec)  # type: ignore[arg-type]
    all_copies = Store(weights)
    made: list[int] = []

    def make(kwargs: Any, count: int) -> Any:
        made.append(count)
        return with_kwargs(config)(kwargs, count)

    actor, store = Actor(make_env(config), make), Store(weights)
    for episodes in (3, 5, 4, 20):
        expected = evaluate(Actor(own), all_copies, episodes=episodes).tensors
        found = evaluate(actor, store, episodes=episodes, kwargs=kwargs).tensors
        for name in ("episode_returns", "episode_lengths"):
            assert np.asarray(found[name]).tobytes() == np.asarray(expected[name]).tobytes(), name
    assert made == [3, 5, 16]


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"N": 3}, 'spec.evaluation.environment: with kwargs {"N": 3} classes is '),
        ({"gale": 1}, "spec.evaluation.environment: environment mpe2/simple_spread_v3 cannot be built"),
    ],
)
def test_arguments_that_change_the_spaces_or_are_not_taken_are_refused(
    kwargs: dict[str, Any], said: str
) -> None:
    actor = Actor(make_env(SPREAD), with_kwargs(SPREAD))
    with pytest.raises(EnvironmentCallError) as refused:
        evaluate(actor, Store(b""), kwargs=kwargs)
    assert said in str(refused.value)


def test_arguments_must_be_a_mapping() -> None:
    message = request(kind="evaluate", episodes=1, maxSteps=1, kwargs=[1])
    with pytest.raises(wire.WireError, match="kwargs"):
        Request.decode(wire.encode(message, {}))
