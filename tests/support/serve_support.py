"""`nitro serve` as a process, and requests to it."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from train_support import start


@contextmanager
def served(folder: Path, *words: str) -> Iterator[str]:
    """The URL of a process that serves the folder's policy; it ends well by SIGTERM."""
    process = start("serve", folder, "--port", "0", *words)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "serving round" in line, process.communicate()
        yield line.split()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, process.communicate()
    finally:
        process.kill()
        process.communicate()


def ask(url: str, body: Any = None, path: str = "/v1/act") -> tuple[int, Any]:
    """Status and JSON of an answer; `body` is bytes, or becomes JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
