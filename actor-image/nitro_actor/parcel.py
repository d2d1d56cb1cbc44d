"""Weights and fragments inside the messages themselves, where an actor reaches no Redis.

A Lambda invocation's request and response are JSON of at most 6 MB each; there is no binary Invoke
(https://github.com/aws/aws-lambda-roadmap/issues/91), so what is binary travels in base64.
"""

import base64
import binascii

from nitro_actor.wire import WireError

PAYLOAD_BYTES = 6 * 2**20
"""Largest request and largest response of a synchronous invocation, JSON included (AWS: 6 MB each)."""

ENVELOPE_BYTES = 4096
"""Set aside in both for the JSON around the base64."""


class ParcelTooLargeError(RuntimeError):
    """The fragment does not fit a response. The text names size, limit and remedy."""


class Parcel:
    """What one invocation brought and what it takes back; the actor uses it like a Store."""

    def __init__(self, weights: bytes) -> None:
        self._weights = weights
        self.fragment: str | None = None
        """The fragment in base64, once there is one."""

    def get(self, key: str) -> bytes | None:  # noqa: ARG002 - the weights that came are the ones asked for
        """The weights that the request carried; the actor checks which ones they are."""
        return self._weights

    def append(self, key: str, value: bytes, ttl: int) -> None:  # noqa: ARG002
        """Take the fragment.

        Raises:
            ParcelTooLargeError: it does not fit the response.
        """
        size = encoded_bytes(len(value))
        if size > PAYLOAD_BYTES:
            raise ParcelTooLargeError(too_large("the fragment", size))
        self.fragment = pack(value)


def encoded_bytes(size: int) -> int:
    """Bytes of a message that carries `size` bytes in base64."""
    return 4 * -(-size // 3) + ENVELOPE_BYTES


def too_large(what: str, size: int) -> str:
    """The sentence about what does not fit."""
    return (
        f"{what} takes {size} bytes in a Lambda payload of at most {PAYLOAD_BYTES}; lower "
        "spec.environment.rolloutLength, make the network smaller, or let the function reach Redis "
        "(spec.backend.lambda.transport)"
    )


def pack(data: bytes) -> str:
    """Base64 text."""
    return base64.b64encode(data).decode("ascii")


def unpack(text: object, name: str) -> bytes:
    """The bytes of a base64 text.

    Raises:
        WireError: it is none; the text names the field.
    """
    if not isinstance(text, str):
        raise WireError(f"{name}: must be a text in base64, not {type(text).__name__}")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise WireError(f"{name}: is no base64: {error}") from error
