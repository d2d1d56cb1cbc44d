"""A filter of a socket: the kernel drops the packets of some sources. It needs no right.

For a listening socket that is before any queue, so a connection from there costs next to nothing. Each
connection inherits the filter of the socket that it came through.
"""

import contextlib
import ctypes
import ipaddress
import socket
import struct
import sys
from collections.abc import Collection, Iterable

_ATTACH, _DETACH = 26, 27  # socket options of Linux, which the socket module does not have


def attach(to: socket.socket, sources: Collection[str]) -> None:
    """Have the kernel drop what comes from these IP addresses; from no address, if there is none."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # a kernel without filters, or none was attached
        if not sources:
            to.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
            return
        program = _program(sources)
        kept = ctypes.create_string_buffer(program)
        pointer = struct.pack("HL", len(program) // 8, ctypes.addressof(kept))
        to.setsockopt(socket.SOL_SOCKET, _ATTACH, pointer)


# Instructions of a classic BPF program: the operation, two jumps and a number.
_LOAD_WORD, _LOAD_BYTE, _SHIFT_RIGHT, _JUMP, _IF_EQUAL, _RETURN = 0x20, 0x30, 0x74, 0x05, 0x15, 0x06
_NETWORK = 0xFFF00000
"""Where the IP header begins, whatever the packet begins with."""
_KEEP, _DROP = 0xFFFFFFFF, 0


def _program(sources: Iterable[str]) -> bytes:
    """A program that drops the packets of these sources."""
    addresses = [ipaddress.ip_address(source) for source in sources]
    old = [line for address in addresses if address.version == 4 for line in _drop(address.packed, 12)]
    new = [line for address in addresses if address.version == 6 for line in _drop(address.packed, 8)]
    keep = (_RETURN, 0, 0, _KEEP)
    lines = [
        (_LOAD_BYTE, 0, 0, _NETWORK),
        (_SHIFT_RIGHT, 0, 0, 4),  # the IP version
        (_IF_EQUAL, 1, 0, 4),
        (_JUMP, 0, 0, len(old) + 1),
        *old,
        keep,
        *new,
        keep,
    ]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _drop(address: bytes, at: int) -> list[tuple[int, int, int, int]]:
    """Instructions that drop a packet with this source, which begins at that byte of the IP header."""
    words = struct.unpack(f"!{len(address) // 4}I", address)
    lines: list[tuple[int, int, int, int]] = []
    for index, word in enumerate(words):
        lines.append((_LOAD_WORD, 0, 0, _NETWORK + at + 4 * index))
        after = 2 * (len(words) - index - 1) + 1  # the rest of this address
        lines.append((_IF_EQUAL, 0, after, word))
    return [*lines, (_RETURN, 0, 0, _DROP)]
