"""The README's pictures that scripts make: a terminal's recording, and differences in return."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import forest
import terminal
from docs_support import ROOT

SVG = "{http://www.w3.org/2000/svg}"
REDRAWN = [
    (0.0, "a job\r\n\x1b[?25l"),
    (1.0, "\x1b[1mround\x1b[0m  eval\r\n 1     -\r\n"),
    (2.0, "\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K"),
    (2.01, "\x1b[1mround\x1b[0m  eval\r\n 1   500\r\n"),
    (3.0, "d\x1b[2mone\x1b[0m\r\n\x1b[?25h"),
]
"""What a program writes that draws its table again."""


def text(shown: terminal.Shown) -> str:
    return "".join(run.text.rjust(len(run.text)) for run in shown.runs)


def test_a_terminal_keeps_what_was_written_last() -> None:
    screen = terminal.Terminal()
    for _, piece in REDRAWN:
        screen.write(piece)
    assert [[run.text for run in line] for line in screen.lines()] == [
        ["a job"],
        ["round", "  eval"],
        [" 1   500"],
        ["d", "one"],
        [],
    ]
    assert [run.bold for run in screen.lines()[1]] == [True, False]
    assert [run.dim for run in screen.lines()[3]] == [False, True]


def test_a_line_is_shown_from_when_it_was_written_until_it_was_changed() -> None:
    shown = {text(line): (line.row, line.begin, line.end) for line in terminal.versions(REDRAWN)}
    assert shown == {
        "a job": (0, 0.0, None),
        "round  eval": (1, 1.0, None),
        " 1     -": (2, 1.0, 2.01),
        " 1   500": (2, 2.01, None),
        "done": (3, 3.0, None),
    }


def test_the_picture_shows_the_end_where_nothing_moves() -> None:
    picture = ElementTree.fromstring(terminal.svg("nitro <train>", terminal.versions(REDRAWN)))
    visible = [
        "".join(element.itertext()).replace("\xa0", " ")
        for element in picture.iter(f"{SVG}text")
        if element.get("visibility") != "hidden"
    ]
    assert visible == ["$ nitro <train>", "a job", "round  eval", " 1   500", "done"]
    hidden = next(one for one in picture.iter(f"{SVG}text") if one.get("visibility") == "hidden")
    (change,) = hidden.iter(f"{SVG}set")
    assert (change.get("to"), change.get("begin"), change.get("end")) == ("visible", "1.00s", "2.01s")


def test_a_failed_command_is_not_recorded(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="ended with 3; nothing is written"):
        terminal.record(["sh", "-c", "exit 3"])
    capfd.readouterr()


def test_the_recording_is_of_a_run_to_its_end() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "recording.svg").getroot()
    said = picture.findtext(f"{SVG}desc") or ""
    assert "nitro train" in (picture.findtext(f"{SVG}title") or "")
    assert re.search(r"done: .*final return", said)


def test_the_four_rows_are_those_of_the_tables() -> None:
    rows = forest.rows()
    assert len(rows) == 4
    assert all(row.low < row.difference < row.high for row in rows)
    for (page, environment, fixed, _), row in zip(forest.ASKED, rows, strict=True):
        table = (ROOT / "experiments" / "results" / f"{page}.md").read_text(encoding="utf-8")
        section = table.partition(f"\n## {environment}\n")[2]
        base = re.search(rf"\| {fixed} \| ([\d.,]+) ", section)
        assert base is not None
        written = f"{row.difference * float(base[1].replace(',', '')) / 100:+.1f}"
        assert f"| nitro - {fixed} | {written} [" in section
        assert f"\n{row.seeds} paired seeds" in section


def test_a_row_that_the_page_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"tuned-default\.md has no table of Humanoid-v5 with"):
        forest.row("tuned-default", "Humanoid-v5", "fixed-4", "")


def test_the_readme_is_short_and_has_four_pictures() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"!\[", text)) == 4
    plain = re.sub(
        r"^(    |\|).*$|!\[[^\]]*\]\([^)]*\)", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.M
    )
    assert len(re.sub(r"\]\([^)]*\)", "]", plain).split()) <= 700
