"""A process that cleans up when the learner dies, even by kill -9.

    python guard.py DIRECTORY

It makes the private DIRECTORY, prints a line, and waits on its standard input, whose other end only the
learner holds. When that ends, for whatever reason, it removes the directory and kills its process group, in
which the learner starts every child. Run by path, with the standard library only, so that it starts in
milliseconds.
"""

import contextlib
import os
import shutil
import signal
import sys


def main() -> None:
    # A signal meant for the learner must not end its guard first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    directory = sys.argv[1]
    os.mkdir(directory, 0o700)  # noqa: PTH102
    with contextlib.suppress(BrokenPipeError):  # the learner has ended: the loop below ends at once
        os.write(1, b"ready\n")
    while os.read(0, 4096):
        pass
    shutil.rmtree(directory, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
