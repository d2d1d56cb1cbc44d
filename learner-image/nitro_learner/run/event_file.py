"""A file of TensorBoard's events, written without the tensorboard package, whose import takes a second.

The file is a series of records: the length of the data in eight bytes, its checksum, the data, its checksum.
The data is an `Event` of TensorBoard's event.proto, of which only a few fields are needed here.
"""

import functools
import math
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

_VERSION = b"brain.Event:2"
_POLYNOMIAL = 0x82F63B78
"""Of CRC-32C, with its bits reversed."""
_MASK = 0xA282EAD8
_START = 1
"""SessionLog.START"""


class EventFile:
    """A new file in a folder, which is made if it is not there. Each event is handed to the system at once.

    Raises, here and in the methods: OSError
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        # As TensorBoard names it: it reads the files of a folder in the order of their names.
        name = (
            f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        )
        self._file = (folder / name).open("xb")
        self._add(now, 0, _text(3, _VERSION))

    def session_begins(self, step: int) -> None:
        """Have TensorBoard hide what earlier files of the folder say of this step and later ones."""
        self._add(time.time(), step, _text(7, _number(1, _START)))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Add the values of a step, by their tags."""
        summary = b"".join(
            _text(1, _text(1, tag.encode()) + _key(2, 5) + _float(value)) for tag, value in values.items()
        )
        self._add(time.time(), step, _text(5, summary))

    def close(self) -> None:
        self._file.close()

    def _add(self, at: float, step: int, what: bytes) -> None:
        event = _key(1, 1) + struct.pack("<d", at) + _number(2, step) + what
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))
        self._file.flush()


def _key(field: int, kind: int) -> bytes:
    """What a field begins with; see protobuf's encoding."""
    return _varint(field << 3 | kind)


def _number(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value)


def _text(field: int, value: bytes) -> bytes:
    return _key(field, 2) + _varint(len(value)) + value


def _float(value: float) -> bytes:
    """A number in 32 bits; one that is too large for them is infinite."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _varint(value: int) -> bytes:
    """A number that is not negative, seven bits a byte."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _checksum(data: bytes) -> bytes:
    """The masked CRC-32C of the data."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)


@functools.cache
def _table() -> tuple[int, ...]:
    remainders = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        remainders.append(value)
    return tuple(remainders)
