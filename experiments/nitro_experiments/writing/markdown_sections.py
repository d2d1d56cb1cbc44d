"""Generated sections of a Markdown page, between two markers. What people write around them stays."""

from pathlib import Path

from nitro_learner.run.rundir import RunDirError, write_text


def parts(page: Path, name: str) -> tuple[str, str]:
    """The page up to and including the first marker of `name`, and the page from the second marker on.

    A page that does not exist counts as one that has only the two markers.

    Raises:
        RunDirError: the page exists and lacks the markers.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if not page.exists():
        return begin, f"{end}\n"
    before, opened, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise RunDirError(f"{page} has no place for this. Add these two lines to it:\n{begin}{end}")
    return before + begin, end + after


def replace(page: Path, name: str, text: str) -> None:
    """Put `text` between the markers of `name` in a page. Creates a page that does not exist.

    Raises:
        RunDirError: the page exists and lacks the markers.
    """
    before, after = parts(page, name)
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, f"{before}{text.rstrip()}\n{after}")
