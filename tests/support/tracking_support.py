"""Runs in trackers, read back by the trackers' own programs."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wandb_cloud import Cloud, UploadedRun

PATIENCE_SECONDS = 120.0


def mlflow_client(store: Path) -> Any:
    """MLflow's own client of a file store."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient

    return MlflowClient(f"file://{store}")


def mlflow_history(client: Any, run: str, metric: str) -> list[tuple[int, float]]:
    """Steps and values of a metric, as they were logged."""
    return [(point.step, point.value) for point in client.get_metric_history(run, metric)]


def synced(run: Path, cloud: Cloud) -> dict[str, UploadedRun]:
    """The runs that `wandb sync` uploads from a run folder."""
    folders = [str(path) for path in (run / "wandb").glob("offline-run-*")]
    command = [str(Path(sys.executable).parent / "wandb"), "sync", *folders]
    variables = os.environ | cloud.variables | {"WANDB_DIR": str(run)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    return cloud.runs


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)
