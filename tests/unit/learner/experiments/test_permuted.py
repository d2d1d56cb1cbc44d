"""Permuted controls: a run's own actors, in a random order within blocks."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiment_support import pretend, write_spec
from nitro_api import JobInvalid
from nitro_learner.experiments.folder import ExperimentDir
from nitro_learner.experiments.permuted import permuted
from nitro_learner.experiments.plan import PlannedRun, plan
from nitro_learner.experiments.spec import load
from nitro_learner.run.rundir import RunDirError

ACTORS = [2, 4, 1, 3, 1, 4, 2, 2, 3, 1, 4, 1, 2, 3]


def controlled(directory: Path, **changes: Any) -> list[PlannedRun]:
    return plan(load(write_spec(directory, permuted={"shuffled": "nitro"}, **changes)))


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
    labels = [(run.variant, run.seed, run.source.variant if run.source else None) for run in runs]
    assert labels == [
        ("fixed", 0, None),
        ("nitro", 0, None),
        ("shuffled", 0, "nitro"),
        ("fixed", 1, None),
        ("nitro", 1, None),
        ("shuffled", 1, "nitro"),
    ]
    assert str(runs[2].folder) == "runs/two-state/shuffled/seed-0"
    assert runs[2].source is runs[1]


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


@pytest.mark.parametrize(
    ("controls", "sentence"),
    [
        ({"shuffled": "nitr"}, 'permuted.shuffled: "nitr"; is not a variant; did you mean nitro?'),
        ({"fixed": "nitro"}, 'permuted.fixed: "nitro"; is the name of a variant as well; choose another'),
        ({"Sh": "nitro"}, 'permuted.Sh: "Sh"; must be named by at most 63 lower-case'),
    ],
)
def test_controls_that_make_no_sense_are_refused(
    tmp_path: Path, controls: dict[str, str], sentence: str
) -> None:
    with pytest.raises(JobInvalid) as refused:
        load(write_spec(tmp_path, permuted=controls))
    assert sentence in str(refused.value)


def test_questions_may_be_about_a_control(tmp_path: Path) -> None:
    asked = load(
        write_spec(
            tmp_path,
            permuted={"shuffled": "nitro"},
            against=["shuffled"],
            questions={"Does the score tell?": ["nitro", "shuffled"]},
        )
    )
    assert asked.against == ["shuffled"]
