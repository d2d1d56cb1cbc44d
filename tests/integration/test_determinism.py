"""Equal jobs give equal fragments and weights, to the bit, with any number of actor processes."""

from pathlib import Path

from train_support import nitro, recorded, write_job


def test_one_or_three_actor_processes_are_equal(tmp_path: Path) -> None:
    records = []
    for processes in (1, 3):
        directory = tmp_path / str(processes)
        directory.mkdir()
        job = write_job(directory, backend={"type": "Local", "local": {"processes": processes}})
        done = nitro("train", job, "--run-dir", directory / "run", record=directory / "record.jsonl")
        assert done.returncode == 0, done.stderr
        records.append(recorded(directory / "record.jsonl"))
    assert len(records[0]) == 6
    assert records[0] == records[1]


def test_one_or_three_actor_processes_reset_idle_slots_alike(tmp_path: Path) -> None:
    """The third slot rests in the second round; beside a run that resumes it only the third round differs."""
    records = []
    for processes, reset in ((1, True), (3, True), (3, False)):
        directory = tmp_path / f"{processes}-{reset}"
        directory.mkdir()
        job = write_job(
            directory,
            environment={"id": "Hopper-v5", "rolloutLength": 64, "envsPerActor": 4, "resetIdleSlots": reset},
            scaling={"scaler": "schedule", "schedule": [3, 2, 3], "minActors": 2},
            stop={"rounds": 3},
            backend={"type": "Local", "local": {"processes": processes}},
        )
        done = nitro("train", job, "--run-dir", directory / "run", record=directory / "record.jsonl")
        assert done.returncode == 0, done.stderr
        records.append(recorded(directory / "record.jsonl"))
    assert records[0] == records[1]
    differing = {round for round, entry in records[1].items() if entry != records[2][round]}
    assert differing == {3}


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    records = []
    for seed in (7, 8):
        record = tmp_path / f"{seed}.jsonl"
        job = write_job(tmp_path, seed=seed, stop={"rounds": 1})
        assert nitro("train", job, "--run-dir", tmp_path / str(seed), record=record).returncode == 0
        records.append(recorded(record)[1])
    assert set(records[0]["fragments"]).isdisjoint(records[1]["fragments"])
