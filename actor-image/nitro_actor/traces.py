"""Traces: the line of the user's code that raised an error, or at which a process hangs."""

import inspect
import re
import signal
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any

OURS = Path(__file__).parent
"""The folder of this package."""
_WORK = tuple(str(OURS / name) for name in ("engines", "agents", "make_env.py"))
"""Functions that call the environment."""

_LIBRARIES = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), "<")
"""Folders of installed packages, and the beginnings of names of code without a file."""

MOST_SENTENCE = 2_000
"""Size limit of a sentence in an answer."""

_MOST_WORDS = 1_500
"""Size limit of an exception's text in a sentence, which says where it was raised, too."""

_MOST_TRACE, _MOST_TEXT = 3_000, 800
"""Size limits of a traceback and of the exception's text at its end. With a sentence it fits into an answer
of 64 KB in any encoding."""

MOST_LOGGED = 2**18
"""Size limit of what only the actor's log has."""

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


def raised_at(error: BaseException, *, ours: Path = OURS) -> str:
    """The place in the user's code that raised an error, as the end of a message; empty if it was elsewhere.
    `ours` is a package that called the code."""
    frames = [
        Frame(entry.filename, entry.lineno or 0, entry.name)
        for entry in traceback.extract_tb(error.__traceback__)
    ]
    frame = _own([frame for frame in frames[::-1] if not frame.file.startswith(str(ours))])
    return f" ({frame})" if frame else ""


def defined(code: Any) -> str:
    """Where a class or a function is defined, as the end of a message; empty if that is not known."""
    try:
        return f" ({inspect.getsourcefile(code)}:{inspect.getsourcelines(code)[1]})"
    except (OSError, TypeError):
        return ""


def of_its_code(error: BaseException) -> bool:
    """Whether the code that was called raised an error. A KeyboardInterrupt comes from Ctrl-C where Python's
    own handler waits for it; actors have another one."""
    return (
        not isinstance(error, KeyboardInterrupt)
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    )


def words(error: BaseException) -> str:
    """The kind of an error of the user's code and its text, which is cut if it is long; see `uncut`."""
    name, message = type(error).__name__, text(error)
    return cut(f"{name}: {message}" if message else name, _MOST_WORDS)


def text(value: object) -> str:
    """The text of an exception or a warning. It is the user's code, which may raise, and the text may hold
    what UTF-8 does not have."""
    try:
        string = str(value)
    except Exception as error:
        return f"(its text cannot be shown, because __str__ raised {type(error).__name__})"
    return string.encode("utf-8", "backslashreplace").decode()


def cut(string: str, most: int) -> str:
    """The beginning of a text, with the number of the characters that are left out."""
    left = len(string) - most
    return f"{string[:most]} ... ({left:,} more characters are in the actor's log)" if left > 0 else string


def trace(error: BaseException) -> str:
    """The traceback of an error of the user's code, cut to its last part if it is long; else empty."""
    cause = _cause(error)
    if _ours(cause):
        return ""
    formatted = _formatted(cause)
    end = text("".join(traceback.format_exception_only(cause)))
    if len(formatted) <= _MOST_TRACE:
        return formatted
    if not formatted.endswith(end):  # a group of exceptions: the first part has the place
        return f"{formatted[: _MOST_TRACE // 2]}\n...\n{formatted[-_MOST_TRACE // 2 + 5 :]}"
    return formatted.removesuffix(end)[-(_MOST_TRACE - _MOST_TEXT) :] + end[:_MOST_TEXT]


def uncut(error: BaseException) -> str:
    """All of an error's text and traceback, for the actor's log, where an answer has it cut; else empty."""
    cause = _cause(error)
    full = text(cause) if _ours(cause) else _formatted(cause)
    if len(full) <= (MOST_SENTENCE if _ours(cause) else min(_MOST_WORDS, _MOST_TRACE)):
        return ""
    return full[:MOST_LOGGED]


def _cause(error: BaseException) -> BaseException:
    """The error of the user's code behind one of ours; where there is none, the first of ours."""
    while _ours(error) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _ours(error: BaseException) -> bool:
    return str(type(error).__module__).startswith("nitro_actor")


def _formatted(error: BaseException) -> str:
    try:
        return text("".join(traceback.format_exception(error)))
    except Exception:  # its notes are the user's code, too
        return words(error)


def shown(value: object) -> str:
    """The beginning of a value's representation, on one line. It is the user's code, which may raise."""
    try:
        line = " ".join(text(repr(value)).split())
    except Exception:
        return "a value that cannot be shown"
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]} ..."


def of_thread(frame: FrameType) -> list[Frame]:
    """The stack of a running thread, innermost first."""
    return [Frame(f.f_code.co_filename, line, f.f_code.co_name) for f, line in traceback.walk_stack(frame)]


def of_dump(lines: Iterable[str]) -> list[Frame]:
    """The stack of the thread that works on requests, innermost first, from what faulthandler wrote last."""
    threads: list[list[Frame]] = []
    for line in lines:
        if _THREAD.match(line):
            threads.append([])
        elif threads and (match := _DUMPED.match(line)):
            threads[-1].append(Frame(match["file"], int(match["line"]), match["function"]))
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
    return frame.file.startswith(str(OURS))


def _installed(frame: Frame) -> bool:
    """Whether the frame is in an installed package, not in the standard library."""
    return "site-packages" in frame.file or "dist-packages" in frame.file
