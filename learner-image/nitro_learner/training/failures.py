"""Failures of a run: one exception for all of them, which says whether a resume can help."""

import contextlib
import errno
import logging
from collections.abc import Iterator

from nitro_learner.algorithms.agents.team import TeamMisfit
from nitro_learner.algorithms.availability import RllibError
from nitro_learner.algorithms.own_code import OwnCodeError, Part
from nitro_learner.backends.base import NO_EVIDENCE, BackendError, Evidence, RetryableError
from nitro_learner.backends.cache.base import CacheError
from nitro_learner.checkpoints.store import CheckpointError
from nitro_learner.networks.architecture import NetworkMisfit
from nitro_learner.sampling.plans import RoundFailed
from nitro_learner.training.compute import ComputeHangs
from nitro_learner.training.device import GpuFull

log = logging.getLogger(__name__)

_DISK_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


class TrainingFailed(Exception):  # noqa: N818
    """The run ended before a stop condition held.

    Attributes:
        resumable: whether resuming from the last checkpoint can help (a full disk, lost actors). If not, the
            job itself is at fault.
        misfit: whether the job's network does not fit the environment, or this machine lacks a package that
            the environment needs.
        evidence: whether the user's environment is at fault and must be fixed first, and its traceback.
        own: what of the job is the user's own code, is at fault and must be fixed first; None if none is.
    """

    def __init__(
        self,
        message: str,
        *,
        resumable: bool,
        evidence: Evidence = NO_EVIDENCE,
        misfit: bool = False,
        own: Part | None = None,
    ) -> None:
        super().__init__(message)
        self.own = own
        self.misfit = misfit
        self.resumable = resumable
        self.evidence = evidence


@contextlib.contextmanager
def as_training_failure() -> Iterator[None]:
    """Raise TrainingFailed in place of the errors of actors, cache, disk and numerics."""
    try:
        yield
    except RoundFailed as error:
        raise TrainingFailed(str(error), resumable=error.resumable, evidence=error.evidence) from error
    except (RetryableError, CacheError, CheckpointError, ComputeHangs, RllibError) as error:
        raise TrainingFailed(str(error), resumable=True) from error
    except BackendError as error:
        if error.evidence.trace:
            log.info("the run failed: %s", error, extra={"fields": {"traceback": error.evidence.trace}})
        raise TrainingFailed(
            str(error), resumable=False, evidence=error.evidence, misfit=error.evidence.missing
        ) from error
    except OwnCodeError as error:
        if error.trace:
            log.info("the run failed: %s", error, extra={"fields": {"traceback": error.trace}})
        raise TrainingFailed(str(error), resumable=False, own=error.part) from error
    except (FloatingPointError, GpuFull, NetworkMisfit, TeamMisfit) as error:
        misfit = isinstance(error, NetworkMisfit)
        raise TrainingFailed(str(error), resumable=False, misfit=misfit) from error
    except OSError as error:
        if error.errno not in _DISK_TROUBLE:
            raise
        message = f"{error.filename or 'the run folder'}: {error.strerror}. Make room and resume."
        raise TrainingFailed(message, resumable=True) from error
