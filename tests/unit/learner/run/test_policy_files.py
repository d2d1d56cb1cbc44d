"""policies.csv and sharing.jsonl: what is written, what a resume drops, what a crash may leave."""

import csv
from pathlib import Path

import numpy as np
import pytest

from nitro_learner.run.policy_files import COLUMNS, PolicyFiles, Toggle, read_groups, read_toggles
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.training.sharing.toggles import Regrouping
from shared_runs import APART, PAIRED, TOGGLES, report, shared_run


def test_every_round_has_a_row_for_each_policy(tmp_path: Path) -> None:
    folder = shared_run(tmp_path)
    with folder.policies.open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["round"], row["policy"]) for row in rows[5:10]] == [
        ("2", "agent_2"),
        ("3", "agent_0"),
        ("3", "agent_2"),
        ("4", "agent_0"),
        ("4", "agent_2"),
    ]
    shared = rows[7]
    assert (shared["agents"], shared["reward_mean"]) == ("agent_1 agent_2", "-23.0")
    assert (shared["boosting_score"], shared["wanted_actors"], shared["kl"]) == ("0.5", "12.5", "0.01")
    assert shared["entropy"] == ""
    assert read_groups(folder)[7] == (3, "agent_2", ("agent_1", "agent_2"))


def test_a_toggle_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = RunDir(tmp_path)
    files = PolicyFiles(folder)
    files.on_run_started(round=0, rounds=9, history=[])
    matrix = np.array([[0.0, 0.5], [0.5, 0.0]])
    event = Regrouping(
        1,
        2,
        True,
        PAIRED,
        frozenset({"agent_2"}),
        "why",
        3,
        {"agent_2": "return"},
        {("agent_0", "agent_1"): matrix},
    )
    files.on_policies_regrouped(event)
    (found,) = read_toggles(folder)
    assert found == Toggle.of(event)
    assert found.distances == [{"agents": ["agent_0", "agent_1"], "distances": matrix.tolist()}]
    assert found.groups == {policy: list(agents) for policy, agents in PAIRED.items()}


def test_a_resume_drops_what_will_be_made_again(tmp_path: Path) -> None:
    folder = shared_run(tmp_path)
    before = folder.policies.read_text()
    with folder.policies.open("a") as file:
        file.write("6,agent_0,agen")
    with folder.sharing.open("a") as file:
        file.write('{"round": 5, "sha')
    files = PolicyFiles(folder)
    files.on_run_started(round=3, rounds=5, history=[])
    assert {round for round, *_ in read_groups(folder)} == {1, 2, 3}
    assert read_toggles(folder) == TOGGLES[:1]
    files.on_run_started(round=2, rounds=5, history=[])
    assert {round for round, *_ in read_groups(folder)} == {1, 2}
    assert read_toggles(folder) == [], "the toggle after round 2 is carried out as round 3 begins"
    for round in (3, 4, 5):
        files.on_round_done(report(round, PAIRED if round < 5 else APART))
    assert folder.policies.read_text() == before


def test_a_line_that_a_crash_cut_is_left_out_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = shared_run(tmp_path)
    text = folder.sharing.read_text()
    folder.sharing.write_text(text[:-9])
    assert read_toggles(folder) == TOGGLES[:1]
    folder.sharing.write_text("nonsense\n" + text)
    with pytest.raises(RunDirError, match=r"sharing\.jsonl is damaged"):
        read_toggles(folder)
    folder.policies.write_text("round,policy\n1,a\n")
    with pytest.raises(RunDirError, match=r"policies\.csv is damaged"):
        read_groups(folder)
    for damaged in ("policy\na\n", "round,policy\none,a\n"):
        folder.policies.write_text(damaged)
        with pytest.raises(RunDirError, match=r"policies\.csv is damaged"):
            PolicyFiles(folder).on_run_started(round=2, rounds=5, history=[])
        assert folder.policies.read_text() == damaged


def test_a_run_of_one_agent_has_neither(tmp_path: Path) -> None:
    assert read_toggles(RunDir(tmp_path)) == []
    assert read_groups(RunDir(tmp_path)) == []
