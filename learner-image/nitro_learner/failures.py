"""How a run fails: one kind of error for all that can go wrong, which says whether a resume can help."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from nitro_learner.architecture import NetworkMisfit
from nitro_learner.backends.base import BackendError, RetryableError
from nitro_learner.cache import CacheError
from nitro_learner.checkpoint import CheckpointError
from nitro_learner.compute import ComputeHangs
from nitro_learner.extras import RllibError
from nitro_learner.plans import RoundFailed

_DISK_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


class TrainingFailed(Exception):  # noqa: N818
    """The run ended before a stop condition held.

    Attributes:
        resumable: whether going on from the last checkpoint can help (a full disk, lost actors), or the job
            itself is at fault.
    """

    def __init__(self, message: str, *, resumable: bool) -> None:
        super().__init__(message)
        self.resumable = resumable


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Raises TrainingFailed for what the actors, the cache, the disk or the numerics raise within."""
    try:
        yield
    except RoundFailed as error:
        raise TrainingFailed(str(error), resumable=error.resumable) from error
    except (RetryableError, CacheError, CheckpointError, ComputeHangs, RllibError) as error:
        raise TrainingFailed(str(error), resumable=True) from error
    except (BackendError, FloatingPointError, NetworkMisfit) as error:
        raise TrainingFailed(str(error), resumable=False) from error
    except OSError as error:
        if error.errno not in _DISK_TROUBLE:
            raise
        message = f"{error.filename or 'the run folder'}: {error.strerror}. Make room and resume."
        raise TrainingFailed(message, resumable=True) from error
