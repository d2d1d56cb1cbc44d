"""Traces: the line of the user's code that raised an error, or at which a process hangs."""

import re
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import FrameType

_OURS = Path(__file__).parent
_WORK = tuple(str(_OURS / name) for name in ("engines", "agents", "make_env.py"))
"""Functions that call the environment."""

_LIBRARIES = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), "<")
"""Folders of installed packages, and the beginnings of names of code without a file."""

_MOST_CHARACTERS = 3_000
"""Size limit of a traceback, so that it fits into an answer of 64 KB in any encoding."""

_SHOWN_CHARACTERS = 100

_DUMPED = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)')
_THREAD = re.compile(r"(Current thread|Thread|Stack) .*\(most recent call first\):")
DUMP_END = "in _run_module_as_main"
"""The last line of the main thread in faulthandler's output; the main thread is the last one in it."""


@dataclass(frozen=True)
class Frame:
    """One entry of a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def raised_at(error: BaseException) -> str:
    """The place in the user's code that raised an error, as the end of a message; empty if it was
    elsewhere."""
    frames = [
        Frame(entry.filename, entry.lineno or 0, entry.name)
        for entry in traceback.extract_tb(error.__traceback__)
    ]
    frame = _own(frames[::-1])
    return f" ({frame})" if frame else ""


def trace(error: BaseException) -> str:
    """The traceback of an error of the user's code, cut to its last part if it is long; else empty."""
    while type(error).__module__.startswith("nitro_actor"):
        if error.__cause__ is None:
            return ""
        error = error.__cause__
    return "".join(traceback.format_exception(error))[-_MOST_CHARACTERS:]


def shown(value: object) -> str:
    """The beginning of a value's representation, on one line. It is the user's code, which may raise."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return "a value that cannot be shown"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} ..."


def of_thread(frame: FrameType) -> list[Frame]:
    """The stack of a running thread, innermost first."""
    return [Frame(f.f_code.co_filename, line, f.f_code.co_name) for f, line in traceback.walk_stack(frame)]


def of_dump(lines: Iterable[str]) -> list[Frame]:
    """The stack of the thread that works on requests, innermost first, from what faulthandler wrote last."""
    threads: list[list[Frame]] = []
    for line in lines:
        if _THREAD.match(line):
            threads.append([])
        elif threads and (found := _DUMPED.match(line)):
            threads[-1].append(Frame(found["file"], int(found["line"]), found["function"]))
    at_work = (frames for frames in reversed(threads) if any(f.file.startswith(_WORK) for f in frames))
    return next(at_work, [])


def begins_dump(line: str) -> bool:
    """Whether a dump of faulthandler begins with this line."""
    return line.startswith("Fatal Python error: ") or _THREAD.match(line) is not None


def standing(frames: Sequence[Frame]) -> str:
    """The environment's call that a stack (innermost first) is in, and its place; empty if there is none."""
    outside = list(takewhile(lambda frame: not _is_ours(frame), frames))
    frame = _own(frames)
    return f"{outside[-1].function}() at {frame}" if outside and frame else ""


def _own(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's own code; if there is none, of an installed package."""
    outside = [frame for frame in frames if not _is_ours(frame) and not frame.file.startswith("<")]
    own = (frame for frame in outside if not frame.file.startswith(_LIBRARIES))
    installed = (frame for frame in outside if _installed(frame))
    return next(own, None) or next(installed, None)


def _is_ours(frame: Frame) -> bool:
    return frame.file.startswith(str(_OURS))


def _installed(frame: Frame) -> bool:
    """Whether the frame is in an installed package, not in the standard library."""
    return "site-packages" in frame.file or "dist-packages" in frame.file
