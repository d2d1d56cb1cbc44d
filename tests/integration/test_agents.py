"""Several agents by `nitro train` with real actor processes: sharing, refusals, kill -9 around toggles and
with a replay buffer.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from nitro_learner.checkpoints.store import load
from nitro_learner.run.policy_files import read_groups, read_toggles
from nitro_learner.run.rundir import RunDir
from train_support import exact_rows, learned, nitro, write_job

ROUNDS = 12
SPREAD: dict[str, Any] = {
    "environment": {"id": "mpe2/simple_spread_v3", "rolloutLength": 50, "envsPerActor": 2},
    "algorithm": {"name": "ippo", "hyperparameters": {"epochs": 2}},
    "network": {"hiddenSizes": [16]},
    # Every slope is below 1: it toggles whenever the window is full.
    "sharing": {"mode": "dynamic", "window": 4, "slope": 1},
    "scaling": {"scaler": "marless", "minActors": 2, "maxActors": 4, "initialActors": 4},
    "evaluation": {"episodes": 2, "everyRounds": 4},
    "stop": {"rounds": ROUNDS},
}
AGENTS = {"agent_0", "agent_1", "agent_2"}


def state_of(run: Path, number: int) -> dict[str, Any]:
    return load(run / "checkpoints" / f"round-{number:06d}.safetensors").state


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("undisturbed")
    done = nitro("train", write_job(directory, **SPREAD), "--run-dir", directory / "run")
    assert done.returncode == 0, done.stderr
    return directory / "run"


def test_sharing_toggles_after_every_full_window(undisturbed: Path) -> None:
    toggles = read_toggles(RunDir(undisturbed))
    # The one after round 12 waits for a round 13.
    assert [(toggle.round, toggle.shared) for toggle in toggles] == [(4, True), (8, False)]
    assert [len(toggle.groups) for toggle in toggles] == [2, 3]
    assert all(toggle.reason.startswith("the slope of the returns, ") for toggle in toggles)
    (pool,) = toggles[0].distances
    assert set(pool["agents"]) == AGENTS
    assert list(toggles[0].bases.values()) == ["convexity ratio"]
    counts: dict[int, int] = {}
    for round, _, agents in read_groups(RunDir(undisturbed)):
        counts[round] = counts.get(round, 0) + 1
        assert set(agents) <= AGENTS
    assert [counts[round] for round in range(1, ROUNDS + 1)] == [3] * 4 + [2] * 4 + [3] * 4


def test_a_toggle_is_a_version_of_the_weights_and_asks_for_the_most_actors(undisturbed: Path) -> None:
    assert state_of(undisturbed, ROUNDS)["policies"]["version"] == ROUNDS + 2
    actors = [int(row["actors"]) for row in exact_rows(undisturbed)]
    # After the second toggle all policies are new.
    assert (actors[0], actors[8]) == (4, 4)


def test_evaluations_tell_each_agents_return(undisturbed: Path) -> None:
    evaluation = json.loads((undisturbed / "summary.json").read_text())["evaluation"]
    assert evaluation["agents"].keys() == AGENTS
    assert sum(evaluation["agents"].values()) == pytest.approx(evaluation["mean"])
    assert evaluation["classes"] == pytest.approx({"agent": evaluation["mean"]})


def test_the_report_and_the_picture_show_the_groups(undisturbed: Path, tmp_path: Path) -> None:
    done = nitro("report", undisturbed, "--out", tmp_path / "report.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    assert page.count("sharing began") == 1
    assert page.count("sharing ended") == 1
    assert "Policy of each agent" in page
    assert (undisturbed / "result.png").stat().st_size > 20_000


def test_killed_around_toggles_and_resumed_equals_undisturbed(tmp_path: Path, undisturbed: Path) -> None:
    run = tmp_path / "run"
    begin: tuple[str | Path, ...] = (write_job(tmp_path, **SPREAD), "--run-dir", run)
    for moment in ("4:update", "4:decide", "4:regroup", "5:sample", "8:decide", "8:checkpoint", "8:regroup"):
        killed = nitro("train", *begin, kill=moment)
        assert killed.returncode == -9, (moment, killed.stderr)
        begin = ("--resume", run)
    again = nitro("train", *begin)
    assert again.returncode == 0, again.stderr
    assert learned(run, ROUNDS) == learned(undisturbed, ROUNDS)
    assert exact_rows(run) == exact_rows(undisturbed)
    for name in ("policies.csv", "sharing.jsonl"):
        assert (run / name).read_text() == (undisturbed / name).read_text(), name


def test_a_run_that_ends_with_a_decision_to_toggle_is_extended_exactly(
    tmp_path: Path, undisturbed: Path
) -> None:
    run = tmp_path / "run"
    done = nitro("train", write_job(tmp_path, **SPREAD | {"stop": {"rounds": 4}}), "--run-dir", run)
    assert done.returncode == 0, done.stderr
    assert read_toggles(RunDir(run)) == []
    assert set(state_of(run, 4)["policies"]["agents"].values()) == AGENTS, "each agent has its own"
    for moment in (None, "5:sample", "4:regroup"):
        more = nitro(
            "train", "--resume", run, "--set", f"spec.stop.rounds={ROUNDS if moment else 4}", kill=moment
        )
        assert more.returncode == (-9 if moment else 0), (moment, more.stderr)
    again = nitro("train", "--resume", run, "--set", f"spec.stop.rounds={ROUNDS}")
    assert again.returncode == 0, again.stderr
    assert learned(run, ROUNDS) == learned(undisturbed, ROUNDS)
    # What the ended run has evaluated, and what it cost, is not in the rows.
    assert exact_rows(run) == exact_rows(undisturbed)
    for name in ("policies.csv", "sharing.jsonl"):
        assert (run / name).read_text() == (undisturbed / name).read_text(), name


def test_the_number_of_actor_processes_changes_nothing(tmp_path: Path, undisturbed: Path) -> None:
    job = write_job(tmp_path, **SPREAD, backend={"type": "Local", "local": {"processes": 1}})
    done = nitro("train", job, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert learned(tmp_path / "run", ROUNDS) == learned(undisturbed, ROUNDS)


def test_two_teams_learn_and_share_by_themselves(tmp_path: Path) -> None:
    slower = {"agents": "adversary_*", "name": "ippo", "hyperparameters": {"learningRate": 1e-5}}
    changes = {
        "environment": SPREAD["environment"] | {"id": "mpe2/simple_tag_v3"},
        "algorithm": SPREAD["algorithm"] | {"policies": [slower]},
        "stop": {"rounds": 5},
    }
    done = nitro("train", write_job(tmp_path, **(SPREAD | changes)), "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    (toggle,) = read_toggles(RunDir(tmp_path / "run"))
    assert toggle.groups["agent_0"] == ["agent_0"]
    pairs = [members for members in toggle.groups.values() if len(members) > 1]
    assert pairs
    assert all(agent.startswith("adversary_") for members in pairs for agent in members)
    saved = state_of(tmp_path / "run", 5)["policies"]["learners"]
    assert [sorted(part["policies"]) for part in saved][1] == ["agent_0"]


@pytest.mark.parametrize(("algorithm", "moment"), [("vdn", "3:update"), ("qmix", "4:checkpoint")])
def test_a_q_learner_killed_and_resumed_goes_on_with_its_replay_buffer(
    tmp_path: Path, algorithm: str, moment: str
) -> None:
    # The buffer holds the last two rounds; 25 gradient steps a round.
    settings = {"bufferSize": 1000, "replayRatio": 8, "batchSize": 128, "targetUpdateSteps": 30}
    changes = {
        "algorithm": {"name": algorithm, "teamReward": True, "hyperparameters": settings},
        "sharing": {"mode": "never"},
        "stop": {"rounds": 5},
    }
    job = write_job(tmp_path, **(SPREAD | changes))
    done = nitro("train", job, "--run-dir", tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    killed = nitro("train", job, "--run-dir", tmp_path / "run", kill=moment)
    assert killed.returncode == -9, killed.stderr
    again = nitro("train", "--resume", tmp_path / "run")
    assert again.returncode == 0, again.stderr
    assert learned(tmp_path / "run", 5) == learned(tmp_path / "whole", 5)
    assert exact_rows(tmp_path / "run") == exact_rows(tmp_path / "whole")
    table = (tmp_path / "run" / "policies.csv").read_text()
    assert table == (tmp_path / "whole" / "policies.csv").read_text()
    last = list(csv.DictReader(table.splitlines()))[-1]
    assert float(last["td_error"]) > 0
    # The return of standing still is far below 0, and values are returns.
    assert float(last["q_mean"]) < 0
    assert 0.05 < float(last["epsilon"]) < 1
    held, kept = (
        {path.name for path in (tmp_path / run / "checkpoints" / "attachments").iterdir()}
        for run in ("run", "whole")
    )
    assert held == kept
    assert len(held) >= 2


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"algorithm": {"name": "ippo", "policies": [{"agents": "wolf_*", "name": "ippo"}]}},
            "must name an agent of the environment, which has agent_0, agent_1, agent_2",
        ),
        (
            {"environment": {"id": "one", "entryPoint": "actor_support:Walk", "rolloutLength": 50}},
            "learns several agents, and the environment has a single one",
        ),
        (
            {"sharing": {"mode": "random-toggle", "toggles": 4, "window": 3}},
            "spec.sharing.toggles",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_sentence(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    refused = nitro("train", write_job(tmp_path, **(SPREAD | changes)), "--run-dir", tmp_path / "run")
    assert refused.returncode not in (0, -9)
    assert text in refused.stderr
    assert "Traceback" not in refused.stderr
