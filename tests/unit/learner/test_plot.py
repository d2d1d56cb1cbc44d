"""Runs become groups and common curves; the picture itself is looked at by people."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from nitro_learner.plot import align, draw, group, read_run, titles
from nitro_learner.rundir import CsvMetrics, RunDir, RunDirError
from report_support import report
from train_support import job


def _run(directory: Path, rounds: int = 5, pace: float = 1.0, **spec: object) -> Path:
    directory.mkdir()
    (directory / "job.yaml").write_text(
        yaml.safe_dump(job(algorithm={"name": "ppo", "preset": "tuned"}, **spec))
    )
    csv = CsvMetrics(directory / "metrics.csv")
    csv.started(round=0, rounds=rounds, history=[])
    for number in range(1, rounds + 1):
        csv.round_done(report(number, wall_seconds=pace * number))
    return directory


def test_seeds_make_one_group_and_scalers_several(tmp_path: Path) -> None:
    fixed = {"scaler": "fixed", "minActors": 2, "maxActors": 6}
    nitro = {"scaler": "nitro", "minActors": 2, "maxActors": 6}
    paths = [
        _run(tmp_path / "a", seed=1, scaling=fixed),
        _run(tmp_path / "b", seed=2, scaling=fixed),
        _run(tmp_path / "c", seed=1, scaling=nitro),
    ]
    groups = group([read_run(RunDir(path)) for path in paths])
    assert {label: len(runs) for label, runs in groups.items()} == {"fixed": 2, "nitro": 1}
    out = draw(paths, tmp_path / "compared.png")
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_groups_of_one_scaler_are_told_apart_by_what_differs_between_them(tmp_path: Path) -> None:
    scalings = {
        "a": {"scaler": "fixed", "minActors": 2, "maxActors": 6},
        "b": {"scaler": "nitro", "mode": "paper", "minActors": 2, "maxActors": 6},
        "c": {"scaler": "nitro", "mode": "noise", "minActors": 2, "maxActors": 6},
    }
    runs = [read_run(RunDir(_run(tmp_path / name, scaling=one))) for name, one in scalings.items()]
    assert list(group(runs)) == ["fixed", "nitro, mode paper", "nitro, mode noise"]


def test_every_algorithm_of_a_picture_is_named_and_no_other(tmp_path: Path) -> None:
    paths = [_run(tmp_path / "a"), _run(tmp_path / "b")]
    settings = {"name": "impact", "preset": "tuned", "hyperparameters": {"clip": 0.4, "adamEpsilon": 1e-8}}
    (paths[1] / "job.yaml").write_text(yaml.safe_dump(job(algorithm=settings)))
    groups = group([read_run(RunDir(path)) for path in paths])
    assert list(groups) == ["ppo", "impact"]
    _, subtitle = titles(groups)
    assert subtitle == "Hopper-v5  ·  PPO (tuned), IMPACT (tuned)  ·  2 runs"


def test_curves_are_compared_where_all_are_known(tmp_path: Path) -> None:
    paths = [_run(tmp_path / "a", seed=1), _run(tmp_path / "b", rounds=3, pace=2.0, seed=2)]
    runs = [read_run(RunDir(path)) for path in paths]
    rounds, values = align(runs, "round", "reward_mean")
    assert rounds.tolist() == [1, 2, 3]
    assert values.tolist() == [[20, 40, 60], [20, 40, 60]]
    times, values = align(runs, "wall_seconds", "reward_mean")
    assert times[0] == 2.0
    assert times[-1] == 5.0
    assert np.allclose(values[1], times * 10)
    _, steps = align(runs, "wall_seconds", "actors", steps=True)
    assert set(steps.flatten()) == {8.0}


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match=r"no job\.yaml"):
        draw([tmp_path], tmp_path / "x.png")
