"""Weights and fragments inside the messages, for actors that cannot reach Redis.

A Lambda invocation's request and response are JSON of at most 6 MB each; there is no binary Invoke
(https://github.com/aws/aws-lambda-roadmap/issues/91), so binary data travels in base64.
"""

import base64
import binascii

from nitro_actor.wire import WireError

LIMIT_BYTES = 6 * 2**20
"""Lambda's limit of a request and of a response."""

ENVELOPE_BYTES = 8 * 2**10
"""Bytes of a request and of a response that are reserved for metadata and for the JSON around the base64."""

CAPACITY_BYTES = (LIMIT_BYTES - ENVELOPE_BYTES) // 4 * 3
"""The largest size of a message in bytes; base64 takes four characters for three bytes."""


class ParcelTooLargeError(RuntimeError):
    """The fragment does not fit a response. The text names its size and the limit."""


class Parcel:
    """The weights that an invocation brought and the fragment that it returns, as a Store."""

    def __init__(self, weights: bytes) -> None:
        self._weights = weights
        self.fragment: str | None = None
        """The fragment in base64, once there is one."""

    def get(self, key: str) -> bytes | None:  # noqa: ARG002 - the weights that came are the ones asked for
        """The weights that the request carried; the actor checks that they are the right ones."""
        return self._weights

    def append(self, key: str, value: bytes, ttl: int) -> None:  # noqa: ARG002
        """Take the fragment.

        Raises:
            ParcelTooLargeError: it does not fit the response.
        """
        if len(value) > CAPACITY_BYTES:
            raise ParcelTooLargeError(
                f"the fragment has {len(value)} bytes, a Lambda response takes {CAPACITY_BYTES} "
                "(6 MB as base64)"
            )
        self.fragment = base64.b64encode(value).decode("ascii")


def unpack(text: object, name: str) -> bytes:
    """The bytes of a base64 text.

    Raises:
        WireError: the text is not base64; the message names the field.
    """
    if not isinstance(text, str):
        raise WireError(f"{name}: must be a text in base64, not {type(text).__name__}")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise WireError(f"{name}: is no base64: {error}") from error
