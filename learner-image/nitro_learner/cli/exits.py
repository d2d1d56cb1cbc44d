"""How a command ends: the exit codes, and the error that ends it early."""

import errno

DONE = 0
FAILED = 1
BAD_INPUT = 2
"""The operator also reads it: it ends a learner's Job without another try."""
INTERRUPTED = 75
"""EX_TEMPFAIL: stopped before the end, and resuming goes on from the last checkpoint."""
ABORTED = 130

EPILOG = """\
exit codes:
  0    done
  1    failed; the message says why
  2    bad input: the job file, the folder or the command line
  75   stopped before the end; resuming goes on from the last checkpoint
  130  aborted by Ctrl-C: at once before training began, by the second one afterwards
"""

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of a write that fails although the file can be written; they name no file."""


class CommandError(Exception):
    """A command cannot do what was asked: the message goes to stderr."""

    def __init__(self, message: str, code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code
