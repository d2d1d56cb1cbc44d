"""The event about an older run of a job's name: a job from a backup begins anew beside it."""

from __future__ import annotations

from nitro_operator.builders import JobView
from nitro_operator.builders.storage import checkpoint_location, run_folder
from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.status.conditions import Condition


class FormerRunNews:
    """Notices that the learner of one job has found such a run."""

    def __init__(self) -> None:
        self._seen: str | None = None
        self._looked = False

    def of(self, job: Object, view: JobView | None) -> Condition | None:
        """The event to post about a run that was found since the previous call; None if there is none.

        What was found before the first call is not news, because this operator may have started later.
        """
        found = reported.section(job, "training").get("formerRun")
        known = not self._looked or found == self._seen
        self._seen, self._looked = found, True
        if known or not found or view is None:
            return None
        place, _, _ = checkpoint_location(view).rpartition(f"/{run_folder(view)}")
        where = f"s3: {place}/{found}" if place.startswith("s3://") else _in_claim(place, found)
        return Condition(
            "FormerRun",
            True,
            "FormerRunFound",
            f"this job began anew, and an older run of its name is in {place}, folder {found}. To go on with "
            f"that run, delete this job and create it with spec.resumeFrom: {{{where}, take: Run}}.",
        )


def _in_claim(place: str, folder: str) -> str:
    return f"claim: {place.removeprefix('pvc/')}, folder: {folder}"
