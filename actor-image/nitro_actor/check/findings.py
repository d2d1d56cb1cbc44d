"""What a check finds, told line by line, so that what was found is known if the check is ended."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

CALLS = "what reset and step return"
SEEDS = "that equal seeds give equal episodes"
GYMNASIUM = "gymnasium's check_env"
PETTING_ZOO = "PettingZoo's parallel_api_test"
ENDS = "whether episodes end"
RESUMING = "whether it goes on from a saved state"
CLOSING = "what is left after close"
"""The parts of a check, as sentences name them."""

SEEDS_DIFFER = "seeds"
"""The kind of the fault that equal seeds do not give equal episodes."""

LITTLE_TIME = "it takes more time than there was"


class Skipped(Exception):  # noqa: N818 - a state, not a mistake
    """A part of the check is left out, or was not finished. The text says why."""


class Clock:
    """The time that a check may take.

    Args:
        seconds: from now on.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left; below 0 afterwards."""
        return self._end - time.monotonic()

    def over(self) -> bool:
        """Whether no time is left."""
        return self.left() <= 0


class Findings:
    """Lines of JSON, each an object.

        {"environment": EnvironmentSpec} or {"error": TEXT}
        {"parts": [PART, ...]}                      what will be checked, in order
        {"level": LEVEL, "text": TEXT}              LEVEL: fault, warning, remark or checker
        {"done": PART} or {"left": PART, "why": TEXT}
        {"measured": {...}}
        {"end": true}

    A fault changes what is learned. What a checker of gymnasium or PettingZoo stops at has the level
    `checker`: it is a fault of its own only where none was found here that is behind it.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._kinds: set[str] = set()

    def has(self, kind: str) -> bool:
        """Whether a finding of this kind was told."""
        return kind in self._kinds

    def write(self, **line: Any) -> None:
        """Write one line."""
        print(json.dumps(line), file=self._out, flush=True)

    def tell(self, level: str, text: str, kind: str = "") -> None:
        """Tell one finding. Of a kind, only the first one is told."""
        if (kind or text) not in self._kinds:
            self._kinds.add(kind or text)
            self.write(level=level, text=text)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Tell whether the block finished a part of the check."""
        try:
            yield
        except Skipped as why:
            self.write(left=name, why=str(why))
        else:
            self.write(done=name)
