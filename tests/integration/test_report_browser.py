"""The report in a real browser: on a phone and on a desk, in light and in dark, however long the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from browser_support import Browser, Look, browser
from nitro_learner.run.views.run_report import of_run
from report_support import JOB, run_folder

PHONE, DESK = 390, 1280
"""Widths of a window in CSS pixels."""
LONG = 10_000
LONG_NAME = JOB.replace("hopper", 63 * "n")
BY_ANY, BY_STEPS = 6, 9
"""Plots over the axis that is chosen, and over steps only."""
LEGIBLE = 9
"""Height of the smallest letters, in CSS pixels."""
PLOTS = """
    const shown = element => {
      const box = element.getBoundingClientRect();
      return [box.width, box.height, box.left, box.right];
    };
    const drawn = [...document.querySelectorAll("figure svg")].filter(svg => svg.checkVisibility());
    return drawn.map(svg => ({
      axis: [...svg.querySelectorAll("text")].map(text => text.textContent),
      box: shown(svg),
      curves: [...svg.querySelectorAll("[style*='--series-']")].map(shown),
      letters: Math.min(...[...svg.querySelectorAll("text")].map(
        text => parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a)),
    }));
"""
CHOOSE = """
    const choice = document.getElementById("x-%s");
    choice.click();
    const box = choice.closest("label").getBoundingClientRect();
    return [box.left, box.right];
"""
WRAPPED = """
    const lines = element => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return new Set([...range.getClientRects()].map(box => Math.round(box.bottom))).size;
    };
    return [...document.querySelectorAll(".facts dt, .facts dd")]
      .filter(element => lines(element) > 1).map(element => element.textContent);
"""
UNFOLDED = """
    document.querySelector("details").open = true;
    return document.scrollingElement.scrollWidth;
"""
CONTRAST = """
    const style = getComputedStyle(document.documentElement);
    return ["--paper", "--ink", "--series-0"].map(name => style.getPropertyValue(name).trim());
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module", params=[20, LONG], ids=["short", "long"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = run_folder(tmp_path_factory.mktemp("run") / "run", request.param, LONG_NAME)
    summary = {
        "evaluation": {"mean": -13_337.2, "std": 1_006.8, "episodes": 6},
        "versions": {"machine": "Linux-6.18-" + 60 * "x"},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    file = folder / "report.html"
    file.write_text(of_run(folder).html(), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_reads_on_a_phone_and_on_a_desk_in_light_and_in_dark(
    chromium: Browser, page: Path, width: int
) -> None:
    looks: dict[str, Look] = {}
    for scheme in ("light", "dark"):
        looks[scheme] = look = chromium.look(page, width, scheme)
        assert look.width <= width, "it has to be scrolled sideways"
        assert chromium.ask(WRAPPED) == [], "a tile needs more than one line for its name or its number"
        assert chromium.ask(UNFOLDED) <= width
        assert not look.errors
        assert not look.requests
        _assert_plots_are_drawn(chromium, look, width)
        for name, label in (("round", "round"), ("dollars", "cost ($)"), ("steps", "environment steps")):
            left, right = chromium.ask(CHOOSE % name)
            assert 0 <= left < right <= width
            plots = [plot for plot in chromium.ask(PLOTS) if label in plot["axis"]]
            assert len(plots) == (BY_ANY + BY_STEPS if name == "steps" else BY_ANY)
            for plot in plots:
                assert max(curve[0] for curve in plot["curves"]) > 0.6 * plot["box"][0]
    assert np.median(looks["light"].pixels) > 0.9
    assert np.median(looks["dark"].pixels) < 0.2


def _assert_plots_are_drawn(chromium: Browser, look: Look, width: int) -> None:
    plots = chromium.ask(PLOTS)
    assert len(plots) == BY_ANY + BY_STEPS
    for plot in plots:
        wide, tall, left, right = plot["box"]
        assert wide > 0.8 * min(width, 420)
        assert tall > 0.4 * wide
        assert left >= 0
        assert right <= width
        assert max(curve[0] for curve in plot["curves"]) > 0.6 * wide
        assert plot["letters"] >= LEGIBLE
    # What the style says of the first curve's colour is on the paper, and can be told from it.
    paper, ink, curve = (_colour(text) for text in chromium.ask(CONTRAST))
    for colour in (ink, curve):
        assert _contrast(paper, colour) > 3
        assert (np.abs(look.pixels - colour).max(axis=2) < 0.02).sum() > 100


def test_a_report_stays_below_five_megabytes(chromium: Browser, page: Path) -> None:
    size = page.stat().st_size
    assert size < 5_000_000
    # How fast it opens is the machine's affair: told, not asserted.
    print(f"{size:,} bytes, shown after {chromium.look(page, PHONE, 'light').milliseconds:.0f} ms")


def test_the_browser_notices_wide_pages_errors_and_requests(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    picture = "http://127.0.0.1:9/picture.png"
    page.write_text(f"<body style='width: 900px'><img src='{picture}'><script>throw Error('x')</script>")
    look = chromium.look(page, PHONE, "light")
    assert look.width >= 900
    assert any("Error: x" in error for error in look.errors)
    assert look.requests == [picture]


def _colour(text: str) -> np.ndarray:
    return np.array([int(text[at : at + 2], 16) for at in (1, 3, 5)]) / 255


def _contrast(one: np.ndarray, other: np.ndarray) -> float:
    """The ratio of WCAG 2.2, section 1.4.3; 3 is wanted of graphics."""
    light = [
        float(
            np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
            @ (0.2126, 0.7152, 0.0722)
        )
        for colour in (one, other)
    ]
    return (max(light) + 0.05) / (min(light) + 0.05)
