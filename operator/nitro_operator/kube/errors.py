"""Refusals of the API server as one exception."""

from collections.abc import Collection
from typing import Any

from nitro_operator.kube.decoding import decode

BEING_TERMINATED = "because it is being terminated"
"""Text of a refusal in a namespace that is being deleted. The API server's own also give the cause."""


def over_quota(message: str) -> bool:
    """Whether a refusal is that of a ResourceQuota: no room, or a limit that a container does not name."""
    return "exceeded quota" in message or "failed quota" in message


class ApiError(Exception):
    """The API server refused a request, or could not be reached (status 0)."""

    def __init__(self, status: int, reason: str, message: str, causes: Collection[str] = ()) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes

    @property
    def over_quota(self) -> bool:
        return self.status == 403 and over_quota(self.message)

    @property
    def namespace_terminating(self) -> bool:
        """Whether the namespace is being deleted, so that it accepts no new object."""
        told = "NamespaceTerminating" in self.causes or BEING_TERMINATED in self.message
        return self.status == 403 and told


def refusal_of(status: int, raw: bytes, told: Any = None) -> ApiError:
    """The error for a refused request; `told` is the API server's Status if it is already parsed."""
    if told is None:
        try:
            told = decode(raw)
        except ValueError:
            told = {}
    if not isinstance(told, dict):
        told = {}
    causes = [str(cause.get("reason")) for cause in (told.get("details") or {}).get("causes") or []]
    message = str(told.get("message") or raw[:500])
    return ApiError(status, str(told.get("reason") or "Error"), message, causes)
