"""What Ctrl-C does in a command.

At first it ends the process at once: an exception in the middle of an import shows tracebacks, or is lost. A
command that starts processes, or writes what must be cleaned up, calls `orderly` when its imports are over.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Have Ctrl-C end the process with a short message and exit code 130 within the block.

    Where SIGINT is ignored, as for a program in the background, or handled by somebody else, that stays.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        orderly()


def orderly() -> None:
    """Have Ctrl-C raise KeyboardInterrupt from now on, as Python does by itself."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    with contextlib.suppress(OSError):
        os.write(2, b"nitro: interrupted\n")
    os._exit(130)
