"""MLflow: a run in a tracking server or a file store."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_learner.run.same_job import leaves
from nitro_learner.run.tracking.base import MeasuredRound, TrackedRun

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

_RUN = "nitro.run"
"""Tag with the identity of our run, by which a resumed one finds MLflow's."""
_ROUND = "run/round"
_PARAMETERS, _METRICS = 100, 1000
"""Those that MLflow takes in one request."""
_SYSTEM_SECONDS = 30.0
# MLflow's own are 120 s and 7 retries. Its process must not report to others than the user's server.
_VARIABLES = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "true",
}


class MlflowTracker:
    """A run of MLflow; see `Tracker`."""

    def __init__(self, run: TrackedRun) -> None:
        self._run = run
        self._uri: str = run.settings["trackingUri"]
        for name, value in _VARIABLES.items():
            os.environ.setdefault(name, value)
        if self._uri.startswith("file:"):
            # MLflow maintains file stores no further, and asks whoever uses one to say that this is meant.
            os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        import mlflow  # takes seconds

        mlflow.set_tracking_uri(self._uri)
        self._client = mlflow.MlflowClient()
        self._id = ""
        self._last = 0
        self._checked = False
        self._step = 0
        self._monitor: SystemMetricsMonitor | None = None

    def open(self) -> str:
        from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING

        client, experiment = self._client, self._experiment()
        runs = client.search_runs([experiment], f"tags.`{_RUN}` = '{self._run.id}'", max_results=1)
        if runs:
            run = runs[0]
            client.update_run(run.info.run_id, status="RUNNING")
        else:
            run = client.create_run(experiment, tags={_RUN: self._run.id}, run_name=self._run.name)
        self._id = run.info.run_id
        self._describe(run)
        self._last = max((int(metric.value) for metric in self._history(_ROUND)), default=0)
        if MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING.get():  # type: ignore[no-untyped-call]
            self._watch_system()
        return f"experiment {self._run.settings['experiment']}, run {self._id} at {self._uri}"

    def record(self, measured: MeasuredRound) -> None:
        self._step = measured.step
        if measured.round <= self._last:
            return
        values = dict(measured.values)
        if not self._checked:  # an earlier process may have been killed while it wrote this very round
            values = {name: value for name, value in values.items() if not self._has(name, measured.step)}
            self._checked = True
        # The round itself comes last: with it all of its metrics are there.
        values[_ROUND] = values.pop(_ROUND, float(measured.round))
        self._log(values, measured.step, measured.time)

    def finish(self, status: str, figures: Mapping[str, float], files: Sequence[Path]) -> None:
        self._log(figures, self._step, time.time())
        for file in files:
            self._client.log_artifact(self._id, str(file), "policy")
        self.abandon()
        self._client.set_terminated(self._id, status)

    def abandon(self) -> None:
        if self._monitor is not None:
            self._monitor.finish()  # type: ignore[no-untyped-call]
            self._monitor = None

    def _experiment(self) -> str:
        """The experiment's id; several runs may begin it at the same time."""
        from mlflow.exceptions import MlflowException

        name = self._run.settings["experiment"]
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:
                experiment = self._client.get_experiment_by_name(name)
                if experiment is None:
                    raise
        return str(experiment.experiment_id)

    def _describe(self, run: Run) -> None:
        """Log the config and the tags. MLflow refuses another value of a parameter that it has."""
        from mlflow.entities import Param, RunTag

        leaves = flattened(self._run.config["spec"])
        config = {re.sub(r"[^\w.-]", "_", name): value for name, value in leaves.items()}
        new = [Param(name, value) for name, value in config.items() if name not in run.data.params]
        for start in range(0, len(new), _PARAMETERS):
            self._client.log_batch(self._id, params=new[start : start + _PARAMETERS])
        tags = {"nitro.job": self._run.name} | {f"nitro.{name}": tag for name, tag in self._run.tags.items()}
        self._client.log_batch(self._id, tags=[RunTag(name, value) for name, value in tags.items()])

    def _log(self, values: Mapping[str, float], step: int, at: float) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(name, value, int(at * 1000), step) for name, value in values.items()]
        for start in range(0, len(metrics), _METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + _METRICS])

    def _has(self, name: str, step: int) -> bool:
        return any(metric.step == step for metric in self._history(name))

    def _history(self, name: str) -> list[Any]:
        return list(self._client.get_metric_history(self._id, name))

    def _watch_system(self) -> None:
        """Have MLflow record figures of the machine beside the run."""
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        logging.getLogger("mlflow.system_metrics").setLevel(logging.ERROR)
        self._monitor = SystemMetricsMonitor(  # type: ignore[no-untyped-call]
            self._id, sampling_interval=_SYSTEM_SECONDS, resume_logging=True
        )
        self._monitor.start()  # type: ignore[no-untyped-call]


def flattened(config: Mapping[str, Any]) -> dict[str, str]:
    """The leaves of a config by their paths, such as `algorithm.learningRate`, as text."""
    fields = leaves(config) if config else ()
    return {path: value if isinstance(value, str) else json.dumps(value) for path, value in fields}
