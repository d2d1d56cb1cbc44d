"""The site: it builds without a warning, asks no other host for anything, is searched well, and fits a desk
and a phone.
"""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from browser_support import Browser, browser
from docs_support import ROOT

CONFIG = ROOT / "website" / "mkdocs.yml"
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?//[^>]*>")

REPOSITORY = "https://example.com/team/nitro"
DESK, PHONE = 1440, 390
"""Widths of a window in CSS pixels."""
FIRST = "const link = document.querySelector('.md-search-result__link'); return link && link.href;"
"""The address of the first page that the search found."""
WIDE = """
    const scrolls = element => element.scrollWidth > element.clientWidth + 1;
    const blocks = [...document.querySelectorAll("pre, pre > code")].filter(scrolls);
    const inside = block => ["auto", "scroll"].includes(getComputedStyle(block).overflowX);
    return {
      page: document.scrollingElement.scrollWidth,
      blocks: blocks.map(block => block.textContent.slice(0, 60)),
      spilt: blocks.filter(block => !inside(block)).length,
    };
"""


def build(config: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        config,
        "--site-dir",
        into,
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "NITRO_REPOSITORY": REPOSITORY}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(CONFIG, folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where a server of this machine shows the site: the search does not work from files."""
    handler = functools.partial(Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for path in site.rglob("*.html"):
        yield path.relative_to(site).as_posix(), path.read_text(encoding="utf-8")


def test_every_page_of_the_repository_is_there(site: Path) -> None:
    found = {name for name, _ in pages(site)}
    docs = ROOT / "docs"
    for path in docs.rglob("*.md"):
        assert f"{path.relative_to(docs).with_suffix('').as_posix()}/index.html" in found
    for name in ("index", "changelog/index", "contributing/index", "chart/index", "reference/job/index"):
        assert f"{name}.html" in found


def test_the_menu_names_each_page_of_results_by_its_title(site: Path) -> None:
    menu = (site / "results" / "index.html").read_text(encoding="utf-8")
    for path in (ROOT / "experiments" / "results").glob("*.md"):
        (title, *_) = re.findall("^# (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        shown = re.escape(html.escape(title, quote=False))
        entry = rf'href="{path.stem}/"[^>]*>\s*<span class="md-ellipsis">\s*{shown}\s*<'
        assert re.search(entry, menu, re.DOTALL), path


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for name, text in pages(site):
        assert [tag.group() for tag in LOADED.finditer(text)] == [], name
        assert 'class="mermaid"' not in text, "the theme would load a program to draw it"
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"@import[^;]*|url\((?:https?:)?//[^)]*\)", styles) == []


def test_the_search_finds_a_field_a_command_and_a_function(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"]}
    assert {
        "reference/job/scaling/#spec.scaling.decay",
        "reference/commands/#nitro-train",
        "reference/python/#nitro_learner.api.loading.load",
    } <= places


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("custom environment", "environments/"),
        ("fine-tune", "fine-tuning/"),
        ("DQN", "concepts/"),
        ("GPU", "faq/"),
        ("cost", "faq/"),
    ],
)
def test_the_search_shows_the_page_that_answers_first(
    address: str, chromium: Browser, words: str, page: str
) -> None:
    chromium.open(f"{address}?q={quote(words)}", DESK)
    assert chromium.wait_for(FIRST).split("?")[0] == address + page


def test_the_words_that_are_searched_for_are_answered_on_the_page_that_comes_first() -> None:
    said = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("faq", "concepts")}
    assert "## Can I use my GPU?" in said["faq"]
    assert "## What does it cost?" in said["faq"]
    assert "### DQN" in said["concepts"]


def test_code_fits_a_desk_and_scrolls_inside_its_frame_on_a_phone(
    site: Path, address: str, chromium: Browser
) -> None:
    names = [path.parent.relative_to(site).as_posix() for path in site.rglob("index.html")]
    shown = [name for name in names if not name.startswith(("files/", "results/"))]
    wrong = []
    with chromium.without("*/search_index.json"):  # a second of work on each page, and nothing to be seen
        for name in shown:
            chromium.open(f"{address}{name}/", DESK)
            for width in (DESK, PHONE):  # the other way round a page stays wider than a desk
                chromium.resize(width)
                found = chromium.ask(WIDE)
                if found["page"] > width or found["spilt"] or (width == DESK and found["blocks"]):
                    wrong.append((name, width, found))
    assert wrong == []


def test_a_build_that_is_given_the_repository_links_it_on_every_page(site: Path) -> None:
    assert [name for name, text in pages(site) if f'href="{REPOSITORY}"' not in text] == []


def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    """With the checks of our file, but without its pages, which take longer."""
    docs = tmp_path / "docs"
    docs.mkdir()
    dead = ["missing.md", "other.md#nowhere", "#nothing", "../outside.txt", "missing.png"]
    links = "\n".join(f"[a]({link})" for link in dead)
    (docs / "index.md").write_text(f"# Page\n\n{links}\n[b](other.md#there)\n")
    (docs / "other.md").write_text("# Other\n\n## There\n")
    ours = yaml.unsafe_load(CONFIG.read_text(encoding="utf-8"))
    config = {"site_name": "test", "validation": ours["validation"], "theme": {"name": "mkdocs"}}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config))
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 1
    warnings = [line for line in built.stderr.splitlines() if line.startswith("WARNING")]
    assert [link for link in dead if not any(f"'{link}'" in line for line in warnings)] == []
    assert "there" not in "".join(warnings).replace("there is no", "")
