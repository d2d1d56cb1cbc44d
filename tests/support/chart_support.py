"""Helm as the tests use it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

import needs

Document = dict[str, Any]

CHART = Path(__file__).parents[2] / "charts" / "nitro"
VALUES = sorted((CHART / "ci").glob("*.yaml"))
KUBE_VERSION = "1.34.0"
"""Given, because a helm that was built from its module claims 1.20, which the chart refuses."""
MISSING = "helm is not on PATH, the chart is not tested. Install Helm 3: https://helm.sh/docs/intro/install"


class Helm:
    """The helm program."""

    def __init__(self, program: str) -> None:
        self.program = program

    def run(self, *arguments: str) -> str:
        """What helm prints.

        Raises:
            AssertionError: helm refused; the text is helm's.
        """
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def render(self, *values: Path, set: Sequence[str] = (), api: Sequence[str] = ()) -> list[Document]:
        """The chart's objects.

        Args:
            values: values files.
            set: single values, "name=value"; lists and maps in JSON.
            api: kinds that the cluster has besides Kubernetes' own, "group/version/Kind".
        """
        command = [
            "template",
            "nitro",
            str(CHART),
            "--namespace",
            "nitro-system",
            "--kube-version",
            KUBE_VERSION,
        ]
        for file in values:
            command += ["--values", str(file)]
        for pair in set:
            command += ["--set-json" if pair.endswith(("]", "}")) else "--set", pair]
        for version in api:
            command += ["--api-versions", version]
        return [document for document in yaml.safe_load_all(self.run(*command)) if document]


def find_helm() -> Helm:
    """Helm from the PATH; without it the test is skipped, or fails where NITRO_REQUIRE_HELM=1."""
    return Helm(needs.program("helm", MISSING, "NITRO_REQUIRE_HELM"))
