"""Actors that die, hang, lie or answer garbage, by really doing it: never a hang, never a wrong batch."""

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from dispatch_support import ENVIRONMENT, STEPS, dispatcher, fragment_bytes, fragment_of, plan, stored
from learner_support import plain
from local_support import assert_same, computing, local_round, redis_server, sample, spec
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_learner.backends import knative
from nitro_learner.backends.actor_answers import read_failure
from nitro_learner.backends.base import BackendError, FatalError, RetryableError
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.knative import KnativeBackend
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import RoundFailed, RoundResult
from nitro_learner.training import failures
from nitro_learner.training.failures import TrainingFailed
from stand_ins import StandIn, answering, good, pushing, serve, served


async def kill_in_mid_rollout(pids: list[int]) -> int:
    """Kill one of these actor processes while it samples, and return its process id."""
    pid = await computing(pids)
    os.kill(pid, signal.SIGKILL)
    return pid


async def test_actor_process_killed_in_mid_rollout_is_replaced_and_changes_nothing() -> None:
    job = spec(2, {"id": "Hopper-v5", "rolloutLength": 4096, "envsPerActor": 2})
    async with local_round(job) as (backend, _, work):
        calm = await sample(work, 3, steps=4096)
        killing = asyncio.create_task(kill_in_mid_rollout(backend.actor_pids))
        struck = await sample(work, 3, steps=4096)
        pid = await killing
        assert_same(calm, struck)
        assert sum(struck.stats.retries.values()) >= 1
        again = await sample(work, 3, steps=4096)
        assert_same(calm, again)
        assert pid not in backend.actor_pids
        assert len(backend.actor_pids) == 2


async def test_actor_process_that_hangs_is_killed_and_replaced() -> None:
    async with local_round(spec(2), timeout=10.0) as (backend, _, work):
        calm = await sample(work, 4)
        pid = backend.actor_pids[0]
        os.kill(pid, signal.SIGSTOP)
        struck = await sample(work, 4)
        assert_same(calm, struck)
        assert struck.stats.retries == {"timeout": 1}
        await sample(work, 4)
        assert pid not in backend.actor_pids
        assert len(backend.actor_pids) == 2


async def test_actor_processes_all_killed_between_rounds_change_nothing() -> None:
    async with local_round(spec(2)) as (backend, _, work):
        calm = await sample(work, 3)
        for pid in backend.actor_pids:
            os.kill(pid, signal.SIGKILL)
        assert_same(calm, await sample(work, 3))


async def test_environment_that_always_raises_fails_the_round_with_its_words(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising.py").write_text(RAISING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("nitro_learner.backends.tasks.group._BACKOFF_SECONDS", 0.01)
    environment = {"id": "Raising-v0", "entryPoint": "raising:Raising", "rolloutLength": 8, "envsPerActor": 1}
    async with local_round(spec(1, environment)) as (_, _, work):
        with pytest.raises(RoundFailed, match="the robot fell apart"):
            await sample(work, 2, steps=8)


RAISING = """
import gymnasium, numpy

class Raising(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (11,))
    action_space = gymnasium.spaces.Box(-1, 1, (3,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(11, numpy.float32), {}

    def step(self, action):
        raise RuntimeError("the robot fell apart")
"""


class Cluster:
    """A stand-in for Knative with its Redis, and the learner's side of it."""

    def __init__(self, actor: StandIn, url: str, cache: RedisCache, backend: KnativeBackend) -> None:
        self.actor = actor
        self.url = url
        self.cache = cache
        self.backend = backend

    def dispatcher(self, **options: Any) -> Dispatcher:
        return dispatcher(self.backend, self.cache, **options)

    async def sample(self, slots: int = 3, **options: Any) -> RoundResult:
        work, this = self.dispatcher(**options), plan()
        work.start_slots(this, range(slots))
        async with asyncio.timeout(120):
            return await work.finish(this)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with redis_server() as server:
        actor = StandIn(server.url)
        async with serve(actor) as url:
            backend = KnativeBackend(url, "secret", server.url, limit=16)
            cache = RedisCache(server.url, "run-1")
            await backend.start()
            await cache.publish_weights(3, b"weights")
            yield Cluster(actor, url, cache, backend)
            await cache.close()
            await backend.close()


def edited(name: str, edit: Callable[[np.ndarray], Any]) -> Callable[[dict[str, Any]], bytes]:
    def change(meta: dict[str, Any]) -> bytes:
        answer, tensors = fragment_of(meta)
        tensors[name] = edit(tensors[name])
        return fragment_bytes(answer, tensors)

    return change


def nan(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, np.nan)


WRONG: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "garbage": lambda _: b"<html>not a fragment</html>",
    "truncated": lambda meta: stored(meta)[:-100],
    "other_run": lambda meta: stored(meta | {"run": "run-2"}),
    "other_round": lambda meta: stored(meta | {"round": 2}),
    "stale_weights": lambda meta: stored(meta | {"weights": {"version": 2}}),
    "wrong_seed": lambda meta: stored(meta | {"seed": meta["seed"] + 1}),
    "wrong_slot": lambda meta: stored(meta | {"slot": 99}),
    "wrong_shape": edited("observations", lambda array: array[:, :, :2]),
    "not_finite": edited("observations", nan),
    "inconsistent": edited("final_observations", lambda array: array[:0]),
    "too_large": lambda _: bytes(20 * 2**20),
}


def assert_sound(result: RoundResult, slots: int = 3) -> None:
    """Exactly the fragments that sound actors would have stored."""
    assert [fragment.slot for fragment in result.fragments] == list(range(slots))
    for fragment in result.fragments:
        request = {"kind": "rollout", "weights": {"version": 3}, "steps": STEPS}
        _, tensors = fragment_of(request | {name: fragment.meta[name] for name in IDENTITY})
        for name, array in tensors.items():
            np.testing.assert_array_equal(plain(fragment)[name], array)


IDENTITY = ("run", "round", "slot", "attempt", "seed")


@pytest.mark.parametrize("reason", WRONG)
async def test_dispatcher_asks_an_actor_again_that_stored_something_wrong(
    cluster: Cluster, reason: str
) -> None:
    cluster.actor.script[1] = [pushing(WRONG[reason])]
    result = await cluster.sample()
    assert_sound(result)
    assert result.stats.dropped == {reason: 1}
    assert sum(result.stats.retries.values()) == 1


async def test_round_fails_when_actors_only_ever_store_something_wrong(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nitro_learner.backends.tasks.group._BACKOFF_SECONDS", 0.01)
    cluster.actor.default = pushing(WRONG["not_finite"])
    with pytest.raises(RoundFailed, match="holds NaN or infinity"):
        await cluster.sample()


async def test_dispatcher_drops_a_duplicate_fragment(cluster: Cluster) -> None:
    pushed = asyncio.Event()

    async def twice(actor: StandIn, meta: dict[str, Any], request: web.Request) -> web.StreamResponse:
        answer = await pushing(stored, stored)(actor, meta, request)
        pushed.set()
        return answer

    async def later(actor: StandIn, meta: dict[str, Any], request: web.Request) -> web.StreamResponse:
        await pushed.wait()  # so its fragment, which ends the round, lies behind the duplicate
        return await good(actor, meta, request)

    cluster.actor.script[0] = [twice]
    cluster.actor.script[1] = cluster.actor.script[2] = [later]
    result = await cluster.sample()
    assert_sound(result)
    assert result.stats.dropped == {"duplicate": 1}


def acknowledged(total: float = 0.001, attempt: int = 0) -> dict[str, Any]:
    """The answer of an actor that has stored its fragment: no more than the learner needs of it."""
    seconds = {"weights": 0.0, "rollout": 0.0, "store": 0.0, "total": total}
    return {"slot": 1, "attempt": attempt, "coldStart": False, "seconds": seconds}


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (424, {"code": "weights_missing", "error": "gone"}, "weights_missing"),
        (429, b"", "throttled"),
        (500, {"code": "environment", "error": "ValueError: x"}, "environment"),
        (500, b"Internal Server Error", "server_error"),
        (502, b"<html>", "unavailable"),
        (502, b"EOF\n", "connection"),
        (503, {"code": "busy", "error": "one at a time"}, "busy"),
        (503, {"code": "redis_unreachable", "error": "gone"}, "redis_unreachable"),
        (503, {"code": ["strange"]}, "unavailable"),
        (504, b"", "unavailable"),
        (507, {"code": "redis_full", "error": "full"}, "redis_full"),
        (302, b"", "bad_answer"),
        (200, b"", "bad_answer"),
        (200, b"not JSON", "bad_answer"),
        (200, b"[" * 100_000, "bad_answer"),
        (200, b"[1]", "bad_answer"),
        (200, {"slot": 1}, "bad_answer"),
        (200, acknowledged(total=10**400), "bad_answer"),
        (200, acknowledged(total=1e306), "bad_answer"),
        (200, acknowledged(total=3600.0), "bad_answer"),  # longer than the request: it would be billed
        (200, acknowledged(attempt=10**400), "bad_answer"),
        (403, b"<html>of a proxy on the way", "bad_answer"),
    ],
)
async def test_dispatcher_retries_after_an_answer_that_may_pass(
    cluster: Cluster, status: int, body: Any, reason: str
) -> None:
    cluster.actor.script[1] = [answering(status, body)]
    result = await cluster.sample()
    assert_sound(result)
    assert result.stats.retries == {reason: 1}
    assert cluster.actor.tokens == {"Bearer secret"}


@pytest.mark.parametrize(
    ("status", "body", "wall", "allowed", "reason", "billed"),
    [
        (504, b"activator request timeout", 60.1, 60.0, "timeout", 60.1),
        (504, b"activator request timeout", 60.1, math.inf, "unavailable", 0.0),  # no actor may have had it
        (504, b"upstream request timeout", 15.0, 60.0, "unavailable", 0.0),  # of a mesh, with its own limit
        (502, b"EOF\n", 12.0, 60.0, "connection", 12.0),
        (502, b"EOF\n", 12.0, math.inf, "connection", 12.0),
        (502, b"dial tcp 10.0.0.7:8012: connect: connection refused\n", 12.0, 60.0, "unavailable", 0.0),
        (502, b"read tcp 10.0.0.7:8012: connection reset by peer\n", 12.0, 60.0, "unavailable", 0.0),
        (503, {"code": "busy", "error": "one at a time"}, 60.1, 60.0, "busy", 0.0),
    ],
)
def test_a_proxy_that_ends_what_an_actor_worked_on_makes_a_try(
    status: int, body: Any, wall: float, allowed: float, reason: str, billed: float
) -> None:
    error = read_failure(status, body, wall, allowed)
    assert isinstance(error, RetryableError)
    assert (error.reason, error.billed_seconds) == (reason, billed)
    assert error.is_try == (billed > 0)


async def test_a_rollout_that_knative_ends_at_its_time_out_is_a_try_and_billed(cluster: Cluster) -> None:
    async def late(_actor: StandIn, _meta: dict[str, Any], _request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1.85)  # of 2; the learner's own time-outs are mostly rounded up
        return web.Response(status=504, text="activator request timeout")

    cluster.backend.set_actors(16, 3, None)
    cluster.actor.script[1] = [late]
    result = await cluster.sample(timeout=2.0)
    assert_sound(result)
    assert result.stats.retries == {"timeout": 1}
    assert max(result.stats.billed_seconds) > 1.8


async def test_dispatcher_needs_no_more_of_an_acknowledgement_than_it_uses(cluster: Cluster) -> None:
    async def terse(actor: StandIn, meta: dict[str, Any], _request: web.Request) -> web.StreamResponse:
        await actor.push(meta, stored(meta))
        return web.json_response(acknowledged())

    cluster.actor.script[1] = [terse]
    result = await cluster.sample()
    assert_sound(result)
    assert result.stats.estimated == 0, "every answer was read, and says what to bill"


async def test_a_mesh_that_would_compress_answers_is_told_not_to(cluster: Cluster) -> None:
    async def through_mesh(actor: StandIn, meta: dict[str, Any], request: web.Request) -> web.StreamResponse:
        answer = await good(actor, meta, request)
        assert isinstance(answer, web.Response)
        answer.enable_compression()  # by what the client accepts
        return answer

    cluster.actor.default = through_mesh
    result = await cluster.sample()
    assert_sound(result)
    assert result.stats.estimated == 0, "every answer was read, and says what to bill"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, {"code": "bad_request", "error": "steps: 7"}, "refuses the request.*steps: 7"),
        (401, {"code": "unauthorized", "error": "no"}, "refuses the token"),
        (409, {"code": "protocol", "error": "the request is of protocol 1, this actor speaks 2"}, "speaks 2"),
    ],
)
async def test_dispatcher_raises_an_answer_that_no_retry_can_help(
    cluster: Cluster, status: int, body: Any, message: str
) -> None:
    cluster.actor.script[1] = [answering(status, body)]
    with pytest.raises(FatalError, match=message):
        await cluster.sample()


async def test_dispatcher_retries_after_a_broken_connection(cluster: Cluster) -> None:
    async def hang_up(_actor: StandIn, _meta: dict[str, Any], request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def half(_actor: StandIn, _meta: dict[str, Any], request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return response

    cluster.actor.script[0] = [hang_up]
    cluster.actor.script[1] = [half]
    result = await cluster.sample()
    assert_sound(result)
    assert result.stats.retries == {"connection": 2}


async def test_round_ends_in_bounded_time_when_actors_never_answer(cluster: Cluster) -> None:
    async def hang(_actor: StandIn, _meta: dict[str, Any], _request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3600)
        raise AssertionError

    cluster.actor.default = hang
    async with asyncio.timeout(120):
        with pytest.raises(RoundFailed, match=r"failed: .*timeout: .*\n3 of 3 slots"):
            await cluster.sample(timeout=0.5, deadline=0.5)


async def test_backend_without_any_actor_fails_in_a_way_that_can_be_resumed() -> None:
    backend = KnativeBackend("http://127.0.0.1:9", None, "redis://nowhere", ready_seconds=0.1)
    with (
        failures.as_training_failure(),
        pytest.raises(BackendError, match=r"at http://127.0.0.1:9 within 0.1 s") as found,
    ):
        await backend.start()
    with pytest.raises(TrainingFailed) as failed, failures.as_training_failure():
        raise found.value
    assert failed.value.resumable, "a pod that starts anew is given other actors"
    await backend.close()


@pytest.mark.parametrize("status", [404, 403, 401, 200])
async def test_backend_leaves_the_peer_that_answered_before_the_address_was_routed(status: int) -> None:
    peers: list[Any] = []

    async def environment(request: web.Request) -> web.Response:
        """For one connection a stranger, then the actors."""
        assert request.transport is not None
        peer = request.transport.get_extra_info("peername")
        peers.append(peer)
        stranger = web.Response(status=status, text="<html>of a gateway outside")
        return stranger if peer == peers[0] else web.json_response(ENVIRONMENT)

    async with served(environment) as url:
        backend = KnativeBackend(url, None, "redis://nowhere", ready_seconds=120.0)
        assert await backend.start() == DescribedEnvironment.from_json(ENVIRONMENT)
        await backend.close()
    assert len(peers) == 2


async def test_backend_reports_what_it_waits_for_at_the_start(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knative, "_TOLD_SECONDS", 0.0)
    monkeypatch.setattr(knative, "_PAUSE_SECONDS", 0.0)
    answers = [web.Response(status=503, text="not yet"), web.json_response(ENVIRONMENT)]

    async def environment(_: web.Request) -> web.Response:
        return answers.pop(0)

    told: list[str | None] = []
    async with served(environment) as url:
        backend = KnativeBackend(url, None, "redis://nowhere", silent=told.append)
        await backend.start()
        await backend.close()
    assert told == ["no actor has answered yet, unavailable: HTTP 503: 'not yet'", None]
    assert str(told[0]) in caplog.text


async def test_backend_names_both_versions_of_another_protocol() -> None:
    async with redis_server() as server, serve(StandIn(server.url), {"protocol": 1}) as url:
        backend = KnativeBackend(url, None, server.url)
        with pytest.raises(FatalError, match="speak protocol 1, this learner 2"):
            await backend.start()
        await backend.close()
