"""The report: one page that needs nothing else, of any run, however long or broken off."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.figure import Figure

from nitro_learner.cli import main
from nitro_learner.cli.exits import BAD_INPUT, CommandError
from nitro_learner.cluster import jobs
from nitro_learner.run.rundir import RunDirError
from nitro_learner.run.views import charts
from nitro_learner.run.views.run_report import of_job, of_run
from report_support import JOB, run_folder


class Page(HTMLParser):
    """Collects the text, and checks that tags nest."""

    VOID = frozenset({"meta", "br", "path", "use", "circle", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.open = [], []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def test_the_page_is_self_contained_and_summarises_the_run(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 40)
    summary = {
        "message": "all 40 rounds are done",
        "evaluation": {"mean": 321.5, "std": 7.0, "episodes": 6},
        "cost": {"learner": 0.12, "actors": 0.06, "total": 0.18},
        "versions": {"torch": "9.8.7"},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    page = Page(html := of_run(folder).html())
    assert all(link.startswith("#") for link in page.links), "something is fetched from elsewhere"
    assert "@import" not in html
    text = " ".join(page.words)
    for expected in ("321.5 ± 7.0", "20,480", "$0.1800", "all 40 rounds are done", "torch 9.8.7"):
        assert expected in text
    # 0.16 dollars for 20,480 steps, 0.02 for the evaluation at the end; the best return is 80.
    assert "per 1,000 environment steps $0.008789" in text
    assert "per 1,000 points of the best return $2.250000" in text


def test_every_chart_is_there_over_environment_steps_rounds_and_dollars(tmp_path: Path) -> None:
    page = Page(html := of_run(run_folder(tmp_path / "run", 40)).html())
    titles = ("Return per episode", "Episode length, steps", "Policy loss", "Value loss", "Entropy")
    titles += ("KL divergence of an update", "Explained variance", "Gradient norm, before clipping")
    counts = [html.count(f"<figcaption>{title}</figcaption>") for title in titles]
    assert counts == [3, *[1] * (len(titles) - 1)]
    assert html.count("<figure>") == 3 * 6 + 9
    sets = dict(re.findall(r'<div class="charts over-(\w+)">(.*?)</div>', html, re.DOTALL))
    assert list(sets) == ["steps", "round", "dollars"]
    for name, label in (("steps", "environment steps"), ("round", "round"), ("dollars", "cost ($)")):
        assert sets[name].count(f">{label}</text>") == 6
        assert ("Cumulative cost" in sets[name]) == (name != "dollars")
    assert 'id="x-steps" checked' in html
    assert html.count(" checked") == 1
    assert "<script" not in html
    # A browser finds nothing that lies in a chart which is not shown.
    targets = [re.findall(r'(?:url\(#|href="#)(\w+)', part) for part in sets.values()]
    assert len(set().union(*targets)) == sum(len(set(each)) for each in targets)
    assert set().union(*targets) <= set(page.ids)


def short_run(path: Path, **values: str) -> Path:
    """A run whose rollouts cut most episodes off."""
    folder = run_folder(path, 40)
    with (folder / "metrics.csv").open() as file:
        rows = [row | {"cut_share": "0.9"} | values for row in csv.DictReader(file)]
    with (folder / "metrics.csv").open("w") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return folder


def test_the_page_shows_evaluations_first_and_says_why_when_rollouts_cut_episodes(tmp_path: Path) -> None:
    page = Page(of_run(short_run(tmp_path / "run")).html())
    text = " ".join(page.words)
    assert text.index("Last evaluation, mean actions 0.5") < text.index(
        "Training return, short episodes only 80.0"
    )
    assert "Training returns are those of short episodes only" in text
    assert "because this environment's state cannot be saved" in text
    assert "training, short episodes only" in text
    # By the best evaluation, which is 0.5: the best training return would be 80.
    assert "per 1,000 points of the best return $320.000000" in text
    job = JOB.replace("{id: Hopper-v5}", "{id: Hopper-v5, resumeEpisodes: false}")
    (tmp_path / "run" / "job.yaml").write_text(job)
    html = of_run(tmp_path / "run").html()
    assert "because spec.environment.resumeEpisodes is false" in html
    assert "set spec.environment.envsPerActor: 1" in html
    one = job.replace("resumeEpisodes: false", "resumeEpisodes: false, envsPerActor: 1")
    (tmp_path / "run" / "job.yaml").write_text(one)
    assert "To change it, raise rolloutLength" in of_run(tmp_path / "run").html()


def test_a_run_without_training_returns_shows_its_evaluations(tmp_path: Path) -> None:
    html = of_run(short_run(tmp_path / "run", reward_mean="", cut_share="0.0")).html()
    assert "<figcaption>Return per episode</figcaption>" in html
    assert "No training episode has ended, so there is no training return." in html


def test_charts_take_their_colours_from_the_page(tmp_path: Path) -> None:
    html = of_run(run_folder(tmp_path / "run", 3)).html()
    svgs = "".join(re.findall("<svg.*?</svg>", html, re.DOTALL))
    assert "var(--ink)" in svgs
    assert not re.findall(r"(?:fill|stroke): *#[0-9a-f]{6}", svgs)
    assert "prefers-color-scheme: dark" in html


def test_text_of_a_job_is_escaped(tmp_path: Path) -> None:
    job = JOB.replace("Hopper-v5", "'<script>alert(1)</script>'")
    html = of_run(run_folder(tmp_path / "run", 2, job)).html()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_a_run_of_ten_thousand_rounds_stays_small(tmp_path: Path) -> None:
    html = of_run(run_folder(tmp_path / "run", 10_000)).html()
    assert len(html) < 2_000_000
    assert "10,000 rounds are drawn as 500 means of 20.0 rounds each." in html


@pytest.mark.parametrize("ratios", [(0.67, 1.12), (2.0, 9.0), (0.01, 100.0)])
def test_the_axis_of_ratios_has_numbers_in_every_range(ratios: tuple[float, float]) -> None:
    axes = Figure().add_subplot()
    charts.draw_ratio(axes, {"convexity_ratio": np.array(ratios)}, np.array([1.0, 2.0]))
    low, high = axes.get_ylim()
    assert sum(low <= tick <= high for tick in axes.get_yticks()) > 1


def test_a_thinned_curve_is_the_means_of_equal_parts() -> None:
    values = np.arange(5000.0)
    values[3] = np.nan
    thin = charts.thin(values)
    assert len(thin) == charts.POINTS
    assert thin[1] == np.mean(np.arange(10, 20))
    assert thin[0] == np.mean([0, 1, 2, 4, 5, 6, 7, 8, 9])


def test_a_run_with_a_truncated_last_line_is_shown_up_to_it(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 5)
    text = (folder / "metrics.csv").read_text()
    (folder / "metrics.csv").write_text(text[:-20])
    report = of_run(folder)
    assert report.columns["round"].tolist() == [1, 2, 3, 4]
    assert "not ended yet" in report.html()


def test_the_end_of_an_earlier_session_is_not_the_end_of_a_resumed_run(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 40)
    summary = {
        "message": "all 30 rounds are done",
        "rounds": 30,
        "evaluation": {"mean": 321.5, "std": 7.0, "episodes": 6},
        "cost": {"learner": 0.03, "actors": 0.09, "total": 0.12},
        "versions": {"torch": "9.8.7"},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    text = " ".join(Page(of_run(folder).html()).words)
    assert "not ended yet" in text
    assert "torch 9.8.7" in text
    assert "321.5" not in text


def test_an_unknown_name_is_reported_as_missing_folder_and_missing_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str, _: str | None) -> None:
        raise CommandError(f"there is no job {name}")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "get_job", absent)
    assert main(["report", "hoper-1"]) == BAD_INPUT
    assert (
        "there is no folder hoper-1, and on the cluster: there is no job hoper-1" in capsys.readouterr().err
    )


def test_a_run_without_a_round_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="finished at least one round"):
        of_run(run_folder(tmp_path / "run", 0))


def test_a_job_of_a_cluster_is_shown_from_its_status() -> None:
    history = [
        {"round": k, "envSteps": 4096 * k, "rewardMean": 10.0 * k, "actors": 8, "cost": 0.1 * k}
        for k in (7, 8)
    ]
    job = {
        "metadata": {"name": "hopper", "namespace": "team-a"},
        "spec": {"environment": {"id": "Hopper-v5"}},
        "status": {
            "phase": "Running",
            "training": {"round": 8, "envSteps": 32_768, "history": history},
            "cost": {"total": 0.8, "learner": 0.6, "actors": 0.2},
            "checkpoint": {"location": "pvc/hopper-checkpoint/hopper-1"},
        },
    }
    html = of_job(job).html()
    text = " ".join(Page(html).words)
    for expected in ("Running", "32,768", "$0.8000", "pvc/hopper-checkpoint/hopper-1", "last 60 rounds"):
        assert expected in text
    assert 'id="x-steps" checked' in html
    for entry in history:  # of a learner of an older version
        del entry["envSteps"]
    html = of_job(job).html()
    assert 'id="x-round" checked' in html
    assert '<div class="charts over-steps">' not in html
    assert "32,768" in " ".join(Page(html).words)


def test_a_job_of_which_the_first_rounds_are_not_known_has_the_best_return_of_all() -> None:
    history = [
        {"round": k, "envSteps": 4096 * k, "rewardMean": 100.0, "actors": 8, "cost": 0.1 * k}
        for k in range(41, 101)
    ]
    job = {
        "metadata": {"name": "hopper", "namespace": "team-a"},
        "spec": {"environment": {"id": "Hopper-v5"}},
        "status": {
            "training": {"round": 100, "envSteps": 409_600, "rewardBest": 400.0, "history": history},
            "cost": {"total": 10.0, "learner": 6.0, "actors": 4.0},
        },
    }
    text = " ".join(Page(of_job(job).html()).words)
    assert "per 1,000 points of the best return $25.000000" in text


@pytest.mark.parametrize(("first", "beginning"), [(1, 0.0), (41, 41 * 4096.0)])
def test_actors_are_drawn_from_the_first_known_beginning_of_a_round(first: int, beginning: float) -> None:
    rounds = np.arange(first, first + 60, dtype=float)
    columns = {"round": rounds, "env_steps": 4096 * rounds, "actors": np.full(60, 8.0)}
    axes = Figure().add_subplot()
    charts.draw_actors(axes, columns, columns["env_steps"])
    (line,) = axes.lines
    assert line.get_xdata()[0] == beginning


def test_a_job_whose_rollouts_cut_episodes_shows_its_evaluations() -> None:
    history = [{"round": k, "actors": 8, "cost": 0.1 * k, "evaluationMean": 90.0 + k} for k in (7, 8)]
    job = {
        "metadata": {"name": "own", "namespace": "team-a"},
        "spec": {"environment": {"id": "own", "entryPoint": "a:B"}},
        "status": {"training": {"round": 8, "envSteps": 32_768, "cutShare": 0.9, "history": history}},
    }
    html = of_job(job).html()
    text = " ".join(Page(html).words)
    assert "Last evaluation, mean actions 98.0" in text
    assert "Training returns are those of short episodes only" in text
    assert "<figcaption>Return per episode</figcaption>" in html


@pytest.mark.parametrize("part", ["actor", "learner"])
def test_the_page_has_names_of_variables_without_their_values(tmp_path: Path, part: str) -> None:
    env = "{env: [{name: PASSWORD, value: hunter2}]}"
    folder = run_folder(tmp_path / "run", 2, f"{JOB}  {part}: {env}\n")
    written = yaml.safe_load((folder / "job.yaml").read_text())
    job = {"metadata": {"name": "hopper", "namespace": "team-a"}, "spec": written["spec"]}
    for found in (of_run(folder), of_job(job)):
        assert found.job["spec"][part]["env"] == [{"name": "PASSWORD"}]
        assert "hunter2" not in found.html()


def test_a_job_without_a_status_gives_a_page_too() -> None:
    job = {"metadata": {"name": "new", "namespace": "a"}, "spec": {"environment": {"id": "Hopper-v5"}}}
    assert "No round is finished yet." in of_job(job).html()


def test_a_report_says_what_was_paid_for_pods_and_what_was_used() -> None:
    job = {
        "metadata": {"name": "hopper", "namespace": "team-a"},
        "spec": {"environment": {"id": "Hopper-v5"}},
        "status": {
            "training": {"round": 1, "busySeconds": 1345.2, "history": []},
            "actors": {"podSeconds": 72127.4},
        },
    }
    text = " ".join(Page(of_job(job).html()).words)
    assert "paid 72,127 pod-seconds, used 1,345" in text
    del job["status"]["training"]["busySeconds"]  # of a learner of an older version
    assert "pod-seconds" not in " ".join(Page(of_job(job).html()).words)
