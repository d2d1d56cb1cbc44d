"""A fragment is read only if it is exactly what was asked for; everything else is refused with its reason."""

import itertools
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatch_support import ENVIRONMENT, ENVS, STEPS, fragment_bytes, fragment_of, old, stored
from learner_support import plain
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_learner.sampling import fragments
from nitro_learner.sampling.fragments import Expectation, FragmentRefused, SlotRequest

REQUEST = {
    "kind": "rollout",
    "run": "run-1",
    "round": 3,
    "slot": 1,
    "attempt": 0,
    "seed": 77,
    "steps": STEPS,
    "weights": {"version": 3},
}
Change = Callable[[dict[str, Any], dict[str, np.ndarray]], None]


def expectation(**changes: Any) -> Expectation:
    values = {
        "run": "run-1",
        "round": 3,
        "weights_version": 3,
        "environment": DescribedEnvironment.from_json(ENVIRONMENT),
    }
    values |= {"optional_tensors": frozenset(OPTIONAL_TENSORS)}
    values |= {"steps": STEPS, "envs": ENVS, "slots": {1: SlotRequest(77)}} | changes
    return Expectation("rollout", **values)


def refused(data: bytes, expect: Expectation | None = None) -> FragmentRefused:
    with pytest.raises(FragmentRefused) as caught:
        fragments.read(data, expect or expectation())
    return caught.value


def test_a_sound_fragment_is_read() -> None:
    meta, tensors = fragment_of(REQUEST)
    fragment = fragments.read(fragment_bytes(meta, tensors), expectation())
    assert fragment.slot == 1
    assert fragment.meta["attempt"] == 0
    found = plain(fragment)
    assert set(found) == set(tensors)
    for name, array in tensors.items():
        np.testing.assert_array_equal(found[name], array)
    assert list(fragments.end_state(fragment)) == ["state/qpos"]


OF_ONE_AGENT = ("log_probs", "distribution")
SETS = [frozenset(names) for size in range(3) for names in itertools.combinations(OF_ONE_AGENT, size)]


@pytest.mark.parametrize("wanted", SETS, ids=lambda names: "+".join(sorted(names)) or "none")
def test_a_fragment_has_exactly_the_optional_tensors_that_were_asked_for(wanted: frozenset[str]) -> None:
    expect = expectation(optional_tensors=wanted)
    for held in SETS:
        data = stored(REQUEST | {"optionalTensors": list(held)})
        if held == wanted:
            assert set(plain(fragments.read(data, expect))) & set(OPTIONAL_TENSORS) == wanted
        else:
            refusal = refused(data, expect)
            assert refusal.reason == "wrong_shape"
            surprising = held - wanted
            assert any(f"agent/{name}" in str(refusal) for name in surprising or wanted - held)


def meta(**changes: Any) -> Change:
    return lambda meta, _: meta.update(changes)


def tensor(name: str, value: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda _, tensors: tensors.update({name: value(tensors[name])})


def with_value(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def put(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[3] = value
        return array

    return put


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (meta(run="run-2"), "other_run"),
        (meta(round=2), "other_round"),
        (meta(kind="evaluate"), "other_round"),
        (meta(slot=2), "wrong_slot"),
        (meta(weightsVersion=2), "stale_weights"),
        (meta(seed=78), "wrong_seed"),
        (meta(protocol=1), "garbage"),
        (meta(protocol=3), "garbage"),
        (meta(kind="train"), "garbage"),
        (meta(slot="1"), "garbage"),
        (meta(slot=True), "garbage"),
        (meta(attempt=-1), "garbage"),
        (meta(extra=1), "garbage"),
        (meta(steps=STEPS * 2), "wrong_shape"),
        (meta(envs=1), "wrong_shape"),
        (meta(resumed=1), "garbage"),
        (meta(resumed=True), "inconsistent"),
        (tensor("observations", lambda a: a[1:]), "wrong_shape"),
        (tensor("rewards", lambda a: a.astype(np.float64)), "wrong_shape"),
        (tensor("distribution", lambda a: a[..., :2]), "wrong_shape"),
        (lambda _, t: t.pop("log_probs"), "wrong_shape"),
        (lambda _, t: t.update(surprise=np.zeros(3)), "wrong_shape"),
        (tensor("observations", with_value(np.nan)), "not_finite"),
        (tensor("last_observations", with_value(np.inf)), "not_finite"),
        (tensor("rewards", with_value(-np.inf)), "not_finite"),
        (tensor("state/qpos", with_value(np.nan)), "not_finite"),
        (tensor("final_observations", lambda a: np.repeat(a, 2, axis=0)), "inconsistent"),
        (tensor("final_observations", lambda a: a[:0]), "inconsistent"),
        (tensor("truncated", np.ones_like), "inconsistent"),
        (tensor("episode_returns", lambda a: a[:1]), "inconsistent"),
        (tensor("episode_lengths", np.zeros_like), "inconsistent"),
        (lambda _, t: t.pop("state/qpos"), "inconsistent"),
    ],
)
def test_a_wrong_fragment_is_refused_with_its_reason(change: Change, reason: str) -> None:
    meta, tensors = fragment_of(REQUEST)
    change(meta, tensors)
    assert refused(fragment_bytes(meta, tensors)).reason == reason


def test_a_fragment_of_the_release_before_is_refused_with_both_versions() -> None:
    refusal = refused(old(REQUEST))
    assert refusal.reason == "garbage"
    assert "the fragment is of protocol 1, this learner speaks 2" in str(refusal)


def test_the_own_state_of_an_environment_may_be_infinite() -> None:
    meta, tensors = fragment_of(REQUEST)
    tensors["state/own/best"] = np.array([-np.inf, np.nan])
    fragment = fragments.read(fragment_bytes(meta, tensors), expectation())
    np.testing.assert_array_equal(fragment.tensors["state/own/best"], [-np.inf, np.nan])


def test_a_refusal_knows_the_slot_when_the_fragment_is_of_this_round() -> None:
    meta, tensors = fragment_of(REQUEST | {"attempt": 2})
    tensors["rewards"][0] = np.nan
    refusal = refused(fragment_bytes(meta, tensors))
    assert (refusal.task, refusal.attempt) == (1, 2)
    assert refused(b"nothing of ours").task is None


@pytest.mark.parametrize("compressed", [False, True])
def test_a_fragment_cut_anywhere_is_refused_as_truncated(compressed: bool) -> None:
    data = stored(REQUEST)
    if compressed:
        data = zstandard.ZstdCompressor(level=1).compress(data)
    for end in range(16, len(data), 97):
        assert refused(data[:end]).reason == "truncated", end


@pytest.mark.parametrize("data", [b"", b"\x00" * 64, b"<html>502 Bad Gateway</html>", b"\xff" * 1000])
def test_garbage(data: bytes) -> None:
    assert refused(data).reason == "garbage"


def test_too_large_is_refused_before_anything_is_decompressed() -> None:
    limit = expectation().byte_limit
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(limit + 1))
    assert len(bomb) < 10_000
    assert refused(bomb).reason == "too_large"
    assert refused(bytes(limit + 1)).reason == "too_large"


def test_the_limit_leaves_room_for_every_sound_fragment() -> None:
    """A truncation at every step carries as many final observations as observations."""
    meta, tensors = fragment_of(REQUEST)
    tensors["truncated"][:] = True
    tensors["terminated"][:] = False
    tensors["final_observations"] = np.zeros((STEPS, 3), np.float32)
    tensors["episode_returns"], tensors["episode_lengths"] = np.zeros(STEPS), np.ones(STEPS, np.int64)
    assert (
        len(plain(fragments.read(fragment_bytes(meta, tensors), expectation()))["final_observations"])
        == STEPS
    )


def test_discrete_actions_stay_inside_their_range() -> None:
    environment = DescribedEnvironment.from_json(
        ENVIRONMENT | {"action": {"kind": "discrete", "n": 4}, "resumable": False}
    )
    meta, tensors = fragment_of(REQUEST)
    del tensors["state/qpos"]
    tensors["actions"] = np.zeros((STEPS // ENVS, ENVS), np.int64)
    expect = expectation(environment=environment)
    fragments.read(fragment_bytes(meta, tensors), expect)
    for wrong in (-1, 4):
        tensors["actions"][1, 0] = wrong
        assert refused(fragment_bytes(meta, tensors), expect).reason == "inconsistent"


def test_an_evaluation_has_exactly_the_episodes_asked_for() -> None:
    request = {name: REQUEST[name] for name in ("run", "round", "slot", "attempt", "seed", "weights")}
    meta, tensors = fragment_of(request | {"kind": "evaluate", "episodes": 2})
    expect = Expectation(
        "evaluate",
        "run-1",
        3,
        3,
        DescribedEnvironment.from_json(ENVIRONMENT),
        slots={1: SlotRequest(77, episodes=2)},
    )
    assert len(fragments.read(fragment_bytes(meta, tensors), expect).tensors["episode_returns"]) == 2
    tensors = {name: array[:1] for name, array in tensors.items()}
    assert refused(fragment_bytes(meta, tensors), expect).reason == "wrong_shape"


SOUND = stored(REQUEST)


def _edit(position: int, value: int) -> bytes:
    data = bytearray(SOUND)
    data[position % len(data)] = value
    return bytes(data)


messages = st.one_of(
    st.binary(max_size=2000),
    st.builds(_edit, st.integers(0, 2**16), st.integers(0, 255)),
    st.builds(lambda end: SOUND[:end], st.integers(0, len(SOUND) - 1)),
    st.builds(lambda body: zstandard.ZstdCompressor().compress(body), st.binary(max_size=2000)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ).map(lambda value: (text := json.dumps(value).encode(), struct.pack("<Q", len(text)) + text)[1]),
)


@settings(max_examples=1000, deadline=None)
@given(messages)
@example(b"(\xb5/\xfd")
def test_fuzzed_messages_are_refused_or_sound(data: bytes) -> None:
    """Nothing but FragmentRefused comes out; an edit that is read left every check satisfied."""
    try:
        fragment = fragments.read(data, expectation())
    except FragmentRefused:
        return
    assert fragment.meta["seed"] == 77
    assert all(np.isfinite(array).all() for array in plain(fragment).values() if array.dtype.kind == "f")
