"""Whatever an environment raises is its own, and fits into an answer, with the line that raised it."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from actor_support import container, environment, request
from nitro_actor import wire
from nitro_actor.actor import Actor
from nitro_actor.answers import failure, work
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.protocol.request import Request
from nitro_learner.backends.actor_answers import read_failure
from nitro_learner.backends.base import RetryableError
from parallel_environments import Pair, several

ANSWER_BYTES = 64 * 2**10
"""What the learner reads of an answer."""


class UnprintableError(Exception):
    """Its text is an error."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Base(BaseException):
    """No Exception."""


def _noted() -> Exception:
    error = ValueError("short")
    for _ in range(300):
        error.add_note("a note of many lines\n" * 50)
    return error


def _odd_notes() -> Exception:
    error = ValueError("short")
    error.__notes__ = [UnprintableError()]  # type: ignore[list-item]
    return error


RAISED: dict[str, tuple[Callable[[], BaseException], str]] = {
    "long": (lambda: ValueError("bad table: " + 70_000 * "x"), "raised ValueError: bad table: xxx"),
    "emoji": (lambda: ValueError(70_000 * "\U0001f600"), "raised ValueError: \U0001f600"),
    "surrogates": (lambda: ValueError(70_000 * "\ud800"), r"raised ValueError: \ud800\ud800"),
    "control": (lambda: ValueError(70_000 * "\0"), "raised ValueError: \0\0"),
    "text that raises": (
        UnprintableError,
        "raised UnprintableError: (its text cannot be shown, because __str__ raised",
    ),
    "long name": (lambda: type("N" * 70_000, (Exception,), {})(), "raised NNNN"),
    "notes": (_noted, "raised ValueError: short"),
    "odd notes": (_odd_notes, "raised ValueError: short"),
    "group": (lambda: ExceptionGroup("g", [ValueError(70_000 * "x")] * 9), "raised ExceptionGroup: g (9 sub"),
    "exit": (lambda: SystemExit("goodbye"), "raised SystemExit: goodbye"),
    "base": (lambda: Base(70_000 * "x"), "raised Base: xxx"),
    "cancelled": (asyncio.CancelledError, "raised CancelledError"),
    "generator": (GeneratorExit, "raised GeneratorExit"),
}


class Raising(gymnasium.Env[Any, Any]):
    """Raises what it is told to, where it is told to."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, what: str, where: str = "step") -> None:
        self._what, self._where = what, where
        self._raise_in("init")

    def _raise_in(self, where: str) -> None:
        if where == self._where:
            raise RAISED[self._what][0]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self._raise_in("reset")
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:  # noqa: ARG002
        self._raise_in("step")
        return np.zeros(2, np.float32), 1.0, False, False, {}

    def close(self) -> None:
        self._raise_in("close")


class RaisingPair(Pair):
    """The same of several agents, in a step."""

    def __init__(self, what: str, where: str = "step") -> None:
        super().__init__()
        self._what, self._where = what, where

    def step(self, actions: Any) -> Any:
        if self._where == "step":
            raise RAISED[self._what][0]()
        return super().step(actions)

    def close(self) -> None:
        if self._where == "close":
            raise RAISED[self._what][0]()


class Kept:
    """The exchange of one request."""

    def __init__(self, weights: bytes) -> None:
        self._weights = weights

    def get(self, key: str) -> bytes:  # noqa: ARG002
        return self._weights

    def append(self, key: str, value: bytes, ttl: int) -> None:  # noqa: ARG002
        raise AssertionError("there is no fragment")


def answered(env: Any) -> tuple[int, dict[str, Any]]:
    asked = Request.decode(wire.encode(request(), {}))
    return work(Actor(env), asked, Kept(container(env.spec)))


@pytest.mark.parametrize("what", RAISED)
def test_an_error_of_a_step_is_answered(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, body = answered(environment("raising", 2, "test_long_errors:Raising", what=what))
    assert (status, body["code"]) == (500, "environment")
    assert f"step of environment 0 {RAISED[what][1]}" in body["error"]
    assert re.search(r" \(.*test_long_errors.py:\d+ in _raise_in\)$", body["error"])
    assert "in _raise_in" in body["trace"]
    assert len(json.dumps(body)) < ANSWER_BYTES
    (body["error"] + body["trace"]).encode()  # any file can have it
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines[-1]["error"] == body["error"], "the last line says it in a sentence"
    cut = "more characters are in the actor's log" in body["error"]
    assert cut == (what in ("long", "emoji", "surrogates", "control", "long name", "base"))
    if what == "long":
        assert any(70_000 * "x" in line["error"] for line in lines)


@pytest.mark.parametrize("what", RAISED)
def test_the_learner_takes_it_for_permanent(what: str) -> None:
    """And for the environment's fault: another try of the same seed fails in the same way."""
    status, body = answered(environment("raising", 2, "test_long_errors:Raising", what=what))
    error = read_failure(status, json.dumps(body).encode(), 1.0)
    assert isinstance(error, RetryableError)
    assert error.deterministic
    assert error.evidence.environment
    assert error.message == body["error"]


@pytest.mark.parametrize("where", ["init", "reset"])
@pytest.mark.parametrize("what", RAISED)
def test_an_error_at_the_start_is_of_the_environment(what: str, where: str) -> None:
    with pytest.raises(EnvironmentConfigError, match=r"in _raise_in\)$") as caught:
        environment("raising", 2, "test_long_errors:Raising", what=what, where=where)
    assert RAISED[what][1].removeprefix("raised ") in str(caught.value)
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize("what", RAISED)
def test_an_error_of_several_agents_is_told_the_same_way(what: str) -> None:
    made = several(count=1, entry_point="test_long_errors:RaisingPair", what=what)
    made.reset([0])
    with pytest.raises(EnvironmentCallError) as caught:
        made.step({one.name: np.zeros((1, 2), np.int64) for one in made.spec.classes})
    _, body = failure(caught.value)
    assert f"step of environment 0 {RAISED[what][1]}" in body["error"]
    assert len(json.dumps(body)) < ANSWER_BYTES


@pytest.mark.parametrize("name", ["Raising", "RaisingPair"])
@pytest.mark.parametrize("what", ["long", "text that raises", "exit"])
def test_an_error_of_close_is_only_told(name: str, what: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = (environment if name == "Raising" else several)(
            "raising", 2, f"test_long_errors:{name}", what=what, where="close"
        )
        made.close()
    texts = [str(one.message) for one in told]
    assert any(f"close of environment 1 {RAISED[what][1]}" in text for text in texts), texts
    assert max(map(len, texts)) < 3_000


@pytest.fixture
def usual_ctrl_c() -> Iterator[None]:
    """Python's own handler of Ctrl-C. A program in the background is started without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_ctrl_c")
def test_ctrl_c_is_not_taken_for_an_error_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Python's own handler is in place, as when the environment is played in this process."""
    monkeypatch.setitem(RAISED, "interrupt", (KeyboardInterrupt, "raised KeyboardInterrupt"))
    env = environment("raising", 1, "test_long_errors:Raising", what="interrupt")
    env.reset([0])
    with pytest.raises(KeyboardInterrupt):
        env.step({"agent": np.zeros((1, 1), np.int64)})


@pytest.mark.usefixtures("usual_ctrl_c")
def test_an_actor_answers_an_interrupt_that_no_signal_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Lambda, where Python's own handler is in place, too."""
    monkeypatch.setitem(RAISED, "interrupt", (KeyboardInterrupt, ""))
    status, body = answered(environment("raising", 2, "test_long_errors:Raising", what="interrupt"))
    assert (status, body["code"]) == (500, "environment")
    assert re.match(r"the environment raised KeyboardInterrupt \(.* in _raise_in\)$", body["error"])


@pytest.mark.parametrize(("status", "code"), [(500, "environment"), (500, "internal"), (409, "protocol")])
def test_what_an_older_actor_sends_can_be_written_to_a_file(status: int, code: str) -> None:
    body = json.dumps({"code": code, "error": "\ud800", "trace": "\udfff"}).encode()
    error = read_failure(status, body, 1.0)
    (error.message if isinstance(error, RetryableError) else str(error)).encode()
    error.evidence.trace.encode()


WARNS = """
import warnings
from nitro_actor import logs, server

class Odd(UserWarning):
    def __str__(self):
        raise RuntimeError("no text")

server.main()  # it refuses NITRO_ACTORS
warnings.showwarning(Odd(), Odd, "odd.py", 1)
logs.log("next")
"""


def test_a_warning_whose_text_raises_ends_nothing() -> None:
    command = [sys.executable, "-c", WARNS]
    ended = subprocess.run(
        command, env={**os.environ, "NITRO_ACTORS": "some"}, capture_output=True, timeout=120, check=True
    )
    *_, first, second = map(json.loads, ended.stderr.splitlines())
    assert first["error"] == "Odd: (its text cannot be shown, because __str__ raised RuntimeError)"
    assert second["event"] == "next"
