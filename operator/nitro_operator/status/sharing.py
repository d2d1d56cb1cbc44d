"""Events about sharing: agents begin to share policies, or end it, as status.sharing reports."""

from __future__ import annotations

from nitro_api.spec.learner_status import SharingStatus
from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.status.conditions import Condition


class SharingNews:
    """Notices the toggles of one job."""

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
