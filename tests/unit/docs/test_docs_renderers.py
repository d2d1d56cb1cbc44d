"""GitHub and the site render the Markdown of a page alike: its lists, tables, code blocks and links."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from markdown import markdown
from markdown_it import MarkdownIt

from docs_support import PAGES, ROOT

COUNTED = frozenset(
    {"a", "blockquote", "em", "h1", "h2", "h3", "h4", "img", "li", "ol", "pre", "td", "tr", "ul"}
)


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.counts[tag] += tag in COUNTED


def on_github(text: str) -> Counter[str]:
    """CommonMark with tables, as GitHub has it."""
    return Tags(MarkdownIt("commonmark").enable("table").render(text)).counts


def on_the_site(text: str) -> Counter[str]:
    """Python-Markdown with the site's extensions, but no links beside headings and no colours in code."""
    config = yaml.unsafe_load((ROOT / "website" / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = config["markdown_extensions"]
    names = [one if isinstance(one, str) else next(iter(one)) for one in listed]
    plain = {"toc": {"permalink": False}, "pymdownx.highlight": {"use_pygments": False}}
    return Tags(markdown(text, extensions=names, extension_configs=plain)).counts


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_the_same_parts_on_github_and_on_the_site(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert on_the_site(text) == on_github(text)


@pytest.mark.parametrize(
    "text",
    [
        "A sentence:\n- one\n- two\n",
        "- one\n  - below one\n",
        "- one\n\n      code below one\n",
        "1. one\n\n   still one\n\n2. two\n",
    ],
)
def test_a_page_that_differs_is_found(text: str) -> None:
    assert on_the_site(text) != on_github(text)
