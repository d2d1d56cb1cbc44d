"""A run of `nitro train` in a process of its own, as a user starts it."""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def trained(spec: dict[str, Any]) -> list[dict[str, str]]:
    """Train a job with this spec, and return the rows of its metrics.csv."""
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "bench"},
        "spec": spec,
    }
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder, "job.yaml"), Path(folder, "run")
        file.write_text(json.dumps(job))
        command = [Path(sys.executable).with_name("nitro"), "train", file, "--run-dir", run, "--json"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        with (run / "metrics.csv").open() as metrics:
            return list(csv.DictReader(metrics))
