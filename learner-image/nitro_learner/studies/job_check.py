"""The check of a job before it is trained: what `nitro validate` says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nitro_api import FieldError, JobInvalid, NitroTrainingJob, ResolvedJob, load_job, resolve, warnings
from nitro_api.errors import ABSENT
from nitro_api.loading.job_file import lost_points
from nitro_learner.algorithms import availability
from nitro_learner.run.tracking import availability as trackers
from nitro_learner.studies import environment_ids, environment_start, own_start

_ONLY_ON_A_CLUSTER = (
    "starts a run on a cluster only: leave it out and give `nitro train` the run by --from, or check a job "
    "for a cluster with `kubectl nitro validate`"
)


class JobCheck:
    """A job, and what is to be said of it.

    Args:
        source: what `load_job` takes.
        overrides: PATH=VALUE each.
        elsewhere: whether the job is for a cluster, so that this machine may lack a package.

    Attributes:
        warnings: of what may be wrong, as far as it was checked.
        remarks: on style.
    """

    def __init__(
        self, source: Path | str | dict[str, Any], overrides: Sequence[str] = (), *, elsewhere: bool
    ) -> None:
        self.warnings: list[str] = []
        self.remarks: list[str] = []
        self._source = source
        self._overrides = overrides
        self._elsewhere = elsewhere

    def run(self, *, applied: bool = True) -> tuple[NitroTrainingJob, ResolvedJob]:
        """Check everything; the job as given, and with every default filled in.

        Args:
            applied: whether `kubectl apply` may send the source, in which the floats lose their points.

        Raises:
            JobInvalid: lists every mistake.
        """
        job = load_job(self._source, self._overrides, look_up=environment_ids.mistakes)
        lost = lost_points(self._source, self._overrides) if applied else []
        self.warnings += [*warnings(job), *lost, *environment_ids.doubts(job.spec)]
        complete = resolve(job)
        # A learner's image may have what this machine has not.
        self.warnings += [str(item) for item in trackers.not_installed(complete.spec)]
        if availability.lacking(complete.spec):
            self.warnings.append(availability.UNCHECKED)
        else:
            availability.check(complete.spec)
        if complete.spec.resume_from is not None and not self._elsewhere:
            raise JobInvalid([FieldError("spec.resumeFrom", ABSENT, _ONLY_ON_A_CLUSTER)])
        self.warnings += own_start.check(complete.spec, elsewhere=self._elsewhere)
        started = environment_start.check(complete.spec, elsewhere=self._elsewhere)
        self.warnings += started.warnings
        self.remarks += started.remarks
        return job, complete
