"""The wire container: round trips, the safetensors format, and refusal of everything else."""

import json
import random
import struct
import time
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from nitro_actor import wire

META = {"run": "r", "round": 3, "text": "ä", "nested": {"list": [1, 2.5, None, True]}}
TENSORS = {
    "a/floats": np.arange(12, dtype=np.float32).reshape(3, 4),
    "doubles": np.linspace(0, 1, 5),
    "integers": np.array([[-1, 2**62]]),
    "words": np.array([2**64 - 1], np.uint64),
    "bytes": np.arange(7, dtype=np.uint8),
    "flags": np.array([True, False, True]),
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 11), np.float32),
}
DTYPES = ("float64", "float32", "int64", "int32", "uint64", "uint8", "bool")


def _raw(header: object, body: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def _entry(dtype: str, shape: list[object], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


EMPTY = {"__metadata__": {"nitro": "{}"}}


def test_round_trip() -> None:
    meta, tensors = wire.decode(wire.encode(META, TENSORS))
    assert meta == META
    assert set(tensors) == set(TENSORS)
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype
        assert tensors[name].shape == array.shape
        np.testing.assert_array_equal(tensors[name], array)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__" and wire.nameable(name)),
        st.sampled_from(DTYPES).flatmap(
            lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, min_side=0))
        ),
        max_size=4,
    )
)
@settings(max_examples=50, deadline=None)
def test_round_trip_of_any_tensors(tensors: dict[str, np.ndarray]) -> None:
    _, decoded = wire.decode(wire.encode({}, tensors))
    assert {k: (v.dtype, v.shape, v.tobytes()) for k, v in decoded.items()} == {
        k: (v.dtype, v.shape, v.tobytes()) for k, v in tensors.items()
    }


def test_equal_contents_give_equal_bytes() -> None:
    reordered = dict(reversed(TENSORS.items()))
    strided = {name: np.stack([array, array], -1)[..., 0] for name, array in reordered.items()}
    assert wire.encode(META, TENSORS) == wire.encode(dict(reversed(META.items())), strided)


def test_is_an_ordinary_safetensors_file() -> None:
    loaded = safetensors.numpy.load(wire.encode(META, TENSORS))
    for name, array in TENSORS.items():
        np.testing.assert_array_equal(loaded[name], array)
    _, decoded = wire.decode(safetensors.numpy.save(TENSORS, {"nitro": json.dumps(META)}))
    np.testing.assert_array_equal(decoded["a/floats"], TENSORS["a/floats"])


def test_large_messages_are_compressed() -> None:
    large = {"zeros": np.zeros(wire.COMPRESS_ABOVE, np.uint8)}
    data = wire.encode({}, large)
    assert data[:4] == zstandard.FRAME_HEADER
    assert len(data) < 1000
    np.testing.assert_array_equal(wire.decode(data)[1]["zeros"], large["zeros"])


def test_arrays_are_aligned_views() -> None:
    data = wire.encode(META, TENSORS)
    for array in wire.decode(data)[1].values():
        assert array.flags.aligned
        assert not array.flags.writeable


def test_encode_refuses_unsupported_tensors_and_metadata() -> None:
    with pytest.raises(wire.WireError, match="complex128"):
        wire.encode({}, {"a": np.zeros(1, complex)})
    with pytest.raises(wire.WireError, match="object"):
        wire.encode({}, {"a": np.array([{}])})
    with pytest.raises(wire.WireError, match="JSON"):
        wire.encode({"a": float("nan")}, {})
    with pytest.raises(wire.WireError, match="__metadata__"):
        wire.encode({}, {"__metadata__": np.zeros(1)})
    for name in ("a\nb", "a" * 201):
        with pytest.raises(wire.WireError, match="at most 200 characters, all of them printable"):
            wire.encode({}, {name: np.zeros(1)})


DEEP = b"[" * 200_000
FORGED = {
    "nothing": b"",
    "too short": b"\x02\0\0",
    "header beyond the message": _raw(b"{}", length=10**6),
    "header of 2^64 bytes": _raw(b"{}", length=2**64 - 1),
    "header no JSON": _raw(b"{nonsense"),
    "header no text": _raw(b"\xff\xfe\x00{}"),
    "header a list": _raw([]),
    "header nested without end": _raw(DEEP),
    "metadata nested without end": _raw({"__metadata__": {"nitro": DEEP.decode()}}),
    "number of a million digits": _raw(b'{"__metadata__":{"nitro":"{}"},"a":' + b"9" * 900_000 + b"}"),
    "metadata missing": _raw({"a": _entry("U8", [0], 0, 0)}),
    "metadata with another key": _raw({"__metadata__": {"nitro": "{}", "other": ""}}),
    "metadata no text": _raw({"__metadata__": {"nitro": {}}}),
    "metadata no object": _raw({"__metadata__": {"nitro": "[1]"}}),
    "metadata with NaN": _raw({"__metadata__": {"nitro": '{"a":NaN}'}}),
    "key twice": _raw(b'{"__metadata__":{"nitro":"{}"},"__metadata__":{"nitro":"{}"}}'),
    "unknown dtype": _raw(EMPTY | {"a": _entry("F8_E4M3", [1], 0, 1)}, b"\0"),
    "dtype no text": _raw(EMPTY | {"a": _entry([], [1], 0, 1)}, b"\0"),  # type: ignore[arg-type]
    "entry no object": _raw(EMPTY | {"a": 1}),
    "shape negative": _raw(EMPTY | {"a": _entry("U8", [-1, -1], 0, 1)}, b"\0"),
    "shape fractional": _raw(EMPTY | {"a": _entry("U8", [1.0], 0, 1)}, b"\0"),
    "shape true": _raw(EMPTY | {"a": _entry("U8", [True], 0, 1)}, b"\0"),
    "shape of 2^80 items": _raw(EMPTY | {"a": _entry("U8", [2**40, 2**40], 0, 1)}, b"\0"),
    "shape overflowing beside a zero": _raw(EMPTY | {"a": _entry("U8", [0, 2**62, 2**62], 0, 0)}),
    "shape of 100 axes": _raw(EMPTY | {"a": _entry("U8", [1] * 100, 0, 1)}, b"\0"),
    "bytes too few": _raw(EMPTY | {"a": _entry("F32", [4], 0, 8)}, b"\0" * 8),
    "offsets backwards": _raw(EMPTY | {"a": _entry("U8", [1], 1, 0)}, b"\0"),
    "offsets negative": _raw(EMPTY | {"a": _entry("U8", [1], -1, 0)}, b"\0"),
    "offsets beyond the message": _raw(EMPTY | {"a": _entry("U8", [9], 0, 9)}, b"\0"),
    "tensors overlapping": _raw(EMPTY | {n: _entry("U8", [1], 0, 1) for n in "ab"}, b"\0"),
    "gap before a tensor": _raw(EMPTY | {"a": _entry("U8", [1], 1, 2)}, b"\0\0"),
    "bytes behind the last tensor": _raw(EMPTY | {"a": _entry("U8", [1], 0, 1)}, b"\0\0"),
    "bool that is 2": _raw(EMPTY | {"a": _entry("BOOL", [1], 0, 1)}, b"\2"),
    "zstd without a size": zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * 100),
    "zstd cut": zstandard.compress(b"\0" * 1000)[:-3],
    "zstd with an appendix": zstandard.compress(wire.encode({}, {})) + b"more",
    "zstd twice": zstandard.compress(zstandard.compress(wire.encode({}, {}))),
    "zstd header only": zstandard.FRAME_HEADER,
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED.keys())
def test_refuses_forged_messages(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(data)


def test_a_shape_of_half_a_million_axes_is_refused_about_as_fast_as_it_is_read() -> None:
    """Their product would take a thousand times as long, in the learner's event loop."""
    entry = _entry("U8", [9] * 500_000, 0, 0)
    header = json.dumps(EMPTY | {"a": entry}, separators=(",", ":")).encode()
    began = time.process_time()
    json.loads(header)
    read = time.process_time()
    with pytest.raises(wire.WireError, match="malformed"):
        wire.decode(_raw(header))
    assert time.process_time() - read < 30 * (read - began)


def test_a_tensors_name_does_not_reach_a_log_as_it_is() -> None:
    with pytest.raises(wire.WireError) as refused:
        wire.decode(_raw(EMPTY | {"\x1b[2J\n" + "x" * 900_000: _entry("U8", [0], 0, 0)}))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


def test_refuses_sizes_beyond_the_limit_without_allocating() -> None:
    bomb = zstandard.compress(bytes(2 * wire.MAX_BYTES))
    # A frame that declares 2^62 bytes: magic, descriptor (8-byte size, one segment), size, a block.
    giant = zstandard.FRAME_HEADER + bytes([0xE0]) + struct.pack("<Q", 2**62) + b"\x01\0\0"
    tracemalloc.start()
    try:
        for data in (bomb, giant):
            with pytest.raises(wire.WireError, match="declares"):
                wire.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    with pytest.raises(wire.WireError, match="at most 10"):
        wire.decode(bytes(11), limit=10)
    with pytest.raises(wire.WireError, match="at most 100"):
        wire.decode(zstandard.compress(bytes(101)), limit=100)


def _damaged(rng: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    elif kind == 2:
        begin = rng.randrange(len(damaged))
        damaged[begin : begin + rng.randint(1, 30)] = rng.randbytes(rng.randint(0, 30))
    else:
        damaged[: rng.randint(1, 16)] = rng.randbytes(rng.randint(1, 16))
    return bytes(damaged)


@pytest.mark.parametrize("size", [50, 40_000], ids=["plain", "compressed"])
def test_fuzzed_messages_are_refused_or_whole(size: int) -> None:
    """Damage is refused as a WireError, or it hit only names and values."""
    rng = random.Random(size)
    noise = np.random.default_rng(size).normal(size=size).astype(np.float32)
    data = wire.encode(META, TENSORS | {"noise": noise})
    limit = 4 * len(data)
    refused = 0
    tracemalloc.start()
    try:
        for _ in range(500):
            try:
                _, tensors = wire.decode(_damaged(rng, data), limit=limit)
            except wire.WireError:
                refused += 1
            else:
                assert sum(array.nbytes for array in tensors.values()) <= limit
        assert tracemalloc.get_traced_memory()[1] < 4 * limit + 2**20
    finally:
        tracemalloc.stop()
    assert refused > 250


SPEC = {
    "x": wire.TensorSpec("float32", (3, None)),
    "i": wire.TensorSpec("int64", (2,), optional=True),
}


class TestCheck:
    def test_accepts(self) -> None:
        wire.check({"x": np.zeros((3, 9), np.float32)}, SPEC)

    @pytest.mark.parametrize(
        ("tensors", "message"),
        [
            ({}, "x: missing"),
            ({"x": np.zeros((3, 1))}, "x: dtype float64 instead of float32"),
            ({"x": np.zeros((2, 1), np.float32)}, r"x: shape \[2, 1\] instead of \[3, any\]"),
            ({"x": np.zeros(3, np.float32)}, r"x: shape \[3\]"),
            ({"x": np.full((3, 1), np.nan, np.float32)}, "x: holds NaN"),
            ({"x": np.full((3, 1), -np.inf, np.float32)}, "x: holds NaN or infinity"),
            ({"x": np.zeros((3, 1), np.float32), "y": np.zeros(1)}, "y: not expected"),
            ({"x": np.zeros((3, 1), np.float32), "i": np.zeros(3, np.int64)}, "i: shape"),
        ],
    )
    def test_refuses(self, tensors: dict[str, np.ndarray], message: str) -> None:
        with pytest.raises(wire.WireError, match=message):
            wire.check(tensors, SPEC)
