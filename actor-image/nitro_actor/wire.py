"""The container of every message: safetensors bytes, in a zstd frame when they are large.

The metadata of the safetensors header has the single key `nitro`, whose value is canonical JSON (several keys
would be written in random order by other implementations). The file is an ordinary safetensors file, so every
safetensors reader opens it. This module has its own reader because the library returns no metadata for bytes
in memory and copies every tensor; here the arrays are views of the message.

Nothing in a message is executed, and nothing is allocated before its size has been checked.

Format: https://github.com/huggingface/safetensors#format
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import zstandard

MAX_BYTES = 128 * 2**20
"""Largest message, before and after decompression."""

EXACT_IN_FLOAT32 = 2**24
"""float32, in which observations are sent, holds every whole number up to this one."""

COMPRESS_ABOVE = 64 * 2**10
"""Messages of more bytes than this are compressed; smaller ones cost more time than they save."""

_METADATA = "__metadata__"
_MAX_HEADER_BYTES = 2**20
_MAX_NAME = 200
_MAX_DIMENSIONS = 64  # numpy's own limit
_HEADER_LENGTH = struct.Struct("<Q")
_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class WireError(ValueError):
    """A message that is not what it claims to be. The text says what is wrong and where."""


@dataclass(frozen=True)
class TensorSpec:
    """What a tensor must look like. None in `shape` allows any length; `optional` allows its absence."""

    dtype: str
    shape: tuple[int | None, ...]
    optional: bool = False


def encode(meta: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> bytes:
    """Write a message; equal arguments give equal bytes.

    Raises:
        WireError: a dtype outside f64, f32, i64, i32, u64, u8, bool; a tensor's name that is too long or has
            control characters; metadata that JSON cannot express, such as NaN.
    """
    # Largest items first, as the safetensors library does: every array is aligned to its item size.
    arrays = sorted(
        ((name, np.ascontiguousarray(array)) for name, array in tensors.items()),
        key=lambda item: (-item[1].itemsize, item[0]),
    )
    if _METADATA in tensors:
        raise WireError(f"no tensor may be called {_METADATA}")
    header: dict[str, Any] = {_METADATA: {"nitro": _canonical(meta)}}
    offset = 0
    for name, array in arrays:
        _check_name(name)
        if not sendable(array.dtype):
            raise WireError(f"tensor {name}: dtype {array.dtype} cannot be sent; use one of {dtypes()}")
        end = offset + array.nbytes
        shape = list(np.shape(tensors[name]))
        header[name] = {"dtype": _NAMES[array.dtype], "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = _canonical(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(
        [_HEADER_LENGTH.pack(len(text)), text, *(array.data for _, array in arrays if array.size)]
    )
    if len(data) <= COMPRESS_ABOVE:
        return data
    return zstandard.ZstdCompressor(level=1).compress(data)


def decode(data: bytes, *, limit: int = MAX_BYTES) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a message. The arrays are read-only views of it (or of its decompressed copy).

    Raises:
        WireError: the bytes are no whole, consistent message of at most `limit` bytes.
    """
    if len(data) > limit:
        raise WireError(f"the message has {len(data)} bytes; at most {limit} are accepted")
    # No safetensors file starts with these bytes: as the length of its header they would mean 4 GB or more.
    if data[:4] == zstandard.FRAME_HEADER:
        data = _decompress(data, limit)
    header, body = _header(data)
    meta = _meta(header.pop(_METADATA, None))
    return meta, _tensors(header, body)


def nameable(name: object) -> bool:
    """Whether a tensor may have this name: it may stand in logs and in a status."""
    return isinstance(name, str) and len(name) <= _MAX_NAME and name.isprintable()


def sendable(dtype: np.dtype[Any]) -> bool:
    """Whether a message can have arrays of this dtype."""
    return dtype in _NAMES


def dtypes() -> str:
    """The dtypes that a message can have, for messages."""
    return ", ".join(str(dtype) for dtype in _NAMES)


def check(tensors: Mapping[str, np.ndarray], spec: Mapping[str, TensorSpec]) -> None:
    """Compare tensors with what is expected: names, dtypes, shapes; floats must be finite.

    Raises:
        WireError: naming the first tensor that differs, what it is and what it should be.
    """
    for name in tensors:
        if name not in spec:
            raise WireError(f"tensor {name}: not expected here")
    for name, want in spec.items():
        array = tensors.get(name)
        if array is None:
            if want.optional:
                continue
            raise WireError(f"tensor {name}: missing")
        if array.dtype != np.dtype(want.dtype):
            raise WireError(f"tensor {name}: dtype {array.dtype} instead of {want.dtype}")
        if len(array.shape) != len(want.shape) or any(
            w is not None and n != w for n, w in zip(array.shape, want.shape, strict=True)
        ):
            expected = ", ".join("any" if n is None else str(n) for n in want.shape)
            raise WireError(f"tensor {name}: shape {list(array.shape)} instead of [{expected}]")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise WireError(f"tensor {name}: holds NaN or infinity")


def _canonical(value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise WireError(f"the metadata is no JSON: {error}") from error


def _check_name(name: str) -> None:
    if not nameable(name):
        raise WireError(
            f"a tensor's name has {len(name)} characters and begins with {name[:40]!r}; a name has at most "
            f"{_MAX_NAME} characters, all of them printable"
        )


def _decompress(data: bytes, limit: int) -> bytes:
    try:
        size = zstandard.get_frame_parameters(data).content_size
        # zstandard ignores max_output_size where the frame declares a size, so the claim is checked first.
        if size in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
            raise WireError("the zstd frame does not declare its size")
        if size > limit:
            raise WireError(f"the zstd frame declares {size} bytes; at most {limit} are accepted")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=limit, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise WireError(f"the zstd frame is damaged: {error}") from error


def _header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """The safetensors header and the bytes behind it."""
    if len(data) < _HEADER_LENGTH.size:
        raise WireError(f"the message has {len(data)} bytes, too few for a header")
    (length,) = _HEADER_LENGTH.unpack_from(data)
    start = _HEADER_LENGTH.size + length
    if length > _MAX_HEADER_BYTES or start > len(data):
        raise WireError(f"the header claims {length} bytes in a message of {len(data)}")
    header = _json(data[_HEADER_LENGTH.size : start], "header")
    return header, memoryview(data)[start:]


def _meta(metadata: object) -> dict[str, Any]:
    if not isinstance(metadata, dict) or set(metadata) != {"nitro"} or not isinstance(metadata["nitro"], str):
        raise WireError("the header's metadata must be one text under the key 'nitro'")
    return _json(metadata["nitro"], "metadata")


def _json(text: bytes | str, what: str) -> dict[str, Any]:
    """Strict JSON: an object, no key twice, no NaN."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(f"the {what} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise WireError(f"the {what} is no JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _tensors(header: dict[str, Any], body: memoryview) -> dict[str, np.ndarray]:
    """Arrays over the body, which they must cover without gap or overlap."""
    entries = sorted((_entry(name, entry) for name, entry in header.items()), key=lambda entry: entry[3:])
    tensors = {}
    offset = 0
    for name, dtype, shape, begin, end in entries:
        if begin != offset or end - begin != math.prod(shape) * dtype.itemsize or end > len(body):
            raise WireError(f"tensor {name}: bytes {begin} to {end} do not fit its shape or the message")
        try:
            array = np.frombuffer(body[begin:end], dtype).reshape(shape)
        except ValueError as error:
            raise WireError(f"tensor {name}: {error}") from error
        # A bool is one byte; numpy defines no meaning for bytes other than 0 and 1.
        if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise WireError(f"tensor {name}: holds bytes that are neither true nor false")
        tensors[name] = array
        offset = end
    if offset != len(body):
        raise WireError(f"{len(body) - offset} bytes behind the last tensor")
    return tensors


def _entry(name: str, entry: dict[str, Any]) -> tuple[str, np.dtype[Any], tuple[int, ...], int, int]:
    _check_name(name)
    try:
        dtype = _DTYPES[entry["dtype"]]
        begin, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        # The product of many dimensions, or of huge ones, would take seconds.
        few = len(shape) <= _MAX_DIMENSIONS
        if few and all(type(n) is int and 0 <= n <= MAX_BYTES for n in (begin, end, *shape)):
            return name, dtype, shape, begin, end
    except (KeyError, TypeError, ValueError):
        pass
    raise WireError(f"tensor {name}: its entry in the header is malformed")
