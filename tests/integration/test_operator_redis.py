"""The user file that the operator writes, on a real Redis: it loads, and each user can do its work and no
more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from job_redis import job_redis
from nitro_api import load_job, resolve
from nitro_operator.builders import JobView, credentials_secret
from nitro_operator.config import Config
from operator_support import JOB

RUN = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The URLs of both users, towards a Redis that has the generated user file."""
    images = {f"NITRO_{name}_IMAGE": "x" for name in ("ACTOR", "LEARNER", "REDIS")}
    job = {**JOB, "metadata": {"name": "hopper", "namespace": "team", "uid": RUN}}
    spec = resolve(load_job({**JOB, "metadata": {"name": "hopper"}})).spec
    secret = credentials_secret(JobView.of(job, spec, Config.from_environment(images)))["stringData"]
    with job_redis(secret, tmp_path_factory.mktemp("redis")) as found:
        yield found


def test_the_learners_user_may_use_every_command_of_the_cache(urls: dict[str, str]) -> None:
    client = redis.Redis.from_url(urls["learner"])
    key = f"nitro:{RUN}:round:1"
    client.set(f"nitro:{RUN}:weights:1", b"x", ex=60)
    assert client.exists(f"nitro:{RUN}:weights:1") == 1
    assert client.blpop([key], timeout=0.1) is None
    assert client.lpop(key, 10) is None
    client.unlink(key)
    assert "used_memory" in client.info("memory")
    for forbidden in (
        lambda: client.set("other", 1),
        client.flushall,
        lambda: client.config_set("maxmemory", 1),
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            forbidden()


def test_an_actor_reads_weights_and_adds_fragments_but_reads_none(urls: dict[str, str]) -> None:
    learner, actor = (redis.Redis.from_url(urls[user]) for user in ("learner", "actor"))
    key = f"nitro:{RUN}:round:2"
    learner.set(f"nitro:{RUN}:weights:2", b"weights")
    assert actor.get(f"nitro:{RUN}:weights:2") == b"weights"
    with actor.pipeline(transaction=True) as pipe:
        pipe.rpush(key, b"fragment")
        pipe.expire(key, 60)
        assert pipe.execute() == [1, True]
    assert learner.blpop([key], timeout=1) == (key.encode(), b"fragment")
    for forbidden in (
        lambda: actor.lrange(key, 0, -1),
        lambda: actor.set(f"nitro:{RUN}:weights:2", b"worse"),
        lambda: actor.get("nitro:another-run:weights:2"),
        lambda: actor.delete(key),
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            forbidden()


def test_a_connection_without_a_password_is_refused(urls: dict[str, str]) -> None:
    port = urls["actor"].rsplit(":", 1)[1].split("/")[0]
    with pytest.raises(redis.exceptions.AuthenticationError):
        redis.Redis.from_url(f"redis://127.0.0.1:{port}/0").ping()
