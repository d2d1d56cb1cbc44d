"""JSON of any depth is read as far as the operator needs it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_operator.kube.decoding import KEPT_LEVELS, decode, levels

MOST = 10_000
"""What the API server stores."""


DEEP = b"[" * MOST + b"1" + b"]" * MOST


DEEP_OBJECT = b'{"a\\"]}":' * MOST + b'"[{"' + b"}" * MOST


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_json_of_usual_depth_is_decoded_completely(value: Any) -> None:
    assert decode(json.dumps(value).encode()) == value


@given(VALUES, VALUES)
@pytest.mark.slow
@pytest.mark.parametrize("deep", [DEEP, DEEP_OBJECT], ids=["lists", "objects"])
def test_values_beside_a_too_deep_one_are_decoded_completely(deep: bytes, left: Any, right: Any) -> None:
    first, last = (json.dumps(value).encode() for value in (left, right))
    found = decode(b'{"items": [{"a": %s}, {"b": %s, "c": 1}, %s]}' % (first, deep, last))
    assert found["items"][0] == {"a": left}
    assert found["items"][1]["c"] == 1
    assert found["items"][2] == right
    assert levels(found["items"][1]["b"]) <= KEPT_LEVELS


@pytest.mark.parametrize("text", [b"", b"{", b"<html>", b"[" * MOST, b"]" * MOST, DEEP + b"]", b'{"a'])
def test_invalid_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"line 1"):
        decode(text)
