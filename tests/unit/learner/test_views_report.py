"""The report: one page that needs nothing else, of any run, however long or broken off."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from nitro_learner.cli import main
from nitro_learner.cli.common import BAD_INPUT, CommandError
from nitro_learner.cluster import jobs
from nitro_learner.rundir import RunDirError
from nitro_learner.views import charts
from nitro_learner.views.report import of_job, of_run
from report_support import JOB, run_folder


class Page(HTMLParser):
    """Collects the text, and checks that tags nest."""

    VOID = frozenset({"meta", "br", "path", "use", "circle"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.open = [], []
        self.links: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def test_the_page_needs_nothing_else_and_says_what_the_run_came_to(tmp_path: Path) -> None:
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
    assert html.count("<figure>") == 6


def test_colours_are_the_pages_so_that_dark_and_light_both_read(tmp_path: Path) -> None:
    html = of_run(run_folder(tmp_path / "run", 3)).html()
    svgs = "".join(re.findall("<svg.*?</svg>", html, re.DOTALL))
    assert "var(--ink)" in svgs
    assert not re.findall(r"(?:fill|stroke): *#[0-9a-f]{6}", svgs)
    assert "prefers-color-scheme: dark" in html


def test_what_a_job_says_is_text_and_never_markup(tmp_path: Path) -> None:
    job = JOB.replace("Hopper-v5", "'<script>alert(1)</script>'")
    html = of_run(run_folder(tmp_path / "run", 2, job)).html()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_a_run_of_ten_thousand_rounds_stays_small(tmp_path: Path) -> None:
    html = of_run(run_folder(tmp_path / "run", 10_000)).html()
    assert len(html) < 2_000_000
    assert "10,000 rounds are drawn as 500 means of 20.0 rounds each." in html


def test_a_thinned_curve_is_the_means_of_equal_parts() -> None:
    values = np.arange(5000.0)
    values[3] = np.nan
    thin = charts.thin(values)
    assert len(thin) == charts.POINTS
    assert thin[1] == np.mean(np.arange(10, 20))
    assert thin[0] == np.mean([0, 1, 2, 4, 5, 6, 7, 8, 9])


def test_a_run_that_was_cut_off_in_mid_write_is_shown_as_far_as_it_is_whole(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 5)
    text = (folder / "metrics.csv").read_text()
    (folder / "metrics.csv").write_text(text[:-20])
    report = of_run(folder)
    assert report.columns["round"].tolist() == [1, 2, 3, 4]
    assert "not ended yet" in report.html()


def test_an_earlier_sittings_end_is_not_the_end_of_a_run_that_has_gone_on(tmp_path: Path) -> None:
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


def test_a_name_that_is_neither_folder_nor_job_is_told_as_both(
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
    history = [{"round": k, "rewardMean": 10.0 * k, "actors": 8, "cost": 0.1 * k} for k in (7, 8)]
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
    text = " ".join(Page(of_job(job).html()).words)
    for expected in ("Running", "32,768", "$0.8000", "pvc/hopper-checkpoint/hopper-1", "last 60 rounds"):
        assert expected in text


def test_a_job_without_a_status_gives_a_page_too() -> None:
    job = {"metadata": {"name": "new", "namespace": "a"}, "spec": {"environment": {"id": "Hopper-v5"}}}
    assert "No round is finished yet." in of_job(job).html()
