"""The generated pages of experiments/results are as `nitro experiment report --into` leaves them."""

import re
from pathlib import Path

import pytest

from docs_support import ROOT, parse
from nitro_experiments.planning.spec import load

RESULTS = ROOT / "experiments" / "results"
PAGES = sorted(RESULTS.glob("*.md"))
GENERATED = [path for path in PAGES if path.read_text(encoding="utf-8").startswith("<!-- experiment")]
EXPERIMENTS = sorted(
    [*(ROOT / "experiments").glob("*.yaml"), *(ROOT / "experiments" / "paper").glob("*.yaml")]
)


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_a_page_holds_the_report_of_the_experiment_of_its_name(path: Path) -> None:
    """It begins with the question that the experiment answers, and then with the answer."""
    name = path.stem
    text = path.read_text(encoding="utf-8")
    (spec,) = (one for one in EXPERIMENTS if one.stem == name)
    title = load(spec).title
    assert title is not None
    assert text.startswith(f"<!-- experiment {name}: begin -->\n# {title}\n\n- **")
    assert text.index("\n- **") < text.index("\n| ")
    assert re.findall(r"<!-- .* -->", text) == [
        f"<!-- experiment {name}: begin -->",
        f"<!-- experiment {name}: end -->",
    ]
    pictures = [link for link in parse(text).links if link.endswith(".png")]
    assert pictures
    assert all(picture.startswith(f"{name}-") for picture in pictures)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_title_of_a_page_is_a_question(path: Path) -> None:
    titles = re.findall(r"^# (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(titles) == 1
    assert titles[0].endswith("?")


def test_every_picture_is_on_a_page() -> None:
    shown = {link for path in PAGES for link in parse(path.read_text(encoding="utf-8")).links}
    assert {path.name for path in RESULTS.glob("*.png")} <= shown


def test_every_experiment_that_repeats_a_figure_of_the_paper_lies_in_its_folder() -> None:
    assert list((ROOT / "experiments").glob("fig*.yaml")) == []
    assert all(path.stem.startswith("fig") for path in (ROOT / "experiments" / "paper").iterdir())


def test_the_findings_link_every_page_of_results() -> None:
    links = parse((ROOT / "docs" / "results.md").read_text(encoding="utf-8")).links
    assert {f"../experiments/results/{path.name}" for path in RESULTS.glob("*.md")} <= set(links)
    assert len(GENERATED) >= 7


def test_commands_of_the_project_write_into_pages_that_exist() -> None:
    """A page that does not exist would be created, and nobody would see it."""
    sources = [ROOT / "Makefile", *EXPERIMENTS]
    pages = [page for path in sources for page in re.findall(r"--into (\S+)", path.read_text())]
    assert pages
    assert [page for page in pages if not (ROOT / page).exists()] == []
