"""A report's Markdown as one HTML file that needs nothing else: its pictures are in it.

It knows what reports are made of: headings, paragraphs, lists, tables, pictures and code.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template

from nitro_learner.run import views

_PICTURE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)")
_TEMPLATE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
$style
.wide { overflow-x: auto; }
img { width: 100%; height: auto; background: #ffffff; border-radius: 8px; }
td.number { white-space: nowrap; padding-right: 1rem; }
</style>
</head>
<body>
$body
</body>
</html>
""")


def page(text: str, folder: Path) -> str:
    """The HTML of a report, in the style of a run's. Its pictures are read from `folder`."""
    title = re.search(r"^# (.*)$", text, flags=re.MULTILINE)
    return _TEMPLATE.substitute(
        title=escape(title[1] if title else folder.name),
        style=(files(views) / "report.css").read_text(encoding="utf-8").rstrip(),
        body="\n".join(_blocks(text, folder)),
    )


def _blocks(text: str, folder: Path) -> Iterator[str]:
    """The HTML of each block: code stands between its fences, all others between empty lines."""
    for index, part in enumerate(re.split(r"^```.*\n", text, flags=re.MULTILINE)):
        if index % 2:
            yield f"<pre>{escape(part.rstrip())}</pre>"
            continue
        for kind, lines in groupby(part.splitlines(), _kind):
            yield from _block(kind, list(lines), folder)


def _kind(line: str) -> str:
    if not line.strip():
        return "empty"
    named = {"#": "heading", "|": "table", "-": "list", "!": "picture"}
    return named.get(line[0], "paragraph")


def _block(kind: str, lines: Sequence[str], folder: Path) -> Iterator[str]:
    if kind == "heading":
        for line in lines:
            marks, _, words = line.partition(" ")
            yield f"<h{len(marks)}>{_inline(words)}</h{len(marks)}>"
    elif kind == "table":
        yield _table(lines)
    elif kind == "list":
        yield f"<ul>{''.join(f'<li>{_inline(line[2:])}</li>' for line in lines)}</ul>"
    elif kind == "picture":
        for title, name in (picture for line in lines for picture in _PICTURE.findall(line)):
            data = b64encode((folder / name).read_bytes()).decode()
            alt = escape(title)
            yield f'<figure><img src="data:image/png;base64,{data}" alt="{alt}"></figure>'
    elif kind == "paragraph":
        yield f"<p>{_inline(' '.join(lines))}</p>"


def _table(lines: Sequence[str]) -> str:
    """A table in Markdown; a column whose rule ends in a colon holds numbers."""
    head, rule, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    looks = [' class="number"' if mark.endswith(":") else "" for mark in rule]
    told = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td{look}>{_inline(cell)}</td>" for look, cell in zip(looks, row, strict=False))
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{told}</tr>{body}</table></div>'


def _inline(words: str) -> str:
    """Words with code and emphasis."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
