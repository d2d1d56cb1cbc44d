"""Record a command in a terminal as an animated SVG, from a real run. The README's is made by

    python scripts/terminal.py docs/recording.svg -- nitro train examples/cartpole.yaml

The picture plays once and then shows the end. Where nothing can move, such as on paper, it shows the end at
once. Pauses of the command are shortened, nothing else is changed.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

COLUMNS, PAUSE = 96, 0.6
"""Letters of a line as the command is told, and the longest pause in seconds."""
LETTER, LINE, MARGIN = 8.43, 19, 16
"""Width of a letter, height of a line and the edge, in pixels, for letters of 14 pixels."""
PROMPT = "$ "
_SEQUENCE = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])")


@dataclass(frozen=True)
class Run:
    """Letters of one style, from a column on."""

    column: int
    text: str
    bold: bool = False
    dim: bool = False


@dataclass
class Terminal:
    """What a program has written, as far as `nitro` moves the cursor: lines, up, erase, bold and dim."""

    rows: list[list[tuple[str, bool, bool]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    bold: bool = False
    dim: bool = False

    def write(self, text: str) -> None:
        at = 0
        while at < len(text):
            if found := _SEQUENCE.match(text, at):
                self._obey(found[1], found[2])
                at = found.end()
                continue
            self._put(text[at])
            at += 1

    def lines(self) -> list[tuple[Run, ...]]:
        """Each row as runs of equal style, without spaces at its end."""
        return [tuple(_runs(row)) for row in self.rows]

    def _put(self, letter: str) -> None:
        if letter == "\r":
            self.column = 0
        elif letter == "\n":
            self.row += 1
            while len(self.rows) <= self.row:
                self.rows.append([])
        else:
            row = self.rows[self.row]
            row += [(" ", False, False)] * (self.column + 1 - len(row))
            row[self.column] = (letter, self.bold, self.dim)
            self.column += 1

    def _obey(self, numbers: str, command: str) -> None:
        if command == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif command == "K":
            self.rows[self.row] = []
        elif command == "m":
            for number in (numbers or "0").split(";"):
                self.bold = number == "1" or (self.bold and number != "0")
                self.dim = number == "2" or (self.dim and number != "0")


@dataclass(frozen=True)
class Shown:
    """A line of the terminal, and from when to when it is there; `end` is None for what stays."""

    row: int
    runs: tuple[Run, ...]
    begin: float
    end: float | None


def record(command: Sequence[str]) -> list[tuple[float, str]]:
    """Run a command in a terminal: when it wrote what, with its pauses shortened."""
    events: list[tuple[float, bytes]] = []

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 1 << 16)
        events.append((time.monotonic(), data))
        return data

    os.environ |= {"COLUMNS": str(COLUMNS), "TERM": "xterm"}
    code = os.waitstatus_to_exitcode(pty.spawn(list(command), read))
    if code:
        raise SystemExit(f"{shlex.join(command)} ended with {code}; nothing is written.")
    # A letter of several bytes may lie in two pieces.
    decoder = iter(_decoded([data for _, data in events]))
    now, before = 0.0, events[0][0]
    timed = []
    for at, _ in events:
        now += min(at - before, PAUSE)
        before = at
        timed.append((now, next(decoder)))
    return timed


def versions(events: Sequence[tuple[float, str]]) -> list[Shown]:
    """Every line that the terminal showed for a moment that can be seen."""
    terminal = Terminal()
    shown: dict[int, tuple[float, tuple[Run, ...]]] = {}
    found = []
    for number, (at, text) in enumerate(events):
        terminal.write(text)
        if number + 1 < len(events) and events[number + 1][0] - at < 0.05:
            continue  # a redraw in several pieces
        lines = terminal.lines()
        for row in range(max(len(lines), *(one + 1 for one in shown), 0)):
            runs = lines[row] if row < len(lines) else ()
            begin, old = shown.get(row, (at, ()))
            if runs != old:
                if old:
                    found.append(Shown(row, old, begin, at))
                shown[row] = (at, runs)
    return [*found, *(Shown(row, runs, begin, None) for row, (begin, runs) in shown.items() if runs)]


def svg(command: str, lines: Sequence[Shown]) -> str:
    """The picture: a first line with the command, and below it what it wrote."""
    last = max(line.row for line in lines) + 2
    columns = max(run.column + len(run.text) for line in lines for run in line.runs)
    width, height = round(columns * LETTER + 2 * MARGIN), last * LINE + 2 * MARGIN
    last_lines = sorted((line for line in lines if line.end is None), key=lambda line: line.row)
    said = " ".join(run.text for line in last_lines for run in line.runs)
    body = [_text(0, (Run(0, PROMPT, dim=True), Run(len(PROMPT), command, bold=True)))]
    for line in lines:
        if line.end is None:
            body.append(_text(line.row + 1, line.runs, _set("hidden", 0, line.begin)))
        else:
            hidden = _set("visible", line.begin, line.end)
            body.append(_text(line.row + 1, line.runs, hidden, ' visibility="hidden"'))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="title text">',
            f"<title id='title'>{escape(command)}</title>",
            f"<desc id='text'>{escape(' '.join(said.split()))}</desc>",
            "<style>text { fill: #e6edf3; font: 14px ui-monospace, Menlo, Consolas, monospace; "
            "white-space: pre; } .b { font-weight: 600; } .d { fill: #9da7b3; }</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>',
            *body,
            "</svg>\n",
        ]
    )


def _text(row: int, runs: Sequence[Run], inside: str = "", more: str = "") -> str:
    y = MARGIN + (row + 1) * LINE - 5
    spans = "".join(
        f'<tspan x="{MARGIN + run.column * LETTER:.1f}" textLength="{len(run.text) * LETTER:.1f}"'
        f"{_style(run)}>{escape(run.text).replace(' ', '&#160;')}</tspan>"
        for run in runs
    )
    return f'<text y="{y}"{more}>{spans}{inside}</text>'


def _style(run: Run) -> str:
    names = " ".join(name for name, on in (("b", run.bold), ("d", run.dim)) if on)
    return f' class="{names}"' if names else ""


def _set(value: str, begin: float, end: float) -> str:
    return f'<set attributeName="visibility" to="{value}" begin="{begin:.2f}s" end="{end:.2f}s"/>'


def _runs(row: Sequence[tuple[str, bool, bool]]) -> Iterator[Run]:
    start = 0
    for column in range(1, len(row) + 1):
        if column == len(row) or row[column][1:] != row[start][1:]:
            text = "".join(letter for letter, _, _ in row[start:column])
            if text.strip():
                yield Run(start, text.rstrip(), *row[start][1:])
            start = column


def _decoded(pieces: Sequence[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        rest += piece
        text = rest.decode(errors="ignore")
        rest = rest[len(text.encode()) :]
        yield text


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 3 or arguments[1] != "--":
        raise SystemExit(__doc__)
    target, command = Path(arguments[0]), arguments[2:]
    target.write_text(svg(shlex.join(command), versions(record(command))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
