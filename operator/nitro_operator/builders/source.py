"""The run of spec.resumeFrom, as the learner's pod reaches it."""

from __future__ import annotations

from dataclasses import dataclass

from nitro_operator.builders.storage import checkpoint_location, claim_name, run_folder
from nitro_operator.builders.view import JobView, literal
from nitro_operator.kube.kinds import Object

SOURCE_MOUNT = "/resume-from"
VOLUME = "resume-from"


@dataclass(frozen=True)
class Source:
    """The place of another run: a folder in a claim, or an address s3://BUCKET/PREFIX/RUN."""

    address: str | None = None
    claim: str | None = None
    folder: str | None = None
    """In the claim."""

    @classmethod
    def of(cls, view: JobView) -> Source:
        """The run of a job."""
        if view.spec.learner.checkpoint.s3 is not None:
            return cls(address=checkpoint_location(view))
        return cls(claim=claim_name(view), folder=run_folder(view))

    def variable(self) -> Object:
        """The variable that tells the learner the place."""
        return literal("NITRO_RESUME_FROM", self.address or SOURCE_MOUNT)

    def volumes(self, view: JobView) -> list[Object]:
        """The claim, unless the pod has it as its own."""
        if self.claim is None or self._volume(view) != VOLUME:
            return []
        return [{"name": VOLUME, "persistentVolumeClaim": {"claimName": self.claim}}]

    def mounts(self, view: JobView) -> list[Object]:
        """The run's folder, and nothing else of the claim, to be read only."""
        if self.claim is None:
            return []
        mount = {"name": self._volume(view), "mountPath": SOURCE_MOUNT}
        return [{**mount, "subPath": self.folder, "readOnly": True}]

    def _volume(self, view: JobView) -> str:
        # Two volumes of one claim in a pod are more than some storage drivers can do.
        own = view.spec.learner.checkpoint.s3 is None and claim_name(view) == self.claim
        return "checkpoints" if own else VOLUME
