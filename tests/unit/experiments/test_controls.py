"""Controls: a run's own actors in a random order within blocks, and the mean actors of several runs."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from experiment_support import pretend, write_spec
from nitro_api import JobInvalid
from nitro_experiments.planning.controls import mean_profile, permuted, with_schedule
from nitro_experiments.planning.plan import PlannedRun, plan
from nitro_experiments.planning.spec import Budget, load
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.places import Ending
from nitro_experiments.running.runner import Runner
from nitro_learner.run.rundir import RunDirError

ACTORS = [2, 4, 1, 3, 1, 4, 2, 2, 3, 1, 4, 1, 2, 3]


def controlled(directory: Path, section: str = "permuted", **changes: Any) -> list[PlannedRun]:
    return plan(load(write_spec(directory, **{section: {"control": "nitro"}}, **changes)))


def test_each_block_keeps_its_own_numbers() -> None:
    found = permuted(ACTORS, 6, 1)
    assert found != ACTORS
    for start in range(0, len(ACTORS), 6):
        assert Counter(found[start : start + 6]) == Counter(ACTORS[start : start + 6])


def test_the_seed_draws_the_order() -> None:
    assert permuted(ACTORS, 6, 1) == permuted(ACTORS, 6, 1)
    assert len({tuple(permuted(ACTORS, 6, seed)) for seed in range(10)}) > 5


def test_every_order_of_a_block_is_equally_probable() -> None:
    counts = Counter(tuple(permuted([1, 2, 3], 3, seed)) for seed in range(3000))
    assert len(counts) == 6
    assert min(counts.values()) > 400


def test_a_control_comes_after_its_source_with_the_same_seed(tmp_path: Path) -> None:
    runs = controlled(tmp_path)
    assert [(run.variant, run.seed, run.sources) for run in runs] == [
        ("fixed", 0, ()),
        ("nitro", 0, ()),
        ("control", 0, (runs[1],)),
        ("fixed", 1, ()),
        ("nitro", 1, ()),
        ("control", 1, (runs[4],)),
    ]
    assert str(runs[2].folder) == "runs/two-state/control/seed-0"


def test_replays_come_after_all_seeds_of_their_source(tmp_path: Path) -> None:
    runs = controlled(tmp_path, "replayed")
    sources = (runs[1], runs[3])
    assert [(run.variant, run.seed, run.sources) for run in runs[4:]] == [
        ("control", 0, sources),
        ("control", 1, sources),
    ]


def test_the_mean_profile_spends_what_the_runs_spend_on_average() -> None:
    assert mean_profile([[4, 8, 1], [5, 8, 4]]) == [5, 8, 2]
    assert mean_profile([[2, 4, 3], [2, 5], [2, 6, 4]]) == [2, 5, 4]
    runs = np.random.default_rng(0).integers(4, 17, (7, 50))
    profile, means = np.array(mean_profile(runs.tolist())), runs.mean(axis=0)
    assert (np.abs(np.cumsum(profile) - np.cumsum(means)) <= 0.5).all()
    assert ((profile == np.floor(means)) | (profile == np.ceil(means))).all()


def test_a_replay_has_the_mean_actors_of_all_seeds_and_is_else_the_same_job(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path / "results")
    _, first, _, second, control, _ = controlled(tmp_path, "replayed")
    pretend(folder, first, actors=[2, 4, 2], returns=[0.0] * 3)
    assert not folder.finished(control)
    pretend(folder, second, actors=[2, 1, 4], returns=[0.0] * 3)
    made, own = folder.prepare(control).read_job()["spec"], first.job.to_dict()["spec"]
    assert made.pop("scaling")["schedule"] == [2, 3, 3]
    own.pop("scaling")
    assert made == own


@pytest.mark.parametrize("section", ["permuted", "replayed"])
def test_a_control_has_the_range_of_actors_of_its_source(tmp_path: Path, section: str) -> None:
    """No off-policy round ends with fewer fragments than minActors."""
    folder = ExperimentDir(tmp_path / "results")
    _, source, control = controlled(tmp_path, section, seeds=[0])
    pretend(folder, source, actors=[2, 3, 2], returns=[0.0] * 3)
    scaling = folder.prepare(control).read_job()["spec"]["scaling"]
    assert (scaling["minActors"], scaling["maxActors"]) == (1, 4)
    assert sorted(scaling["schedule"]) == [2, 2, 3]


def test_a_schedule_that_leaves_the_range_of_the_job_widens_it(tmp_path: Path) -> None:
    source = controlled(tmp_path)[0]
    scaling = with_schedule(source.job, [3, 7]).spec.scaling
    assert (scaling.min_actors, scaling.max_actors, scaling.initial_actors) == (1, 7, 3)


def test_a_control_begins_anew_when_its_sources_have_changed(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path / "results")
    _, source, control = controlled(tmp_path, "replayed", seeds=[0])
    pretend(folder, source, actors=[2, 4], returns=[0.0] * 2)
    pretend(folder, control, actors=[2, 4], returns=[0.0] * 2)
    assert folder.finished(control)
    pretend(folder, source, actors=[2, 4, 1], returns=[0.0] * 3)
    assert not folder.finished(control)
    assert folder.prepare(control).has_run(), "its rounds are the first of the longer schedule"
    pretend(folder, source, actors=[2, 3, 3], returns=[0.0] * 3)
    assert not folder.prepare(control).has_run()
    assert folder.run(control).read_job()["spec"]["scaling"]["schedule"] == [2, 3, 3]


def test_a_control_whose_last_entry_held_for_more_rounds_begins_anew(tmp_path: Path) -> None:
    """By a budget in dollars it had two rounds more than its source, at the source's last number."""
    folder = ExperimentDir(tmp_path / "results")
    _, source, control = controlled(tmp_path, "replayed", seeds=[0], budget={"dollars": 0.05})
    pretend(folder, source, actors=[2, 3], returns=[0.0] * 2)
    pretend(folder, control, actors=[2, 3], returns=[0.0] * 2)
    pretend(folder, source, actors=[2, 3, 3, 3, 4], returns=[0.0] * 5)
    assert folder.prepare(control).has_run(), "the rounds of two runs that spent alike"
    pretend(folder, source, actors=[2, 3], returns=[0.0] * 2)
    pretend(folder, control, actors=[2, 3, 3, 3], returns=[0.0] * 4)
    pretend(folder, source, actors=[2, 3, 3, 3, 4], returns=[0.0] * 5)
    assert folder.prepare(control).has_run()
    pretend(folder, source, actors=[2, 3, 7, 1, 4], returns=[0.0] * 5)
    assert not folder.prepare(control).has_run()


def test_a_control_repeats_the_actors_of_its_source_and_is_else_the_same_job(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path / "results")
    _, source, control, *_ = controlled(tmp_path)
    assert not folder.finished(control)
    pretend(folder, source, actors=ACTORS, returns=[0.0] * len(ACTORS))
    expected = permuted(ACTORS, source.job.spec.scaling.window, 0)
    made = folder.prepare(control).read_job()["spec"]
    own = source.job.to_dict()["spec"]
    assert made["scaling"]["scaler"] == "schedule"
    assert made["scaling"]["schedule"] == expected
    assert {k: v for k, v in made.items() if k != "scaling"} == {
        k: v for k, v in own.items() if k != "scaling"
    }
    assert not folder.finished(control)
    pretend(folder, control, actors=expected, returns=[0.0] * len(ACTORS))
    assert folder.finished(control)


def test_a_control_is_not_finished_while_its_source_goes_on(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path / "results")
    _, source, control, *_ = controlled(tmp_path)
    pretend(folder, source, actors=ACTORS, returns=[0.0] * len(ACTORS))
    pretend(folder, control, actors=ACTORS, returns=[0.0] * len(ACTORS))
    assert folder.finished(control)
    folder.run(source).summary.unlink()
    assert not folder.finished(control)


def test_a_run_with_more_rounds_than_a_schedule_has_no_control(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path / "results")
    _, source, control, *_ = controlled(tmp_path)
    pretend(folder, source, actors=[1] * 1001, returns=[0.0] * 1001)
    with pytest.raises(RunDirError, match="1001 rounds, and a schedule has at most 1000"):
        folder.prepare(control)


class Pretending:
    """A place that only pretends to train: each run gets `rounds` rounds of one actor."""

    def __init__(self, folder: ExperimentDir, rounds: int) -> None:
        self._folder, self._rounds = folder, rounds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def train(self, run: PlannedRun, *_: object) -> Ending:
        pretend(self._folder, run, actors=[1] * self._rounds, returns=[0.0] * self._rounds)
        return Ending("done")

    def columns(self, run: PlannedRun) -> None:
        pass

    async def discard(self, run: PlannedRun) -> None:
        pass


async def test_other_runs_go_on_when_a_control_is_not_possible(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path / "results")
    runs = controlled(tmp_path)
    runner = Runner(folder, runs, Budget(rounds=8), Pretending(folder, 1001), jobs=1)
    await runner.train()
    assert [(state.run.control, state.status) for state in runner.states] == [
        (run.control, "failed" if run.control else "done") for run in runs
    ]
    messages = {state.message for state in runner.states if state.run.control}
    assert all("1001 rounds, and a schedule has at most 1000" in message for message in messages)


def test_a_control_that_begins_anew_is_removed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in the middle of the removal leaves no half of a run."""
    folder = ExperimentDir(tmp_path / "results")
    _, source, control = controlled(tmp_path, "replayed", seeds=[0])
    pretend(folder, source, actors=[2, 4], returns=[0.0] * 2)
    pretend(folder, control, actors=[2, 4], returns=[0.0] * 2)
    pretend(folder, source, actors=[3, 3], returns=[0.0] * 2)

    def killed(path: Path, **_: object) -> None:
        for name in ("job.yaml", "summary.json"):
            (path / name).unlink(missing_ok=True)
        if path.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.prepare(control)
    assert not folder.prepare(control).has_run()
    assert [each.name for each in folder.run(control).path.parent.iterdir()] == ["seed-0"]


@pytest.mark.parametrize(
    ("controls", "sentence"),
    [
        ({"shuffled": "nitr"}, 'permuted.shuffled: "nitr"; is not a variant; did you mean nitro?'),
        (
            {"fixed": "nitro"},
            'permuted.fixed: "nitro"; is the name of a variant or of another control as well; choose another',
        ),
        ({"other": "nitro"}, 'replayed.other: "nitro"; is the name of a variant or of another control'),
        ({"Sh": "nitro"}, 'permuted.Sh: "Sh"; must be named by at most 63 lower-case'),
    ],
)
def test_controls_that_make_no_sense_are_refused(
    tmp_path: Path, controls: dict[str, str], sentence: str
) -> None:
    with pytest.raises(JobInvalid) as refused:
        load(write_spec(tmp_path, permuted=controls, replayed={"other": "nitro"}))
    assert sentence in str(refused.value)


def test_a_budget_of_more_rounds_than_a_schedule_has_is_refused_beside_controls(tmp_path: Path) -> None:
    load(write_spec(tmp_path, budget={"rounds": 1001}))
    with pytest.raises(JobInvalid, match=r"budget\.rounds: 1001; must be at most 1000"):
        controlled(tmp_path, budget={"rounds": 1001})


def test_questions_may_be_about_a_control(tmp_path: Path) -> None:
    asked = load(
        write_spec(
            tmp_path,
            permuted={"shuffled": "nitro"},
            replayed={"replay": "nitro"},
            against=["shuffled"],
            questions={"Does the score tell?": ["nitro", "replay"]},
        )
    )
    assert asked.against == ["shuffled"]
