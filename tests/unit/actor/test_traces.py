"""Where an error was raised and where a process stands: the user's own line, not a library's and not ours."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from actor_support import lone_environment as environment
from nitro_actor import traces
from nitro_actor.answers import failure
from nitro_actor.engines.base import EnvironmentCallError

OURS = str(Path(traces.__file__).parent)


def raised(how: str) -> EnvironmentCallError:
    """What the seventh step of an environment raises that fails there."""
    env = environment("broken", 1, "actor_support:Broken", how=how)
    env.reset([0])
    for _ in range(6):
        env.step(np.array([1]))
    with pytest.raises(EnvironmentCallError) as caught:
        env.step(np.array([1]))
    return caught.value


def test_an_answer_names_the_line_that_raised_and_has_the_traceback() -> None:
    status, body = failure(raised("raise"))
    assert status == 500
    assert "ZeroDivisionError: the wheel came off (" in body["error"]
    assert "actor_support.py:" in body["error"]
    assert body["trace"].rstrip().endswith("ZeroDivisionError: the wheel came off")


def test_the_users_line_is_named_before_a_line_of_a_library() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    assert traces.raised_at(caught.value).startswith(f" ({__file__}:")


def test_an_error_of_the_actor_has_no_line_and_no_traceback() -> None:
    assert "trace" not in failure(raised("shape"))[1]


def test_a_long_traceback_and_its_sentence_fit_into_an_answer() -> None:
    def deep(depth: int) -> None:
        if depth:
            deeper(depth - 1)
        raise ValueError("\U0001f916" * 5_000)

    def deeper(depth: int) -> None:
        deep(depth)

    try:
        deep(100)
    except ValueError as error:
        status, body = failure(error)
    assert status == 500
    assert len(json.dumps(body | {"error": body["error"][:2000]})) < 64 * 2**10


DUMP = f"""\
Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 706 in readinto
  File "{OURS}/web.py", line 40 in do_POST

Thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/site-packages/pandas/core/frame.py", line 7 in wait
  File "/home/ana/robot/simulator.py", line 38 in wait_for_robot
  File "/home/ana/robot/mine.py", line 12 in step
  File "{OURS}/engines/generic.py", line 66 in step
  File "{OURS}/server.py", line 60 in main
  File "<frozen runpy>", line 198 in _run_module_as_main
"""


def test_a_dump_names_the_call_that_hangs_and_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_LIBRARIES", ("/usr/lib/python3.11/", "<"))
    frames = traces.of_dump(["a line of the environment's", *DUMP.splitlines()])
    assert traces.standing(frames) == "step() at /home/ana/robot/simulator.py:38 in wait_for_robot"


def test_the_line_of_an_installed_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_LIBRARIES", ("/usr/lib/python3.11/", "<"))
    installed = DUMP.replace("/home/ana/robot", "/usr/lib/python3.11/site-packages/robot")
    frames = traces.of_dump(installed.splitlines()[4:])
    assert traces.standing(frames).startswith("step() at /usr/lib/python3.11/site-packages/pandas")


def test_a_stack_without_an_environment_names_no_line() -> None:
    frames = traces.of_thread(sys._getframe())
    assert traces.standing(frames[:0]) == ""
    assert traces.standing(traces.of_dump(DUMP.splitlines()[:3])) == ""
