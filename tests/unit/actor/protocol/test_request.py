"""Requests: what is read, and that every wrong field is refused by name."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from actor_support import request
from nitro_actor import wire
from nitro_actor.protocol.fields import ProtocolError
from nitro_actor.protocol.request import OPTIONAL_TENSORS, Request
from nitro_api.algorithms.record import OptionalTensor


def _parse(tensors: dict[str, np.ndarray] | None = None, **changes: Any) -> Request:
    meta = {name: value for name, value in request(**changes).items() if value is not ...}
    return Request.decode(wire.encode(meta, tensors or {}))


def test_rollout() -> None:
    parsed = _parse({"state/physics": np.zeros(3)})
    assert (parsed.kind, parsed.run, parsed.round, parsed.slot) == ("rollout", "test-run", 3, 5)
    assert (parsed.steps, parsed.episodes) == (64, 0)
    assert set(parsed.state) == {"physics"}


@pytest.mark.parametrize("names", [[], ["log_probs"], ["distribution", "log_probs"]])
def test_a_rollout_names_the_optional_tensors_that_the_learner_wants(names: list[str]) -> None:
    assert _parse(optionalTensors=names).optional_tensors == set(names)


def test_an_evaluation_wants_no_optional_tensors() -> None:
    evaluation = _parse(kind="evaluate", steps=..., optionalTensors=..., episodes=6, maxSteps=1000)
    assert evaluation.optional_tensors == set()
    assert "optionalTensors" not in wire.decode(evaluation.encode())[0]


def test_the_records_and_the_protocol_know_the_same_optional_tensors() -> None:
    assert get_args(OptionalTensor) == OPTIONAL_TENSORS


def test_evaluation() -> None:
    parsed = _parse(kind="evaluate", steps=..., episodes=6, maxSteps=1000)
    assert (parsed.steps, parsed.episodes, parsed.max_steps) == (0, 6, 1000)


@pytest.mark.parametrize("protocol", [0, 1, 3, "2", None, ...])
def test_other_protocols_name_both_versions(protocol: object) -> None:
    with pytest.raises(ProtocolError, match="speaks 2"):
        _parse(protocol=protocol)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "train"}, "kind"),
        ({"kind": ...}, "kind"),
        ({"run": ""}, "run"),
        ({"run": "a:b"}, "run"),
        ({"run": "x" * 200}, "run"),
        ({"round": -1}, "round"),
        ({"slot": True}, "slot"),
        ({"attempt": 1.0}, "attempt"),
        ({"seed": 2**63}, "seed"),
        ({"seed": ...}, "seed"),
        ({"steps": 0}, "steps"),
        ({"steps": 10**9}, "steps"),
        ({"optionalTensors": ...}, "optionalTensors: None is no list"),
        ({"optionalTensors": "log_probs"}, "optionalTensors: 'log_probs' is no list"),
        ({"optionalTensors": {"log_probs": True}}, "optionalTensors: .* is no list"),
        ({"optionalTensors": ["rewards"]}, "optionalTensors: 'rewards' is none of .*log_probs.*distribution"),
        ({"optionalTensors": [["log_probs"]]}, "optionalTensors: .* is none of"),
        ({"optionalTensors": ["log_probs", 1]}, "optionalTensors: 1 is none of"),
        ({"optionalTensors": ["log_probs", "log_probs"]}, "optionalTensors: 'log_probs' occurs twice"),
        ({"kind": "evaluate", "episodes": 0, "maxSteps": 1}, "episodes"),
        ({"kind": "evaluate", "episodes": 1}, "maxSteps"),
        ({"weights": []}, "weights"),
        ({"weights": {"version": 1}}, r"weights\.key"),
        ({"weights": {"version": 1, "key": "nitro:other-run:weights:1"}}, r"weights\.key"),
        ({"result": {"key": "nitro:test-run:round:3"}}, "ttl"),
        ({"result": {"key": "nitro:test-run:round:3", "ttl": 10**9}}, "ttl"),
        ({"result": {"key": "elsewhere", "ttl": 60}}, r"result\.key"),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(wire.WireError, match=message):
        _parse(**changes)


def test_tensors_that_are_no_state_are_refused() -> None:
    with pytest.raises(wire.WireError, match="other: not expected"):
        _parse({"other": np.zeros(1)})
    with pytest.raises(wire.WireError, match="takes no state"):
        _parse({"state/physics": np.zeros(1)}, kind="evaluate", episodes=1, maxSteps=1)


SMALL = st.integers(0, 2**53)
common = {
    "run": st.just("run-1"),
    "round": SMALL,
    "slot": SMALL,
    "attempt": SMALL,
    "seed": st.integers(0, 2**63 - 1),
    "weights_version": SMALL,
    "weights_key": st.just("nitro:run-1:weights:1"),
    "result_key": st.just("nitro:run-1:round:1"),
    "ttl": st.integers(1, 7 * 86400),
}
steps = st.integers(1, 10**7)
rollouts = st.builds(
    Request,
    kind=st.just("rollout"),
    steps=steps,
    optional_tensors=st.frozensets(st.sampled_from(OPTIONAL_TENSORS)),
    state=st.dictionaries(
        st.sampled_from(("physics", "own/a", "b")), npst.arrays("float64", npst.array_shapes(max_side=3))
    ),
    **common,
)
evaluations = st.builds(
    Request, kind=st.just("evaluate"), episodes=st.integers(1, 1000), max_steps=steps, **common
)


@settings(max_examples=200, deadline=None)
@given(rollouts | evaluations)
def test_decode_returns_the_encoded_request(sent: Request) -> None:
    read = Request.decode(sent.encode())
    assert replace(read, state={}) == replace(sent, state={})
    assert read.state.keys() == sent.state.keys()
    for name, array in sent.state.items():
        np.testing.assert_array_equal(read.state[name], array)
