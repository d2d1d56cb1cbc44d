"""What a run came to, in a form that two runs can be compared in to the bit."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
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


def local(spec: Object, folder: Path, **variables: str) -> Outcome:
    """Run the job on this machine by `nitro train`, with more environment variables."""
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job_of("local", spec)))
    run = folder / "run"
    command = [sys.executable, "-m", "nitro_learner", "train", str(file), "--run-dir", str(run), "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=untuned() | variables
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    last = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    return Outcome.of((run / "metrics.csv").read_bytes(), last.read_bytes())


def on_cluster(cluster: Cluster, namespace: str, name: str) -> Outcome:
    """Read what a job of the cluster left on its claim."""
    patterns = (f"{name}-*/metrics.csv", f"{name}-*/checkpoints/*.safetensors")
    return Outcome.of(*volumes.read(cluster, namespace, f"{name}-checkpoint", *patterns))
