"""Pictures of pods: what they hold; how they look is for people to see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_learner.cli import main
from nitro_learner.run.recorders import CsvMetrics
from nitro_learner.run.views import pod_bars
from nitro_learner.run.views.pod_bars import COLOUR, draw_lives
from nitro_learner.run.views.pod_lives import JobPods, PastNeed, Span
from report_support import report
from train_support import job

VCPU = {"awake": 2.0, "asleep": 0.5, "starting": 0.25, "draining": 0.0}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of every picture that is drawn in the test."""
    kept: list[Any] = []
    picture = pod_bars.picture

    @contextmanager
    def keeping(path: Path, **layout: Any) -> Iterator[tuple[Any, Any]]:
        with picture(path, **layout) as found:
            kept.append(found[1])
            yield found

    monkeypatch.setattr(pod_bars, "picture", keeping)
    return kept


def _folder(path: Path, *details: dict[str, Any], rounds: int = 2) -> Path:
    """A run of rounds of ten seconds, with these details in the entries of its ledger."""
    path.mkdir()
    (path / "job.yaml").write_text(yaml.safe_dump(job()))
    csv = CsvMetrics(path / "metrics.csv")
    csv.on_run_started(round=0, rounds=rounds, history=[])
    times = {"seconds_total": 10.0, "seconds_dispatch": 0.0, "seconds_sample": 6.0}
    for number in range(1, rounds + 1):
        csv.on_round_done(report(number, wall_seconds=10.0 * number, **times))
    lines = [
        json.dumps({"round": n, "learner": 0, "actors": 0, "details": one})
        for n, one in enumerate(details, 1)
    ]
    (path / "ledger.jsonl").write_text("\n".join(lines) + '\n{"round": 3, "lear')  # one is being written
    return path


def _bars(axis: Any, state: str) -> list[tuple[float, float, float]]:
    """Left edge, width and height of the bars in the colour of a state."""
    from matplotlib.colors import same_color

    return [
        (round(one.get_x(), 3), round(one.get_width(), 3), round(one.get_height(), 3))
        for one in axis.patches
        if same_color(one.get_facecolor(), COLOUR[state])
    ]


def test_a_run_folder_gives_the_cpu_of_its_rounds(tmp_path: Path, drawn: list[Any]) -> None:
    seconds = {state: 10 * vcpu for state, vcpu in VCPU.items()}
    folder = _folder(tmp_path / "run", {"roundVCPUSeconds": seconds}, {"roundVCPUSeconds": {"awake": 10.0}})
    assert main(["plot", "--pods", str(folder)]) == 0
    assert (folder / "pods.png").read_bytes()[:4] == b"\x89PNG"
    (axis,) = drawn
    assert _bars(axis, "awake") == [(0, 10, 2), (10, 10, 1)]
    assert [high for _, _, high in _bars(axis, "asleep")] == [0.5, 0]


def test_a_round_that_was_done_again_has_the_cpu_of_both_times(tmp_path: Path, drawn: list[Any]) -> None:
    folder = _folder(tmp_path / "run", {"roundVCPUSeconds": {"awake": 10.0}}, rounds=1)
    twice = (folder / "ledger.jsonl").read_text().splitlines()[0]
    (folder / "ledger.jsonl").write_text(f"{twice}\n{twice}\n")
    assert main(["plot", "--pods", str(folder), "--out", str(tmp_path / "two.svg")]) == 0
    assert _bars(drawn[0], "awake") == [(0, 10, 2)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pods", "run"), "the ledger has no CPU of pods"),
        (("--pods", "run", "run"), "one run or job at a time"),
        (("--pods", "run", "--x", "round"), "the axis of pods is time"),
        (("--pods", "./none"), "no such run folder"),
        (("run", "--namespace", "team"), "add --pods"),
        (("--pods", "./run", "--namespace", "team"), "leave one of them out"),
    ],
)
def test_mistakes_are_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    _folder(tmp_path / "run", {"podSeconds": 10.0}, {})
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *arguments]) != 0
    assert words in capsys.readouterr().err


def test_each_pod_is_a_row_of_bars_and_phases_lie_behind(tmp_path: Path, drawn: list[Any]) -> None:
    lives = [
        [Span("starting", 100, 102, 1.0), Span("awake", 102, 110, 1.0), Span("asleep", 110, 120, 0.1)],
        [Span("starting", 101, 104, 1.0), Span("awake", 104, 120, 1.0)],
    ]
    needs = [PastNeed(102, 2, 2), PastNeed(110, 0, 2), PastNeed(118, 1, 2), PastNeed(120, 0, 0)]
    out = draw_lives(lives, needs, "hopper", tmp_path / "pods.png", end=121)
    assert out.read_bytes()[:4] == b"\x89PNG"
    above, bars = drawn[0]
    assert [(left, wide) for left, wide, _ in _bars(bars, "awake")] == [(2, 8), (4, 16)]
    (asleep,) = _bars(bars, "asleep")
    assert asleep[:2] == (10, 10)
    assert asleep[2] < _bars(bars, "awake")[0][2], "what requests little is thin"
    assert above.lines[0].get_ydata().tolist() == [2, 0, 1, 0, 0]
    with pytest.raises(ValueError, match="no actor's pod"):
        draw_lives([], needs, "hopper", out, end=121)


def test_a_job_is_over_when_it_has_ended_and_its_pods_are_gone() -> None:
    def said(phase: str, **training: Any) -> dict[str, Any]:
        return {"status": {"phase": phase, "training": training}}

    watched = JobPods()
    stated = {"requests": {"actors": 8}, "neededAt": "2026-01-01T00:00:01.5Z"}
    watched.see(said("Running", needsNow=8, **stated), [], 5.0)
    watched.see(said("Running", needsNow=8, **stated), [], 6.0)
    assert not watched.over
    later = {**stated, "neededAt": "2026-01-01T00:00:09Z"}
    watched.see(said("Running", needsNow=0, **later), [], 7.0)
    for now in (8.0, 9.0):
        watched.see(said("Succeeded", needsNow=0, **later), [], now)
    assert watched.over
    assert [(one.now, one.asked) for one in watched.needs] == [(8, 8), (0, 8), (0, 0)]
    assert watched.needs[-1].at == 8.0


def test_a_learner_of_an_older_release_states_no_need() -> None:
    watched = JobPods()
    watched.see({"status": {"phase": "Running", "training": {"requestedActors": 4}}}, [], 5.0)
    assert watched.needs == []
    assert not watched.over
