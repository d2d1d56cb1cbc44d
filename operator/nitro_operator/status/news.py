"""Events about what a learner has reported since the last look: shared policies, and an older run."""

from __future__ import annotations

from nitro_api.spec.learner_status import SharingStatus
from nitro_operator.builders import JobView
from nitro_operator.builders.storage import checkpoint_location, run_folder
from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.status.conditions import Condition


class SharingNews:
    """Notices when the agents of one job begin to share policies, or end it."""

    def __init__(self) -> None:
        self._toggles: int | None = None

    def of(self, job: Object) -> Condition | None:
        """The event to post about toggles since the previous call; None if there were none.

        Only the last of several toggles is reported. Toggles before the first call are not news, because this
        operator may have started in the middle of a run.
        """
        raw = reported.section(job, "sharing")
        sharing = SharingStatus.model_validate(raw)
        before, self._toggles = self._toggles, sharing.toggles
        if before is None or sharing.toggles is None or sharing.toggles <= before:
            return None
        reason = "SharingBegan" if sharing.shared else "SharingEnded"
        return Condition("Sharing", bool(sharing.shared), reason, sharing.message or "")


class FormerRunNews:
    """Notices that a job from a backup began anew, beside an older run of its name."""

    def __init__(self) -> None:
        self._seen: str | None = None
        self._looked = False

    def of(self, job: Object, view: JobView | None) -> Condition | None:
        """The event to post about a run that was found since the previous call; None if there is none.

        What was found before the first call is not news, because this operator may have started later.
        """
        folder = reported.section(job, "training").get("formerRun")
        known = not self._looked or folder == self._seen
        self._seen, self._looked = folder, True
        if known or not folder or view is None:
            return None
        place, _, _ = checkpoint_location(view).rpartition(f"/{run_folder(view)}")
        where = f"s3: {place}/{folder}" if place.startswith("s3://") else _in_claim(place, folder)
        return Condition(
            "FormerRun",
            True,
            "FormerRunFound",
            f"this job began anew, and an older run of its name is in {place}, folder {folder}. To go on "
            f"with that run, delete this job and create it with spec.resumeFrom: {{{where}, take: Run}}.",
        )


def _in_claim(place: str, folder: str) -> str:
    return f"claim: {place.removeprefix('pvc/')}, folder: {folder}"
