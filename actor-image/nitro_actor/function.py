"""The actor as a Lambda function: events and the answers to them.

    {"kind": "spec"}                                          the health invocation
        -> {"status": 200, "body": the environment's spaces, the protocol version, and the number of envs}
    {"kind": "rollout", "request": BASE64}                    weights and fragment through Redis
        -> {"status": 200, "body": the acknowledgement}
    {"kind": "rollout", "request": BASE64, "weights": BASE64} weights and fragment in the messages
        -> {"status": 200, "body": the acknowledgement, "fragment": BASE64}

Every event has the job's token too, {"token": TEXT}, if the function asks for one. `request` is the body of
POST /v1/rollout, and `status` and `body` are those of its answer. An error of the request or of the
environment is an answer, not a failed invocation. The invocation itself fails only if the sandbox dies, runs
out of time or cannot build its environment.
"""

import hashlib
import hmac
import time
from typing import Any

from nitro_actor import wire
from nitro_actor.actor import Actor
from nitro_actor.answers import RefusedError, logged, work
from nitro_actor.parcel import Parcel, unpack
from nitro_actor.protocol.request import Request
from nitro_actor.store import Store

_IDLE_SECONDS = 60.0
"""A sandbox is frozen between invocations; a connection that was idle for long may be dead unnoticed."""


class Function:
    """Answer events, one at a time, with one environment for the sandbox's whole life.

    Args:
        actor: built in the init phase; it keeps the newest weights across invocations.
        store: Redis, for requests without weights; None if the function reaches no Redis.
        token_sha256: hash of the token that events must carry, in hexadecimal; None if they need no token.
    """

    def __init__(self, actor: Actor, store: Store | None, token_sha256: str | None = None) -> None:
        self._actor = actor
        self._store = store
        self._token_sha256 = token_sha256
        self._stored_at = 0.0

    def __call__(self, event: object, context: object) -> dict[str, Any]:  # noqa: ARG002
        """Answer one event, as awslambdaric calls a handler."""
        fields = event if isinstance(event, dict) else {}
        try:
            self._authorise(fields.get("token"))
            kind = fields.get("kind")
            if kind == "rollout":
                return self._rollout(fields)
            if kind == "spec":
                environment = self._actor.environment
                # Somebody else may have set their number, so whoever uses the function has to check it.
                return {"status": 200, "body": environment.spec.to_json() | {"envs": environment.count}}
            raise wire.WireError(f"kind: {kind!r} is neither 'rollout' nor 'spec'")
        except Exception as error:
            status, body = logged("refused", error, level="warning")
            return {"status": status, "body": body}

    def _authorise(self, token: object) -> None:
        """Raise RefusedError unless the event carries the token."""
        given = hashlib.sha256(str(token).encode(errors="replace")).hexdigest()
        if self._token_sha256 is not None and not hmac.compare_digest(given, self._token_sha256):
            raise RefusedError(401, "unauthorized", "the event does not carry the job's token")

    def _rollout(self, event: dict[str, Any]) -> dict[str, Any]:
        request = Request.decode(unpack(event.get("request"), "request"))
        if "weights" not in event:
            if self._store is None:
                raise wire.WireError(
                    "weights: the request carries none, and the function has no NITRO_REDIS_URL"
                )
            # Wall-clock time, because other clocks may stand still while the sandbox is frozen.
            if time.time() - self._stored_at > _IDLE_SECONDS:
                self._store.close()
            status, body = work(self._actor, request, self._store)
            self._stored_at = time.time()
            return {"status": status, "body": body}
        parcel = Parcel(unpack(event["weights"], "weights"))
        status, body = work(self._actor, request, parcel)
        answer = {"status": status, "body": body}
        return answer | {"fragment": parcel.fragment} if status == 200 else answer
