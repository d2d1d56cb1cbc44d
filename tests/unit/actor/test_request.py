"""Requests: what is read, and that every wrong field is refused by name."""

from typing import Any

import numpy as np
import pytest

from actor_support import request
from nitro_actor import request as requests
from nitro_actor import wire


def _parse(tensors: dict[str, np.ndarray] | None = None, **changes: Any) -> requests.Request:
    meta = {name: value for name, value in request(**changes).items() if value is not ...}
    return requests.parse(wire.encode(meta, tensors or {}))


def test_rollout() -> None:
    parsed = _parse({"state/physics": np.zeros(3)})
    assert (parsed.kind, parsed.run, parsed.round, parsed.slot) == ("rollout", "test-run", 3, 5)
    assert (parsed.steps, parsed.episodes) == (64, 0)
    assert set(parsed.state) == {"physics"}


def test_evaluation() -> None:
    parsed = _parse(kind="evaluate", steps=..., episodes=6, maxSteps=1000)
    assert (parsed.steps, parsed.episodes, parsed.max_steps) == (0, 6, 1000)


@pytest.mark.parametrize("protocol", [0, 2, "1", None, ...])
def test_other_protocols_name_both_versions(protocol: object) -> None:
    with pytest.raises(requests.ProtocolError, match="speaks 1"):
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


def test_refuses_tensors_that_are_no_state() -> None:
    with pytest.raises(wire.WireError, match="other: not expected"):
        _parse({"other": np.zeros(1)})
    with pytest.raises(wire.WireError, match="takes no state"):
        _parse({"state/physics": np.zeros(1)}, kind="evaluate", episodes=1, maxSteps=1)
