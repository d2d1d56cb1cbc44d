"""The users' documentation, parsed: its headings, links, and the commands in it."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "charts/nitro/README.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "experiments" / "results").glob("*.md"),
    ]
)


@dataclass
class Page:
    """What a Markdown page holds."""

    links: list[str] = field(default_factory=list)
    """Targets of links and pictures."""

    anchors: set[str] = field(default_factory=set)
    """Anchors of its headings, as GitHub makes them."""

    blocks: list[str] = field(default_factory=list)
    """Code blocks."""

    spans: list[str] = field(default_factory=list)
    """Code inside sentences."""


def parse(text: str) -> Page:
    page = Page()
    seen: Counter[str] = Counter()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type in ("code_block", "fence"):
            page.blocks.append(token.content)
        if token.type != "inline":
            continue
        for child in _leaves(token):
            target = child.attrGet("href") or child.attrGet("src")
            if target:
                page.links.append(str(target))
            if child.type == "code_inline":
                page.spans.append(child.content)
        if before is not None and before.type == "heading_open":
            slug = _slug("".join(child.content for child in _leaves(token)))
            page.anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return page


def commands(block: str) -> Iterator[list[str]]:
    """The command lines of a code block as words. Pipes and lists of commands are split."""
    for line in re.sub(r"\\\n\s*", " ", block).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # not a command line, such as a sentence with an apostrophe
            continue
        command: list[str] = []
        for word in words:
            if set(word) <= set("|;&"):
                yield command
                command = []
            else:
                command.append(word)
        yield command


def _leaves(token: Token) -> list[Token]:
    return token.children or []


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
