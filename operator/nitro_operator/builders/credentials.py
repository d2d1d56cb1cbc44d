"""The job's Secret: the token that actors require, and separate Redis users for learner and actors."""

import hashlib
import secrets

from nitro_operator.builders.redis import PORT
from nitro_operator.builders.view import JobView
from nitro_operator.kube import names
from nitro_operator.kube.kinds import Object

LEARNER_COMMANDS = "+@all -@admin -@dangerous +info"
ACTOR_COMMANDS = "+get +exists +rpush +expire +multi +exec +discard +ping +hello +auth +select"
"""Commands that Redis 6 and newer know. Redis does not start with an unknown command in its user file."""


def credentials_secret(view: JobView) -> Object:
    """A new Secret with new passwords. It is immutable, so pods and Redis always have the same passwords."""
    data = {"token": secrets.token_urlsafe(32)} | (_redis(view) if view.has_redis else {})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": view.metadata(view.credentials),
        "type": "Opaque",
        "immutable": True,
        "stringData": data,
    }


def _redis(view: JobView) -> dict[str, str]:
    learner, actor = (secrets.token_urlsafe(32) for _ in range(2))
    host = f"{names.redis(view.name)}.{view.namespace}.svc"
    return {
        "redis-learner-url": f"redis://learner:{learner}@127.0.0.1:{PORT}/0",
        "redis-actor-url": f"redis://actor:{actor}@{host}:{PORT}/0",
        "redis-acl": _acl(view.uid, learner, actor),
    }


def _acl(run: str, learner: str, actor: str) -> str:
    """Redis' user file, with passwords as hashes. Users see only keys of this run. Actors cannot read
    results."""
    keys = f"~nitro:{run}:*"
    users = [
        "user default off",
        f"user learner on #{_sha256(learner)} {keys} {LEARNER_COMMANDS}",
        f"user actor on #{_sha256(actor)} {keys} -@all {ACTOR_COMMANDS}",
    ]
    return "\n".join(users) + "\n"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
