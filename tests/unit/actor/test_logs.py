"""The actor's log: whole lines, also where the processes of a pod write to one stream."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from nitro_actor import logs

_WRITER = "import sys; from nitro_actor.logs import log\nfor i in range(3000): log('x', writer=sys.argv[1])"


def test_the_lines_of_processes_that_share_a_stream_do_not_mix() -> None:
    reading, writing = os.pipe()
    # Unbuffered, as in the image: each write reaches the pipe at once.
    writers = [
        subprocess.Popen([sys.executable, "-u", "-c", _WRITER, name], stderr=writing) for name in "abc"
    ]
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert Counter(json.loads(line)["writer"] for line in lines) == {"a": 3000, "b": 3000, "c": 3000}


def test_an_actor_that_cannot_begin_leaves_the_whole_cause_for_kubernetes(tmp_path: Path) -> None:
    """The end of its log, with a long trace, would lack the beginning of the cause."""
    place = tmp_path / "termination-log"
    place.touch()
    (tmp_path / "mine.py").write_text(
        "class Env:\n    def __init__(self, **_): raise TypeError('x' * 30_000)\n"
    )
    program = (
        "import pathlib, sys; from nitro_actor import logs, server; "
        f"logs.TERMINATION_LOG = pathlib.Path({str(place)!r}); sys.exit(server.main())"
    )
    settings = {"NITRO_ENVIRONMENT": json.dumps({"id": "mine:Env", "entryPoint": "mine:Env"}), "PORT": "0"}
    settings |= {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}", "NITRO_TOKEN": "t" * 32}
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **settings}, timeout=120)
    assert done.returncode == 1
    said = place.read_text()
    assert said.startswith("environment mine:Env cannot be built: TypeError: xxx")
    assert len(said.encode()) <= 4096, "the kubelet takes the last 4 KiB"


@pytest.mark.parametrize("cause", ["short", "ä" * 5000, "\ud800"])
def test_termination_messages_are_utf_8_and_keep_both_ends(tmp_path: Path, cause: str) -> None:
    place = tmp_path / "termination-log"
    logs.write_termination_message(cause, place)
    assert not place.exists(), "not on Kubernetes"
    place.touch()
    logs.write_termination_message(cause, place)
    said = place.read_text()
    assert said[:1] == cause.encode(errors="replace").decode()[:1]
    assert said[-1:] == cause.encode(errors="replace").decode()[-1:]
    assert len(said.encode()) <= 4096
