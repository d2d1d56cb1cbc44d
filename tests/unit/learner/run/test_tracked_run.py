"""What trackers are told of a run, and their processes."""

import asyncio
import logging
import threading
from importlib import metadata
from pathlib import Path

import pytest

from nitro_api import JobInvalid, load_job, resolve
from nitro_api.costs.prices import RoundCost
from nitro_learner.run.published import published_job
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.tracking import availability, listener
from nitro_learner.run.tracking.follower import Rounds
from nitro_learner.run.tracking.listener import MOST_STARTS, TrackerProcess, Trackers
from nitro_learner.run.tracking.mlflow_tracker import flattened
from nitro_learner.training.round_report import Listener, Outcome
from shared_runs import shared_run
from tracking_support import PATIENCE_SECONDS, until
from train_support import job


def test_a_round_has_the_time_at_which_it_was_done(tmp_path: Path) -> None:
    """Also where several are told at once: with rare checkpoints, or after a tracker could not be reached."""
    folder = shared_run(tmp_path)
    lines = folder.metrics.read_text().splitlines()
    place = lines[0].split(",").index("wall_seconds")
    for index, seconds in enumerate((10.0, 25.0, 27.5), start=1):
        cells = lines[index].split(",")
        lines[index] = ",".join([*cells[:place], str(seconds), *cells[place + 1 :]])
    folder.metrics.write_text("\n".join(lines) + "\n")
    times = [measured.time for measured in Rounds(folder).up_to(3, 1_000_000.0)]
    assert times == [999_982.5, 999_997.5, 1_000_000.0]


def test_rounds_are_read_once_and_only_whole_lines(tmp_path: Path) -> None:
    folder = shared_run(tmp_path)
    whole = folder.metrics.read_text()
    cut = whole.rindex("\n", 0, -1) + 10
    folder.metrics.write_text(whole[:cut])
    rounds = Rounds(folder)
    assert [measured.round for measured in rounds.up_to(2, 0.0)] == [1, 2]
    (third,) = rounds.up_to(3, 0.0)
    assert (third.step, third.values["reward/mean"], third.values["update/kl"]) == (300, 1.0, 1.0)
    policies = {name for name in third.values if name.startswith("policy/")}
    assert "policy/agent_2/kl" in policies
    assert not any(name.startswith("policy/agent_1/") for name in policies), "that agent plays agent_2's"
    assert [measured.round for measured in rounds.up_to(9, 0.0)] == [4]
    with folder.metrics.open("a") as file:
        file.write(whole[cut:])
    assert [measured.round for measured in rounds.up_to(9, 0.0)] == [5]
    assert [measured.round for measured in Rounds(RunDir(tmp_path / "none")).up_to(9, 0.0)] == []


def test_a_config_has_the_whole_job_but_for_values_of_variables() -> None:
    variables = [{"name": "PASSWORD", "value": "secret"}]
    written = resolve(load_job(job(learner={"env": variables}, actor={"env": variables}))).to_dict()
    config = published_job(written | {"status": {"phase": "Running"}})
    assert "secret" not in str(config)
    assert config["spec"]["actor"]["env"] == [{"name": "PASSWORD"}]
    assert {name: part for name, part in config["spec"].items() if name not in ("actor", "learner")} == {
        name: part for name, part in written["spec"].items() if name not in ("actor", "learner")
    }
    leaves = flattened(config["spec"])
    assert leaves["environment.id"] == "Hopper-v5"
    assert leaves["network.hiddenSizes"] == "[16, 16]"
    resolve(load_job(config))  # it can be trained again


@pytest.mark.parametrize("tracker", ["wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_is_named_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    def version(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    tracking = {"wandb": {}} if tracker == "wandb" else {"mlflow": {"trackingUri": "http://mlflow"}}
    spec = resolve(load_job(job(tracking=tracking))).spec
    availability.check_installed(spec)
    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(JobInvalid) as refusal:
        availability.check_installed(spec)
    (sentence,) = refusal.value.errors
    assert sentence.path == f"spec.tracking.{tracker}"
    assert (
        f"in a checkout run pip install ./actor-image './learner-image[train,{tracker}]'" in sentence.message
    )
    assert f"--build-arg EXTRAS={tracker}" in sentence.message
    availability.check_installed(resolve(load_job(job())).spec)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec sleep 600", "it took longer than 1 s"),
        ("cat > /dev/null; exit 0", "its process ended"),
        ("""cat > /dev/null; echo '{"failed": "the disk is full"}'; exit 1""", "the disk is full"),
        ("""cat > /dev/null; echo '{"finished": true}'; exec sleep 600""", None),
    ],
)
@pytest.mark.parametrize("tracker", ["wandb", "mlflow"])
async def test_a_tracker_that_has_all_rounds_but_not_the_end_is_told_and_counted(
    tracker: str,
    script: str,
    reason: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = tmp_path / "program"
    program.write_text(f"""#!/bin/sh\necho '{{"recorded": 5}}'\necho '{{"opened": "here"}}'\n{script}\n""")
    program.chmod(0o755)
    monkeypatch.setattr(listener.sys, "executable", str(program))
    monkeypatch.setattr(listener, "FINISH_SECONDS", 1.0)
    caplog.set_level(logging.INFO)
    counted: list[str] = []

    class Counter(Listener):
        def on_tracking_failed(self, *, tracker: str) -> None:
            counted.append(tracker)

    tracking = {"wandb": {}} if tracker == "wandb" else {"mlflow": {"trackingUri": "http://mlflow"}}
    spec = resolve(load_job(job(tracking=tracking))).spec
    (tmp_path / "a run" / "wandb" / "run-20260101_120000-5f3a").mkdir(parents=True)
    async with Trackers(spec, tmp_path / "a run", "5f3a", {}, [Counter()]) as trackers:
        trackers.on_run_started(round=5, rounds=5, history=[])
        await asyncio.to_thread(until, lambda: "records the run: here" in caplog.text, "all are recorded")
        await trackers.end(Outcome("RoundsDone", "", True, 5, RoundCost(0.0, 0.0), 0.0))
        await asyncio.sleep(0)
    told = [record.getMessage() for record in caplog.records if "lacks the end" in record.getMessage()]
    if reason is None:
        assert (told, counted) == ([], [])
        return
    title, has, sync = "MLflow", "has", ""
    if tracker == "wandb":
        title, has = "Weights & Biases", "was given"
        files = f"'{tmp_path}/a run/wandb'/*run-*"
        sync = f" Or upload the rounds in W&B's files: wandb sync --include-online {files}"
    assert told == [
        f"{title} lacks the end of the run ({reason}); it {has} the rounds up to 5 of 5. A resumed run "
        f"records what is missing.{sync}"
    ]
    assert counted == [tracker] * (2 if "failed" in script else 1)


def _wait_for_its_end() -> None:
    """Wait until the thread that listens to a process has ended, which it does after the process."""
    for thread in threading.enumerate():
        if thread.name == "mlflow":
            thread.join(PATIENCE_SECONDS)


def test_a_process_that_dies_is_started_again_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener.sys, "executable", "/bin/false")
    failures: list[str] = []
    tracker = TrackerProcess("mlflow", {}, failures.append)
    tracker.start()
    for round in range(1, 10):
        _wait_for_its_end()
        tracker.tell(round)
    _wait_for_its_end()
    tracker.conclude("FINISHED")
    assert failures == ["mlflow"] * MOST_STARTS
    assert tracker.failure == "its process ended with 1"
    assert tracker.ended.done()
