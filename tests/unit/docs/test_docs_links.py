"""Links and pictures of the documentation lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs_support import PAGES, ROOT, parse


def broken(path: Path, text: str) -> list[str]:
    """The relative links of a page whose file or anchor does not exist."""
    found = []
    for link in parse(text).links:
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_relative_to(ROOT) or not target.exists():
            found.append(link)
        elif parts.fragment:
            page = parse(text if target == path else target.read_text(encoding="utf-8"))
            if parts.fragment not in page.anchors:
                found.append(link)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_of_a_page_has_a_target(path: Path) -> None:
    assert broken(path, path.read_text(encoding="utf-8")) == []


def test_a_link_to_a_missing_file_picture_or_heading_is_found() -> None:
    wrong = ["missing.md", "#nowhere", "docs/missing.png", "docs/concepts.md#nowhere", "../outside.md"]
    text = "# Two `words`, once\n\n# Two words once\n\n[a](#two-words-once-1) [b](docs/concepts.md#a-round)\n"
    assert broken(ROOT / "README.md", text) == []
    assert broken(ROOT / "README.md", text + "".join(f"![x]({link})\n" for link in wrong)) == wrong


FILE = re.compile(r"\[[\w/.-]*\.md\]\(")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_to_a_page_has_words_and_not_the_name_of_its_file(path: Path) -> None:
    assert FILE.findall(path.read_text(encoding="utf-8")) == []


def test_a_link_that_shows_the_name_of_its_file_is_found() -> None:
    assert FILE.findall("[docs/a-b.md](docs/a-b.md#c) [A](a.md)") == ["[docs/a-b.md]("]


def test_every_picture_of_the_documentation_is_shown_on_a_page() -> None:
    shown = {
        (path.parent / link).resolve()
        for path in PAGES
        for link in parse(path.read_text(encoding="utf-8")).links
        if link.endswith((".png", ".svg"))
    }
    drawn = {path for kind in ("png", "svg") for path in (ROOT / "docs").rglob(f"*.{kind}")}
    assert sorted(drawn - shown) == []
