"""Generated parts of a Markdown page, between markers that the page's author has put into it."""

from __future__ import annotations

from pathlib import Path

from nitro_learner.rundir import RunDir, RunDirError


def replace(page: Path, name: str, text: str) -> None:
    """Puts `text` between the markers of `name` in a page.

    Raises:
        RunDirError: the page lacks the markers.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    head, found, rest = old.partition(f"{begin}\n")
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise RunDirError(f"{page} has no place for this. Add these two lines to it:\n{begin}\n{end}")
    RunDir(page.parent).write_text(page, f"{head}{begin}\n{text.rstrip()}\n{end}{tail}")
