"""Prometheus' own programs, as the tests use them: promtool, and a server with data to query."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

import needs
from ports import free_port

MISSING = (
    "{} is not on PATH, its checks did not run. On Debian `scripts/prometheus` prints a folder that has it; "
    "elsewhere: https://prometheus.io/download"
)
Series = dict[str, Any]


def find(program: str) -> str:
    """prometheus or promtool from the PATH; without it the test is skipped, or fails where
    NITRO_REQUIRE_PROMTOOL=1.
    """
    return needs.program(program, MISSING.format(program), "NITRO_REQUIRE_PROMTOOL")


def promtool(*arguments: str | Path, stdin: str | None = None) -> str:
    """What promtool prints.

    Raises:
        AssertionError: it found something wrong; the text is promtool's.
    """
    command = [find("promtool"), *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Prometheus:
    """A server on this machine."""

    def __init__(self, url: str) -> None:
        self.url = url

    def instant(self, expr: str, at: float | None = None) -> list[Series]:
        """The vector that an expression gives, now or at a Unix time."""
        when = {} if at is None else {"time": str(at)}
        return self._result("query", {"query": expr, **when})

    def range(self, expr: str, start: float, end: float, step: float) -> list[Series]:
        """The matrix that an expression gives between two Unix times, as Grafana asks for it."""
        return self._result(
            "query_range", {"query": expr, "start": str(start), "end": str(end), "step": str(step)}
        )

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that are pending or firing."""
        found: list[dict[str, Any]] = self._get("alerts", {})["alerts"]
        return found

    def targets(self) -> list[dict[str, Any]]:
        """Targets that are scraped, with their health."""
        found: list[dict[str, Any]] = self._get("targets", {"state": "active"})["activeTargets"]
        return found

    def _result(self, path: str, parameters: Mapping[str, str]) -> list[Series]:
        found: list[Series] = self._get(path, parameters)["result"]
        return found

    def _get(self, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                data: dict[str, Any] = json.load(answer)["data"]
        except urllib.error.HTTPError as error:  # the body says what is wrong with the query
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        return data


@contextlib.contextmanager
def running(folder: Path, config: Mapping[str, Any]) -> Iterator[Prometheus]:
    """A Prometheus with its data in `folder`, ready to answer, stopped at the end of the block.

    Raises:
        AssertionError: it does not start; the text has its last words.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / "prometheus.yml", folder / "prometheus.log"
    file.write_text(yaml.safe_dump(dict(config), sort_keys=False))
    promtool("check", "config", file)
    port = free_port()
    command = [
        find("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            server = Prometheus(f"http://127.0.0.1:{port}")
            _until_ready(server, process, log)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=120)


def _until_ready(server: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while True:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{server.url}/-/ready", timeout=5):
            return
        assert time.monotonic() < end, f"Prometheus is not ready: {log.read_text()}"
        time.sleep(0.05)
