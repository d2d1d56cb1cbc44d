"""The job's Secret: Redis users for learner and actors apart, and the token that actors ask for."""

from __future__ import annotations

import hashlib
import secrets

from nitro_operator import names
from nitro_operator.builders.redis import PORT
from nitro_operator.builders.view import JobView
from nitro_operator.kinds import Object

LEARNER_COMMANDS = "+@all -@admin -@dangerous +info"
ACTOR_COMMANDS = "+get +exists +rpush +expire +multi +exec +discard +ping +hello +auth +select"
"""Known to every Redis from 6: one that is not keeps Redis from starting."""


def credentials_secret(view: JobView) -> Object:
    """A new Secret with new passwords; it is immutable, so pods and Redis cannot come to disagree."""
    learner, actor, token = (secrets.token_urlsafe(32) for _ in range(3))
    host = f"{names.redis(view.name)}.{view.namespace}.svc"
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": view.metadata(names.credentials(view.name)),
        "type": "Opaque",
        "immutable": True,
        "stringData": {
            "redis-learner-url": f"redis://learner:{learner}@127.0.0.1:{PORT}/0",
            "redis-actor-url": f"redis://actor:{actor}@{host}:{PORT}/0",
            "redis-acl": _acl(view.uid, learner, actor),
            "token": token,
        },
    }


def _acl(run: str, learner: str, actor: str) -> str:
    """Redis' user file: passwords as hashes, keys of this run only; actors add results but read none."""
    keys = f"~nitro:{run}:*"
    users = [
        "user default off",
        f"user learner on #{_sha256(learner)} {keys} {LEARNER_COMMANDS}",
        f"user actor on #{_sha256(actor)} {keys} -@all {ACTOR_COMMANDS}",
    ]
    return "\n".join(users) + "\n"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
