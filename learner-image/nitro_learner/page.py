"""Generated parts of a Markdown page, between markers that the page's author has put into it."""

from __future__ import annotations

from pathlib import Path

from nitro_learner.rundir import RunDir, RunDirError


def parts(page: Path, name: str) -> tuple[str, str]:
    """The page up to and with the first marker of `name`, and from the second one on.

    Raises:
        RunDirError: the page lacks the markers.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise RunDirError(f"{page} has no place for this. Add these two lines to it:\n{begin}{end}")
    return before + begin, end + after


def replace(page: Path, name: str, text: str) -> None:
    """Puts `text` between the markers of `name` in a page.

    Raises:
        RunDirError: the page lacks the markers.
    """
    before, after = parts(page, name)
    RunDir(page.parent).write_text(page, f"{before}{text.rstrip()}\n{after}")
