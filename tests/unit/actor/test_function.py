"""The Lambda function's answers to events, with the weights and the fragment in the messages."""

import base64
import hashlib
import re
from typing import Any

import numpy as np
import pytest

from actor_support import RUN, container, environment, request, weights
from nitro_actor import PROTOCOL_VERSION, keys, parcel, wire
from nitro_actor.actor import Actor
from nitro_actor.function import Function
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import OPTIONAL_TENSORS, Request
from nitro_actor.protocol.state import bare
from nitro_actor.protocol.weights import WeightsContainer
from nitro_learner.sampling.fragments import Expectation, SlotRequest, read
from parallel_environments import container as policies_of_several
from parallel_environments import several

OLD_WEIGHTS = wire.encode({"schema": 1, "run": RUN, "version": 1, "network": {}}, {})
"""As a learner of the release before writes them."""

OTHER_AGENTS = WeightsContainer(
    RUN, 1, {"default": weights(environment().spec)}, {"agent": "default", "second": "default"}
).encode()
"""Weights for one agent more than the environment has."""


@pytest.fixture
def function() -> Function:
    return Function(Actor(environment()), None)


def event(state: dict[str, np.ndarray] | None = None, version: int = 1, **changes: Any) -> dict[str, Any]:
    """A rollout event of payload mode."""
    key = {"version": version, "key": keys.weights(RUN, version)}
    tensors = {f"state/{name}": array for name, array in (state or {}).items()}
    body = container(environment().spec, version=version)
    message = wire.encode(request(weights=key, **changes), tensors)
    return {"kind": "rollout", "request": text(message), "weights": text(body)}


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Memory:
    """What a Redis would hold."""

    def __init__(self) -> None:
        self.fragments: list[bytes] = []
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def get(self, key: str) -> bytes | None:
        assert key == keys.weights(RUN, 1)
        return container(environment().spec)

    def append(self, key: str, value: bytes, ttl: int) -> None:
        assert (key, ttl) == (keys.round_fragments(RUN, 3), 60)
        self.fragments.append(value)


def test_a_rollout_answers_with_the_fragment_that_redis_would_get(function: Function) -> None:
    answer = function(event(), None)
    assert answer["status"] == 200, answer
    memory = Memory()
    acknowledged = Actor(environment()).run(Request.decode(wire.encode(request(), {})), memory)
    assert base64.b64decode(answer["fragment"]) == memory.fragments[0]
    same = ("slot", "attempt", "steps", "bytes", "coldStart")
    assert [answer["body"][name] for name in same] == [acknowledged[name] for name in same]


def test_without_weights_redis_is_used_by_a_connection_that_was_not_idle_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = Memory()
    function = Function(Actor(environment()), memory)  # type: ignore[arg-type]
    asked = event()
    del asked["weights"]
    for _ in range(2):
        answer = function(asked, None)
        assert (answer["status"], answer["body"]["slot"]) == (200, 5)
        assert "fragment" not in answer
    assert (len(memory.fragments), memory.closed) == (2, 1)
    monkeypatch.setattr("nitro_actor.function._IDLE_SECONDS", -1.0)
    function(asked, None)
    assert memory.closed == 2


def test_a_rollout_continues_from_an_end_state(function: Function) -> None:
    _, first = wire.decode(base64.b64decode(function(event(), None)["fragment"]))
    meta, second = wire.decode(base64.b64decode(function(event(bare(first)), None)["fragment"]))
    assert meta["resumed"] is True
    np.testing.assert_array_equal(second["agent/observations"][0], first["agent/last_observations"])


def test_weights_stay_in_the_sandbox(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[bytes]()
    decode = WeightsContainer.decode
    monkeypatch.setattr(WeightsContainer, "decode", lambda data: read.append(data) or decode(data))  # type: ignore[func-returns-value]
    for version in (1, 1, 2, 1):  # an evaluation of the version before may come in between
        assert function(event(version=version), None)["status"] == 200
    assert len(read) == 2


def test_a_warm_sandbox_answers_only_for_the_version_that_it_has(function: Function) -> None:
    """A fragment says which weights it is of, so those of another version must not play under its name."""
    loaded = event()
    assert function(loaded, None)["status"] == 200
    other = request(weights={"version": 2, "key": keys.weights(RUN, 1)})
    answer = function({**loaded, "request": text(wire.encode(other, {}))}, None)
    assert answer["body"]["code"] == "weights_invalid", answer
    assert "version 1, the request asks for run 'test-run' and version 2" in answer["body"]["error"]


def test_the_health_invocation_tells_the_protocol_and_the_number_of_environments(function: Function) -> None:
    answer = function({"kind": "spec"}, None)
    assert answer["status"] == 200
    assert (answer["body"]["protocol"], answer["body"]["envs"]) == (PROTOCOL_VERSION, 2)


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        (None, "bad_request", "kind: None is neither 'rollout' nor 'spec'"),
        ({"kind": "train"}, "bad_request", "'train' is neither"),
        ({"kind": "rollout"}, "bad_request", "request: must be a text in base64, not NoneType"),
        ({"kind": "rollout", "request": "***"}, "bad_request", "request: is no base64"),
        ({"kind": "rollout", "request": text(b"nonsense")}, "bad_request", "header"),
        ({**event(), "weights": 7}, "bad_request", "weights: must be a text in base64, not int"),
        ({**event(), "weights": text(b"{}")}, "weights_invalid", "too few for a header"),
        ({**event(), "weights": text(OLD_WEIGHTS)}, "weights_invalid", "protocol 1, this actor speaks 2"),
        ({**event(), "weights": text(OTHER_AGENTS)}, "weights_invalid", "but the environment has ['agent']"),
        ({"kind": "rollout", "request": event()["request"]}, "bad_request", "no NITRO_REDIS_URL"),
        (event(protocol=1), "protocol", "protocol 1, this actor speaks 2"),
        (event(steps=63), "bad_request", "steps: 63 is not a multiple"),
    ],
)
def test_errors_are_answers(function: Function, wrong: Any, code: str, message: str) -> None:
    answer = function(wrong, None)
    assert answer["body"]["code"] == code, answer
    assert message in answer["body"]["error"]
    assert "fragment" not in answer


def test_a_fragment_that_no_response_takes_is_refused_with_its_size(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcel, "CAPACITY_BYTES", 5_000)
    answer = function(event(), None)
    assert (answer["status"], answer["body"]["code"]) == (413, "too_large")
    assert answer["body"]["error"].endswith("bytes, a Lambda response takes 5000 (6 MB as base64)")


def test_several_agents_are_played_the_same_way() -> None:
    """The spec, a rollout that goes on, and an evaluation, with the weights and fragments in the messages."""
    made = several("mpe2/simple_tag_v3", 2)
    function = Function(Actor(made), None)
    spec = function({"kind": "spec"}, None)["body"]
    assert {name: one["agents"] for name, one in spec["classes"].items()} == {
        "adversary": ["adversary_0", "adversary_1", "adversary_2"],
        "agent": ["agent_0"],
    }
    body = policies_of_several(made.spec, run=RUN).encode()

    def rollout(state: dict[str, np.ndarray], **changes: Any) -> dict[str, np.ndarray]:
        tensors = {f"state/{name}": array for name, array in state.items()}
        meta = {name: value for name, value in request(**changes).items() if value is not ...}
        message = wire.encode(meta, tensors)
        answer = function({"kind": "rollout", "request": text(message), "weights": text(body)}, None)
        assert answer["status"] == 200, answer
        return wire.decode(base64.b64decode(answer["fragment"]))[1]

    first = rollout({})
    assert first["adversary/observations"].shape == (32, 2, 3, 16)
    then = rollout(bare(first), seed=9)
    np.testing.assert_array_equal(then["agent/observations"][0], first["agent/last_observations"])
    found = rollout({}, kind="evaluate", steps=..., optionalTensors=..., episodes=3, maxSteps=100)
    assert found["episode_returns"].shape == (3, 4)


def test_weights_of_one_agent_do_not_fit_several() -> None:
    function = Function(Actor(several("mpe2/simple_tag_v3", 2)), None)
    answer = function(event(), None)
    assert (answer["status"], answer["body"]["code"]) == (500, "weights_invalid")
    assert "['agent'], but the environment has ['adversary_0'" in answer["body"]["error"]


def test_a_fragment_that_would_be_too_large_is_refused() -> None:
    function = Function(Actor(several("mpe2/simple_tag_v3", 2)), None)
    answer = function(event(steps=10**6), None)
    assert answer["status"] == 400
    assert re.match(r"steps: 1000000 may take \d+ bytes; a fragment may have \d+", answer["body"]["error"])


def test_a_state_that_is_too_large_is_told_and_the_learner_reads_what_there_is_room_for() -> None:
    def rollout(hoard: int) -> tuple[dict[str, Any], dict[str, Any]]:
        made = environment("hoarder", 2, "actor_support:Hoarder", hoard=hoard)
        asked = {"request": text(wire.encode(request(), {})), "weights": text(container(made.spec))}
        return Function(Actor(made), None)({"kind": "rollout", **asked}, None), made.spec.to_json()

    refusal = rollout(2**21)[0]["body"]
    assert refusal["code"] == "environment"
    told = r"get_state returned 2097168 bytes for each of 2 environments; .* has room for (\d+)\. Keep"
    found = re.search(told, refusal["error"])
    assert found is not None, refusal
    most = int(found[1]) - 16  # the rest of the state
    answer, spec = rollout(most)
    slots = {5: SlotRequest(1234)}
    tensors = frozenset(OPTIONAL_TENSORS)
    expect = Expectation(
        "rollout",
        RUN,
        3,
        1,
        DescribedEnvironment.from_json(spec),
        steps=64,
        envs=2,
        optional_tensors=tensors,
        slots=slots,
    )
    fragment = read(base64.b64decode(answer["fragment"]), expect)
    assert fragment.tensors["state/own/hoard"].shape == (2, most)
    assert rollout(most + 1)[0]["status"] == 500


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("int16", "get_state: 'x' has the dtype int16; return arrays of one of float64, "),
        ("text", "get_state: 'x' has the dtype <U1; return arrays of one of float64, "),
        ("key", "get_state: the key 0 must be a text of at most 190 printable characters"),
    ],
)
def test_a_state_that_cannot_be_sent_is_an_error_of_the_environment(how: str, told: str) -> None:
    made = environment("odd", 2, "actor_support:OddState", how=how)
    asked = {"request": text(wire.encode(request(), {})), "weights": text(container(made.spec))}
    answer = Function(Actor(made), None)({"kind": "rollout", **asked}, None)
    assert (answer["status"], answer["body"]["code"]) == (500, "environment")
    assert told in answer["body"]["error"]


@pytest.mark.parametrize(
    "given", [{}, {"token": "other"}, {"token": None}, {"token": ["mine"]}, {"token": "\ud800"}]
)
def test_an_event_without_the_token_is_refused_before_any_work(given: dict[str, Any]) -> None:
    guarded = Function(Actor(environment()), None, hashlib.sha256(b"mine").hexdigest())
    for refused in ({**event(), **given}, {"kind": "spec", **given}, {"request": "?", **given}):
        answer = guarded(refused, None)
        assert (answer["status"], answer["body"]["code"]) == (401, "unauthorized")
    assert guarded("no object", None)["status"] == 401
    assert guarded({**event(), "token": "mine"}, None)["status"] == 200
