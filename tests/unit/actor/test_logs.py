"""The actor's log: whole lines, also where the processes of a pod write to one stream."""

import json
import os
import subprocess
import sys
from collections import Counter

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
