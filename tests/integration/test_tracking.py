"""Trackers that fail, hang or were written half, with their real libraries."""

import asyncio
import csv
import socket
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import agents_jobs
from nitro_api.costs.prices import RoundCost
from nitro_learner.run.metrics import LearnerMetrics
from nitro_learner.run.tracking import listener
from nitro_learner.run.tracking.base import TrackedRun
from nitro_learner.run.tracking.follower import Rounds
from nitro_learner.run.tracking.listener import Trackers
from nitro_learner.run.tracking.mlflow_tracker import MlflowTracker
from nitro_learner.training.round_report import Outcome
from shared_runs import shared_run
from tracking_support import PATIENCE_SECONDS, mlflow_client, mlflow_history, until
from untrained_runs import untrained
from wandb_cloud import UploadedRun, cloud

RUN = "5f3a"
ENDED = Outcome("RoundsDone", "all rounds are done", True, 5, RoundCost(0.0, 0.0), 0.0)


def _followed(path: Path, **tracking: Any) -> tuple[Trackers, LearnerMetrics]:
    """A run of five rounds of three agents that has ended, its trackers, and the metrics that count their
    failures."""
    folder = shared_run(path)
    described = untrained(agents_jobs.job(name="ippo", tracking=tracking), path)
    folder.job.write_text(described.to_yaml())
    evaluation = {"mean": -20.0, "std": 1.0, "agents": {"agent_0": -7.0}}
    folder.write_summary({"cost": {"total": 0.5}, "evaluation": evaluation})
    metrics = LearnerMetrics("team", "spread", begun=False)
    return Trackers(described.spec, path, RUN, {"numpy": "2"}, [metrics]), metrics


def _failures(metrics: LearnerMetrics) -> float:
    labels = {"namespace": "team", "job_name": "spread", "tracker": "mlflow"}
    return metrics.registry.get_sample_value("nitro_tracking_failures_total", labels) or 0.0


async def test_what_a_tracker_missed_is_recorded_once_it_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    store.write_text("a file where the folder should be")
    trackers, metrics = _followed(tmp_path / "run", mlflow={"trackingUri": f"file://{store}"})
    async with trackers:
        trackers.on_run_started(round=0, rounds=5, history=[])
        trackers.on_checkpoint_saved(round=3, location="")
        await asyncio.to_thread(until, lambda: _failures(metrics) > 0, "a failure")
        store.unlink()
        trackers.on_checkpoint_saved(round=5, location="")
        await trackers.end(ENDED)
    assert "lacks the end" not in caplog.text
    client = mlflow_client(store)
    (run,) = client.search_runs([client.get_experiment_by_name("nitro").experiment_id])
    assert mlflow_history(client, run.info.run_id, "run/round") == [(100 * n, n) for n in range(1, 6)]
    # Two agents share a policy in the rounds 3 and 4.
    shared, own = (f"policy/{name}/reward_mean" for name in ("agent_2", "agent_1"))
    assert mlflow_history(client, run.info.run_id, shared) == [(100 * n, -20.0 - n) for n in range(1, 6)]
    assert mlflow_history(client, run.info.run_id, own) == [(100 * n, -20.0 - n) for n in (1, 2, 5)]
    assert run.data.metrics["final/agent/agent_0"] == -7


async def test_a_tracker_that_hangs_holds_up_the_end_of_the_run_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "FINISH_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:  # it takes a connection, and never answers
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        trackers, _ = _followed(tmp_path / "run", mlflow={"trackingUri": uri})
        async with trackers:
            trackers.on_run_started(round=0, rounds=5, history=[])
            trackers.on_checkpoint_saved(round=5, location="")
            connection, _ = await asyncio.to_thread(server.accept)
            with connection:
                await trackers.end(ENDED)
                assert await asyncio.to_thread(_ends, connection), "it is killed"
    lost = (
        "MLflow lacks the end of the run (it took longer than 0 s); it has the rounds up to 0 of 5. A resumed"
    )
    assert lost in caplog.text


def _ends(connection: socket.socket) -> bool:
    """Whether whoever made a connection closes it."""
    connection.settimeout(PATIENCE_SECONDS)
    while connection.recv(65536):
        pass
    return True


async def test_a_run_of_wandb_goes_on_where_its_server_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with cloud() as servers:
        for name, value in servers.variables.items():
            monkeypatch.setenv(name, value)
        # Of an earlier sitting the server has two rounds, as W&B's client had sent them.
        former = [{"_step": 100 * n, "run/round": n} for n in (1, 2)]
        servers.runs[RUN] = UploadedRun(history=list(former))
        trackers, _ = _followed(tmp_path / "run", wandb={"mode": "online"})
        async with trackers:
            trackers.on_run_started(round=5, rounds=5, history=[])
            await trackers.end(ENDED)
        run = servers.runs[RUN]
    assert run.history[:2] == former
    assert [(row["_step"], row["run/round"]) for row in run.history] == [(100 * n, n) for n in range(1, 6)]
    assert run.history[2]["policy/agent_2/reward_mean"] == -23
    with (tmp_path / "run" / "metrics.csv").open() as file:
        done = [float(row["wall_seconds"]) for row in csv.DictReader(file)]
    apart = [row["_timestamp"] - run.history[-1]["_timestamp"] for row in run.history[2:]]
    expected = [seconds - done[-1] for seconds in done[2:]]
    assert apart == pytest.approx(expected, abs=1e-3), "a point has the round's own time"
    assert apart[0] < -0.5, "all were sent at once"
    assert run.summary["final/agent/agent_0"] == -7
    assert run.artifacts == ["job-policy"]
    assert run.exit_code == 0
    assert "lacks the end" not in caplog.text


@pytest.mark.parametrize(
    ("wanted", "said", "kept"),
    [
        ("online", {"WANDB_MODE": "offline"}, True),
        ("online", {"WANDB_MODE": "dryrun"}, True),
        ("online", {"WANDB_MODE": "disabled"}, False),
        ("online", {"WANDB_CONFIG_DIR": "offline"}, True),  # `wandb offline`
        ("offline", {"WANDB_CONFIG_DIR": "disabled"}, False),  # `wandb disabled`
        ("offline", {"WANDB_MODE": "online"}, True),
    ],
)
async def test_nothing_goes_to_wandb_where_the_user_said_no(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wanted: str,
    said: dict[str, str],
    kept: bool,
) -> None:
    """The machine has a key, and the server can be reached."""
    for name, value in said.items():
        if name == "WANDB_CONFIG_DIR":
            (tmp_path / "settings").write_text(f"[default]\nmode = {value}\n")
            value = str(tmp_path)
        monkeypatch.setenv(name, value)
    with cloud() as servers:
        for name, value in servers.variables.items():
            monkeypatch.setenv(name, value)
        trackers, _ = _followed(tmp_path / "run", wandb={"mode": wanted})
        async with trackers:
            trackers.on_run_started(round=5, rounds=5, history=[])
            await trackers.end(ENDED)
        assert servers.requests == 0
    files = await asyncio.to_thread(lambda: list((tmp_path / "run").glob("wandb/offline-run-*/*.wandb")))
    assert bool(files) == kept
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


async def test_the_last_warning_names_no_files_of_wandb_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    trackers, _ = _followed(tmp_path / "run", wandb={"mode": "online"})
    async with trackers:
        trackers.on_run_started(round=5, rounds=5, history=[])
        await trackers.end(ENDED)
    assert not (tmp_path / "run" / "wandb").exists()
    assert "Weights & Biases lacks the end of the run" in caplog.text
    assert "wandb sync" not in caplog.text


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_mlflow_gets_figures_of_the_machine_unless_the_user_said_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", wanted)
    settings = {"trackingUri": f"file://{tmp_path / 'store'}", "experiment": "nitro"}
    tracker = MlflowTracker(TrackedRun(RUN, "spread", settings, {"spec": {}}, {}, tmp_path, 1))
    with patch("mlflow.system_metrics.system_metrics_monitor.SystemMetricsMonitor") as monitor:
        tracker.open()
        assert monitor.return_value.start.called == (wanted == "true")
        tracker.abandon()
        assert monitor.return_value.finish.called == (wanted == "true")


def test_a_round_that_mlflow_has_in_part_is_completed(tmp_path: Path) -> None:
    folder, store = shared_run(tmp_path / "run"), tmp_path / "store"
    settings = {"trackingUri": f"file://{store}", "experiment": "nitro"}
    run = TrackedRun(RUN, "spread", settings, {"spec": {}}, {}, folder.path, 1)
    first = MlflowTracker(run)
    first.open()
    first.record(next(Rounds(folder).up_to(1, 1_000.0)))
    client = mlflow_client(store)
    (begun,) = client.search_runs([client.get_experiment_by_name("nitro").experiment_id])
    client.log_metric(begun.info.run_id, "reward/mean", 1.0, step=200)  # and then it was killed
    first.abandon()
    second = MlflowTracker(run)
    second.open()
    for measured in Rounds(folder).up_to(3, 3_000.0):
        second.record(measured)
    second.finish("KILLED", {}, [])
    for metric, value in (("reward/mean", [1.0, 1.0, 1.0]), ("run/round", [1, 2, 3])):
        found = mlflow_history(client, begun.info.run_id, metric)
        assert found == list(zip((100, 200, 300), value, strict=True))
    times = [metric.timestamp for metric in client.get_metric_history(begun.info.run_id, "run/round")]
    assert times[0] == 1_000_000
    assert times[-1] == 3_000_000, "a point has the round's own time, in milliseconds"
    assert client.get_run(begun.info.run_id).info.status == "KILLED"
