"""Runs become groups and common curves; the picture itself is looked at by people."""

import csv
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from nitro_learner.cli import main
from nitro_learner.run.recorders import CsvMetrics
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.run.views import plot
from nitro_learner.run.views.plot import draw, titles
from nitro_learner.run.views.plot_axes import X_AXES
from nitro_learner.run.views.plot_groups import align, group, read_run
from report_support import report
from train_support import job

COST = "Cost ($)\nshaded: learner"
NO_RETURN = dict.fromkeys(("reward_mean", "reward_round", "evaluation_mean", "evaluation_std"))
FIXED = {"scaler": "fixed", "minActors": 2, "maxActors": 6}
NITRO = {"scaler": "nitro", "minActors": 2, "maxActors": 6}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The figure and the axes of every picture that is drawn in the test."""
    kept: list[tuple[Any, Any]] = []
    picture = plot.picture

    @contextmanager
    def keeping(path: Path, **layout: Any) -> Iterator[tuple[Any, Any]]:
        with picture(path, **layout) as found:
            kept.append(found)
            yield found

    monkeypatch.setattr(plot, "picture", keeping)
    return kept


def _run(
    directory: Path,
    rounds: int = 5,
    pace: float = 1.0,
    *,
    returns: bool = True,
    values: Mapping[str, Any] | None = None,
    **spec: object,
) -> Path:
    directory.mkdir()
    (directory / "job.yaml").write_text(
        yaml.safe_dump(job(algorithm={"name": "ppo", "preset": "tuned"}, **spec))
    )
    metrics = CsvMetrics(directory / "metrics.csv")
    metrics.on_run_started(round=0, rounds=rounds, history=[])
    for number in range(1, rounds + 1):
        missing = {} if returns else NO_RETURN
        metrics.on_round_done(report(number, **{"wall_seconds": pace * number, **missing, **(values or {})}))
    return directory


def test_seeds_make_one_group_and_scalers_several(tmp_path: Path) -> None:
    paths = [
        _run(tmp_path / "a", seed=1, scaling=FIXED),
        _run(tmp_path / "b", seed=2, scaling=FIXED),
        _run(tmp_path / "c", seed=1, scaling=NITRO),
    ]
    groups = group([read_run(RunDir(path)) for path in paths])
    assert {label: len(runs) for label, runs in groups.items()} == {"fixed": 2, "nitro": 1}
    out = draw(paths, tmp_path / "compared.png")
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_rounds_divide_runs_whose_training_depends_on_them(tmp_path: Path) -> None:
    """The learning rate of a run of ten rounds falls half as fast as that of a run of five."""

    def labels(name: str, *settings: tuple[int, bool]) -> list[str]:
        folders = []
        for number, (rounds, anneal) in enumerate(settings):
            folders.append(_run(tmp_path / f"{name}{number}", seed=number, stop={"rounds": rounds}))
            algorithm = {"name": "ppo", "preset": "tuned", "hyperparameters": {"learningRateAnneal": anneal}}
            written = job(algorithm=algorithm, seed=number, stop={"rounds": rounds})
            (folders[-1] / "job.yaml").write_text(yaml.safe_dump(written))
        return list(group([read_run(RunDir(folder)) for folder in folders]))

    assert labels("annealed", (5, True), (10, True), (5, True)) == ["rounds 5", "rounds 10"]
    assert len(labels("constant", (5, False), (10, False))) == 1
    both = labels("both", (5, True), (5, False), (10, False))
    assert both == ["learningRateAnneal True, rounds 5", "learningRateAnneal False"]


def test_a_job_that_this_version_cannot_read_is_drawn_and_its_rounds_count(tmp_path: Path) -> None:
    paths = [_run(tmp_path / str(rounds), stop={"rounds": rounds}, later=1) for rounds in (5, 10)]
    assert list(group([read_run(RunDir(path)) for path in paths])) == ["rounds 5", "rounds 10"]


def test_runs_of_one_seed_in_a_curve_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = {"a": 1, "b": 2, "c": 1}
    paths = [str(_run(tmp_path / name, seed=seed)) for name, seed in seeds.items()]
    other = str(_run(tmp_path / "other", seed=1, scaling=NITRO))
    out = ["--out", str(tmp_path / "compared.png")]
    assert main(["plot", *paths, other, *out]) == 0
    assert capsys.readouterr().err == (
        f"nitro: {paths[0]} and {paths[2]} are runs of one job with one seed, 1: they are not independent, "
        "but count as 2 runs of a curve\n"
    )
    assert main(["plot", paths[0], paths[1], other, *out]) == 0
    assert capsys.readouterr().err == ""


def test_groups_of_one_scaler_are_named_by_the_settings_that_differ(tmp_path: Path) -> None:
    scalings = {
        "a": FIXED,
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


def test_a_picture_without_whole_training_episodes_is_one_of_evaluations(
    tmp_path: Path, drawn: list[tuple[Any, Any]]
) -> None:
    cut = _run(tmp_path / "cut", values={"cut_share": 0.9}, scaling=NITRO)
    _, subtitle = titles(group([read_run(RunDir(cut))]))
    assert "evaluation 125.0" in subtitle
    draw([cut], tmp_path / "cut.png")
    labels = [text.get_text() for text in drawn[-1][0].legends[0].get_texts()]
    assert any("training returns are those of short episodes" in label for label in labels)
    none = _run(tmp_path / "none", values={"cut_share": 0.9, "reward_mean": None}, scaling=NITRO)
    draw([none], tmp_path / "none.png")
    texts = [text.get_text() for text in drawn[-1][1][0][0].texts]
    assert "no return yet" not in texts
    labels = [text.get_text() for text in drawn[-1][0].legends[0].get_texts()]
    assert "evaluation, mean actions" in labels


def test_curves_are_compared_where_all_have_values(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("x", [None, *X_AXES])
def test_a_picture_is_over_environment_steps_unless_another_axis_is_chosen(
    tmp_path: Path, drawn: list[tuple[Any, Any]], x: str | None
) -> None:
    draw([_run(tmp_path / "a", scaling=FIXED)], tmp_path / "a.png", *([x] if x else []))
    label, last = {
        "steps": ("Environment steps", 5 * 4096),
        "round": ("Round", 5),
        "dollars": ("Cost ($)", 5 * 0.0015),
    }[x or "steps"]
    ((_, axes),) = drawn
    assert [axis.get_xlabel() for axis in axes[-1]] == [label, "Time (seconds)"]
    for row in axes:
        assert row[0].lines[0].get_xdata()[-1] == pytest.approx(last)
        assert row[1].lines[0].get_xdata()[-1] == pytest.approx(5 * 1.0)
    below = "Environment\nsteps" if x == "dollars" else COST
    assert axes[-1][0].get_ylabel() == below, "the cost over the cost shows nothing"


def test_the_legend_names_every_group_and_lies_beside_the_panels(
    tmp_path: Path, drawn: list[tuple[Any, Any]]
) -> None:
    paths = [
        _run(tmp_path / "a", seed=1, scaling=FIXED),
        _run(tmp_path / "b", seed=2, scaling=FIXED, returns=False),
        _run(tmp_path / "c", scaling=NITRO, returns=False),
        *(
            _run(tmp_path / f"d{number}", scaling=NITRO | {"maxActors": 7 + number})
            for number in range(8)  # more than fit side by side
        ),
    ]
    draw(paths, tmp_path / "compared.png")
    ((figure, axes),) = drawn
    (legend,) = figure.legends
    entries = [text.get_text() for text in legend.get_texts()]
    assert entries[:2] == [
        "fixed (2 runs, 1 without a return yet)",
        "nitro, maxActors 6 (no return yet)",
    ]
    assert len(entries) == 2 + 8 + 1
    looks = [(line.get_color(), line.get_linestyle()) for line in legend.get_lines()[:10]]
    assert looks == [(line.get_color(), line.get_linestyle()) for line in axes[2][0].lines]
    assert len(set(looks)) == 10
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert box.y1 < min(text.get_window_extent().y0 for text in figure.texts)
    assert box.y0 > max(axis.get_tightbbox().y1 for axis in axes[0])


def test_long_schedules_do_not_push_the_legend_out_of_the_picture(
    tmp_path: Path, drawn: list[tuple[Any, Any]]
) -> None:
    """Permuted controls differ in nothing else; two of these begin alike."""
    scaling = {"scaler": "schedule", "minActors": 4, "maxActors": 32}
    schedules = [[4, 32] * 25, [4, 32] * 24 + [32, 4], [8, 16] * 25]
    paths = [
        _run(tmp_path / str(number), scaling={**scaling, "schedule": schedule})
        for number, schedule in enumerate(schedules)
    ]
    draw(paths, tmp_path / "compared.png")
    ((figure, _),) = drawn
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][:3] == [
        "schedule [4, 32, 4, 32, 4, 32, 4, 32, …",
        "schedule [4, 32, 4, 32, 4, 32, 4, 32, …'",
        "schedule [8, 16, 8, 16, 8, 16, 8, 16, …",
    ]
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_one_seed_without_a_return_does_not_hide_the_others_curve(
    tmp_path: Path, drawn: list[tuple[Any, Any]]
) -> None:
    draw(
        [_run(tmp_path / "a", seed=1), _run(tmp_path / "b", seed=2, returns=False)],
        tmp_path / "compared.png",
        "round",
    )
    ((_, axes),) = drawn
    assert axes[0][0].lines[0].get_ydata().tolist() == [20, 40, 60, 80, 100]


def test_whole_actors_have_whole_ticks_and_no_score_has_no_panel(
    tmp_path: Path, drawn: list[tuple[Any, Any]]
) -> None:
    values = {"actors": 1, "boosting_score": None}
    paths = [_run(tmp_path / str(seed), values=values, seed=seed, scaling=FIXED) for seed in (1, 2)]
    draw(paths, tmp_path / "a.png")
    ((_, axes),) = drawn
    assert [row[0].get_ylabel() for row in axes] == ["Return", "Actors", "Cost ($)"]
    assert all(tick == round(tick) for tick in axes[1][0].get_yticks())


def _ended(folder: Path, rounds: int = 5) -> Path:
    """Give a run the summary of its end."""
    summary = {
        "rounds": rounds,
        "evaluation": {"mean": 474.31, "std": 9.87, "episodes": 6},
        "cost": {"learner": 0.00312, "actors": 0.000028, "total": 0.003148, "repeated": 0.0},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.mark.parametrize(
    ("log", "day"),
    [
        ('{"time": "2026-02-03T12:00:00.000Z"}\n{"time": "2026-02-04T12:00:00.000Z"}\n', "2026-02-04"),
        ("no JSON\n", "2001-09-09"),
        ("", "2001-09-09"),
        (None, "2001-09-09"),
    ],
)
def test_a_run_has_the_day_of_its_log_and_not_that_of_a_copy(
    tmp_path: Path, log: str | None, day: str
) -> None:
    run = _run(tmp_path / "run")
    if log is not None:
        (run / "log.jsonl").write_text(log)
    os.utime(run / "metrics.csv", (1_000_000_000, 1_000_000_000))
    assert read_run(RunDir(run)).date == day


def test_a_single_runs_picture_says_what_the_summary_says(
    tmp_path: Path, drawn: list[tuple[Any, Any]]
) -> None:
    stop = {"rounds": 5, "targetReward": 475.0}
    values = {"episode_length": 200.0}
    run = _ended(_run(tmp_path / "run", seed=7, stop=stop, scaling=FIXED, values=values))
    day = datetime.fromtimestamp((run / "metrics.csv").stat().st_mtime)
    _, subtitle = titles(group([read_run(RunDir(run))]))
    assert subtitle.split("  ·  ")[2:] == [
        "fixed scaler, 8 actors",
        "seed 7",
        f"{day:%Y-%m-%d}",
        "20,480 steps",
        "final return 474.3 ± 9.9",
        "$0.00315",
    ]
    draw([run], tmp_path / "a.png")
    ((figure, axes),) = drawn
    titled = [row[0].get_ylabel() for row in axes]
    assert titled == ["Return", "Episode\nlength (steps)", "Explained\nvariance", COST]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-2:] == ["final evaluation", "target 475"]
    assert [line.get_ydata()[0] for line in axes[0][0].lines if line.get_linestyle() == "--"] == [475.0]
    assert any(474.31 in line.get_ydata() for line in axes[0][0].lines)
    assert len(figure.axes) == axes.size, "actors that are always as many have no axis"
    # A run that has gone on since then does not have that end.
    _ended(run, rounds=4)
    _, subtitle = titles(group([read_run(RunDir(run))]))
    assert subtitle.split("  ·  ")[-2:] == ["return 100.0", "$0.0075"]


def test_a_run_of_an_older_version_has_the_panels_that_it_has_numbers_for(
    tmp_path: Path, drawn: list[tuple[Any, Any]]
) -> None:
    values = {"explained_variance": None}
    run = _run(tmp_path / "run", values=values, scaling=NITRO)
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    old = [name for name in rows[0] if name not in ("episode_length", "learning_rate", "gradient_norm")]
    with (run / "metrics.csv").open("w") as file:
        writer = csv.DictWriter(file, old, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for number, row in enumerate(rows):
            writer.writerow(row | {"actors": 4 + number})
    draw([run], tmp_path / "a.png")
    ((figure, axes),) = drawn
    assert [row[0].get_ylabel() for row in axes] == ["Return", "Entropy", COST]
    beside = figure.axes[-1]
    assert beside.get_ylabel() == "Actors"
    assert beside.lines[0].get_ydata().tolist() == [4, 4, 5, 6, 7, 8]


def test_each_environment_has_its_own_panel_of_returns(tmp_path: Path, drawn: list[tuple[Any, Any]]) -> None:
    paths = [
        _run(tmp_path / "a", environment={"id": "Hopper-v5"}),
        _run(tmp_path / "b", environment={"id": "Pendulum-v1"}, returns=False),
    ]
    draw(paths, tmp_path / "compared.png")
    ((_, axes),) = drawn
    titles = [row[0].get_ylabel() for row in axes]
    assert titles == ["Return\nHopper-v5", "Return\nPendulum-v1", "Boosting score", "Actors", "Cost ($)"]
    assert axes[0][0].lines[0].get_ydata().tolist() == [20, 40, 60, 80, 100]
    assert [text.get_text() for text in axes[1][0].texts] == ["no return yet"]
    assert len(axes[3][0].lines) == 2


def test_a_rounds_actors_are_drawn_from_the_end_of_the_round_before(tmp_path: Path) -> None:
    runs = [read_run(RunDir(_run(tmp_path / name, seed=seed))) for seed, name in enumerate("ab")]
    steps, actors = align(runs, "env_steps", "actors", steps=True)
    assert (steps[0], steps[-1]) == (0, 5 * 4096)
    assert set(actors.flatten()) == {8.0}
    for run in runs:
        run.columns["boosting_score"][:2] = np.nan
    steps, _ = align(runs, "env_steps", "boosting_score", steps=True)
    assert steps[0] == 2 * 4096, "the first score is that of the third round"
