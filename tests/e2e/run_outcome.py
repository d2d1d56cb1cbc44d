"""What a run came to, in a form that two runs can be compared in to the bit."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import volumes
import yaml
from harness import PATIENCE_SECONDS, Cluster, Object, job_of
from safetensors.numpy import load

LUCK = ("wall_seconds", "retries", "cold_starts", "fragment_bytes")
"""Columns of metrics.csv that depend on time, or on where the actors run; so do `seconds_` and `cost_`."""


@dataclass(frozen=True)
class Outcome:
    """What every round came to, as text, and the tensors of the last checkpoint."""

    rounds: list[dict[str, str]]
    tensors: dict[str, str]
    """Name -> dtype, shape and SHA-256."""

    @classmethod
    def of(cls, metrics: bytes, checkpoint: bytes) -> Outcome:
        rows = list(csv.DictReader(io.StringIO(metrics.decode())))
        tensors = {
            name: f"{array.dtype}{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
            for name, array in load(checkpoint).items()
        }
        return cls([{name: row[name] for name in row if _exact(name)} for row in rows], tensors)

    @property
    def actors(self) -> list[int]:
        """I_k of every round."""
        return [int(row["actors"]) for row in self.rounds]

    def assert_equals(self, other: Outcome) -> None:
        """To the bit.

        Raises:
            AssertionError: the first round, column or tensor that differs.
        """
        for mine, theirs in zip(self.rounds, other.rounds, strict=False):
            assert mine == theirs, f"round {mine['round']}"
        assert len(self.rounds) == len(other.rounds)
        assert self.tensors == other.tensors
        assert self.tensors


def _exact(column: str) -> bool:
    return column not in LUCK and not column.startswith(("seconds_", "cost_"))


def untuned() -> dict[str, str]:
    """This shell's variables without those that choose threads and BLAS kernels.

    Pods have none of them, and equal to the bit needs equal kernels.
    """
    tuned = ("OMP_", "MKL_", "OPENBLAS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(tuned)}


class LocalRun:
    """A job that `nitro train` runs on this machine, while the test waits for the cluster.

    Args:
        spec: of the job.
        folder: an existing one, for the job file and the run.
        variables: more environment variables.
    """

    def __init__(self, spec: Object, folder: Path, **variables: str) -> None:
        file = folder / "job.yaml"
        file.write_text(yaml.safe_dump(job_of("local", spec)))
        self._run, self._said = folder / "run", folder / "said.txt"
        command = [sys.executable, "-m", "nitro_learner", "train", str(file), "--json"]
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [*command, "--run-dir", str(self._run)],
                stdout=said,
                stderr=subprocess.STDOUT,
                env=untuned() | variables,
            )

    @cached_property
    def outcome(self) -> Outcome:
        """What it came to; waits for its end."""
        self._process.wait(PATIENCE_SECONDS)
        assert self._process.returncode == 0, self._said.read_text()[-6000:]
        last = sorted((self._run / "checkpoints").glob("*.safetensors"))[-1]
        return Outcome.of((self._run / "metrics.csv").read_bytes(), last.read_bytes())

    def stop(self) -> None:
        """Kill it if it still runs."""
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)


@contextmanager
def local(spec: Object, folder: Path, **variables: str) -> Iterator[LocalRun]:
    """A LocalRun that ends with the block."""
    run = LocalRun(spec, folder, **variables)
    try:
        yield run
    finally:
        run.stop()


def on_cluster(cluster: Cluster, namespace: str, name: str) -> Outcome:
    """Read what a job of the cluster left on its claim."""
    patterns = (f"{name}-*/metrics.csv", f"{name}-*/checkpoints/*.safetensors")
    return Outcome.of(*volumes.read(cluster, namespace, f"{name}-checkpoint", *patterns))
