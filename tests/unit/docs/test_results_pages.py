"""The generated pages of docs/results are as `nitro experiment report --into` leaves them."""

import re
from pathlib import Path

import pytest

from docs_support import ROOT, parse

RESULTS = ROOT / "docs" / "results"
GENERATED = sorted(
    path for path in RESULTS.glob("*.md") if path.read_text(encoding="utf-8").startswith("<!-- experiment")
)


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_a_page_holds_the_report_of_the_experiment_of_its_name(path: Path) -> None:
    name = path.stem
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"<!-- experiment {name}: begin -->\n# {name}\n")
    assert re.findall(r"<!-- .* -->", text) == [
        f"<!-- experiment {name}: begin -->",
        f"<!-- experiment {name}: end -->",
    ]
    assert (ROOT / "experiments" / f"{name}.yaml").exists()
    pictures = [link for link in parse(text).links if link.endswith(".png")]
    assert pictures
    assert all(picture.startswith(f"{name}-") for picture in pictures)


def test_the_findings_link_every_page_of_results() -> None:
    links = parse((ROOT / "docs" / "results.md").read_text(encoding="utf-8")).links
    assert {f"results/{path.name}" for path in RESULTS.glob("*.md")} <= set(links)
    assert len(GENERATED) >= 7


def test_commands_of_the_project_write_into_pages_that_exist() -> None:
    """A page that does not exist would be created, and nobody would see it."""
    sources = [ROOT / "Makefile", *(ROOT / "experiments").glob("*.yaml")]
    pages = [page for path in sources for page in re.findall(r"--into (\S+)", path.read_text())]
    assert pages
    assert [page for page in pages if not (ROOT / page).exists()] == []
