"""docs/operations.md on jobs that are broken: its commands run word by word, and show what it says."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Cluster
from jobs import hopper
from namespaces import new_namespace
from volumes import Disks

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
FEW = (2, 2, 3)
ROUNDS = 3
THROTTLED = {"requests": {"cpu": "5m", "memory": "64Mi"}, "limits": {"cpu": "50m", "memory": "256Mi"}}
OVERSIZED = {"requests": {"cpu": "5m", "memory": "64Mi"}, "limits": {"memory": "64Gi"}}
WILD = {"hyperparameters": {"learningRate": 1.0}}


@pytest.fixture(scope="class")
def broken(cluster: Cluster, disks: Disks, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace with jobs whose actors get hardly any CPU, or are paid far too much memory, or whose steps
    are far too large."""
    with new_namespace(cluster, disks, request.node) as (namespace, start):
        start("slow", hopper(rounds=100, actors=FEW, actor={"resources": THROTTLED}))
        start("dear", hopper(rounds=100, actors=FEW, actor={"resources": OVERSIZED}))
        start("wild", hopper(rounds=100, actors=FEW, algorithm=WILD))
        for name in ("slow", "dear", "wild"):
            cluster.until_round(namespace, name, ROUNDS)
        yield namespace


class TestOperationsPage:
    @pytest.mark.parametrize("question", ["slow", "stuck", "expensive", "not learning"])
    def test_its_commands_answer(self, broken: str, question: str, tmp_path: Path) -> None:
        commands = _commands(question)
        assert commands
        for command in commands:
            assert _run(command, broken, "wild", tmp_path).strip(), command

    def test_slow_actors_without_cpu(self, broken: str, tmp_path: Path) -> None:
        stages, counted = _commands("slow")
        seconds = _numbers(_run(stages, broken, "slow", tmp_path))
        waited = {name: seconds[f"seconds_{name}"] for name in ("dispatch", "sample", "update", "checkpoint")}
        assert max(waited, key=lambda name: waited[name]) == "sample"
        # No share and no comparison of seconds: on a busy node actors seldom get as much as their limit.
        assert _throttled(_run(counted, broken, "slow", tmp_path)) > 0
        assert _throttled(_run(counted, broken, "dear", tmp_path)) == 0

    def test_expensive_actors_with_too_much_memory(self, broken: str, tmp_path: Path) -> None:
        cost = json.loads(_run(_commands("expensive")[0], broken, "dear", tmp_path))
        assert cost["actors"] > cost["learner"] > 0

    def test_not_learning_with_too_large_steps(self, broken: str, tmp_path: Path) -> None:
        (command,) = _commands("not learning")
        found = re.findall(r'"kl": ([^\n]+)', _run(command, broken, "wild", tmp_path))
        assert any(json.loads(value) > 10 * 0.01 for value in found), found


def _throttled(cpu: str) -> int:
    """How often a container was stopped at its CPU limit, from its cpu.stat."""
    found = re.search(r"^nr_throttled (\d+)", cpu, re.MULTILINE)
    assert found, cpu
    return int(found[1])


def _commands(question: str) -> list[str]:
    """The commands of the section "My job is ...", as they stand there."""
    section = re.search(rf"^## My job is {question}\n(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section
    return re.findall(r"^    (.+)$", section[1], re.MULTILINE)


def _run(command: str, namespace: str, name: str, folder: Path) -> str:
    command = re.sub(r"\bNAME\b", name, re.sub(r"\bNS\b", namespace, command))
    bash = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(bash, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def _numbers(text: str) -> dict[str, Any]:
    return {name: json.loads(value.rstrip("}")) for name, value in re.findall(r'"(\w+)": (\S+)', text)}
