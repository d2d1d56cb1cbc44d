"""The Secrets that the operator makes."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.builders import credentials_secret
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import Kind
from nitro_operator.kube.secrets import get_or_create
from operator_objects import OWNER, make_view

Object = dict[str, Any]


class LosingKube:
    """An API server whose answer to the first creation was lost: the client has sent it again."""

    def __init__(self, owner: Object) -> None:
        self._owner = owner
        self._stored: Object | None = None

    async def get(self, _: Kind, __: str, name: str) -> Object:
        if self._stored is None:
            raise ApiError(404, "NotFound", name)
        return self._stored

    async def create(self, secret: Object) -> Object:
        self._stored = {**secret, "metadata": {**secret["metadata"], "ownerReferences": [self._owner]}}
        raise ApiError(409, "AlreadyExists", "secrets already exists")


async def test_a_secret_whose_creation_was_answered_late_is_the_jobs_own() -> None:
    wanted = credentials_secret(make_view())
    found = await get_or_create(LosingKube(OWNER), wanted)  # type: ignore[arg-type]
    assert found["stringData"] == wanted["stringData"]


async def test_a_secret_that_somebody_else_made_at_the_same_time_is_refused() -> None:
    stranger = LosingKube({**OWNER, "uid": "another"})
    with pytest.raises(ApiError, match="another owner"):
        await get_or_create(stranger, credentials_secret(make_view()))  # type: ignore[arg-type]
