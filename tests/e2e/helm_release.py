"""The release in the cluster, as Helm changes it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from harness import PATIENCE_SECONDS, Cluster, Object

import former_release

TAG = "release-before"
CHART = Path(__file__).parents[2] / "charts" / "nitro"


class Helm:
    """The release in the cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._file = cluster, folder / "values.yaml"
        self._values: Object = json.loads(self._run("get", "values", cluster.release, "--output", "json"))

    def install_former(self) -> None:
        """The former release, as on a new cluster. Its learner's image is the one without CUDA."""
        images = self._values["images"] | {"tag": TAG}
        images.pop("learnerCpu", None)
        values = {"images": images, "platform": {"maxActors": self._cluster.max_actors}}
        self._run("uninstall", self._cluster.release, "--wait")
        self._apply("install", former_release.tree() / "charts" / "nitro", values)

    def upgrade(self, **values: Any) -> None:
        """The present release, with the values that it had and these."""
        self._apply("upgrade", CHART, self._values | values)

    def test(self) -> None:
        """Its own test."""
        self._run("test", self._cluster.release)

    def rollback(self) -> None:
        self._run("rollback", self._cluster.release, "--wait")

    def restore(self) -> None:
        """The present release, whatever is there."""
        self._apply("upgrade", CHART, self._values, "--install")

    def _apply(self, command: str, chart: Path, values: Object, *more: str) -> None:
        self._file.write_text(yaml.safe_dump(values))
        self._run(command, self._cluster.release, str(chart), "--values", str(self._file), "--wait", *more)

    def _run(self, *arguments: str) -> str:
        command = ["helm", *arguments, "--namespace", self._cluster.namespace]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
