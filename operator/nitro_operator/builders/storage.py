"""Places of checkpoints: the own of a job (a claim or a bucket), and that of spec.resumeFrom."""

from dataclasses import dataclass
from typing import Self

from nitro_operator.builders.view import JobView, literal
from nitro_operator.kube import names
from nitro_operator.kube.kinds import Object

CHECKPOINT_MOUNT = "/checkpoints"


def checkpoint_claim(view: JobView) -> Object | None:
    """The job's own claim; None if the job names one or has a bucket. It outlives the job unless `retain` is
    false."""
    volume = view.spec.learner.checkpoint.volume
    if view.spec.learner.checkpoint.s3 is not None or volume.claim_name is not None:
        return None
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.storage_class_name is not None:
        spec["storageClassName"] = volume.storage_class_name
    metadata: Object = {
        "name": claim_name(view),
        "namespace": view.namespace,
        "labels": names.labels(view.name, names.LEARNER),  # backups must have it, unlike all other children
    }
    if not volume.retain:
        metadata["ownerReferences"] = [names.owner_reference(view.job)]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def claim_name(view: JobView) -> str:
    return view.spec.learner.checkpoint.volume.claim_name or names.checkpoint_claim(view.name)


def checkpoint_volume(view: JobView) -> Object | None:
    """The claim. None with a bucket: the learner then copies to it from the pod's own disk."""
    if view.spec.learner.checkpoint.s3 is not None:
        return None
    return {"name": "checkpoints", "persistentVolumeClaim": {"claimName": claim_name(view)}}


def run_directory(view: JobView) -> str:
    """The run's folder in the pod. It contains the job's uid, so a new job of the same name has its own."""
    return f"{CHECKPOINT_MOUNT}/{run_folder(view)}"


def run_folder(view: JobView) -> str:
    """The run's folder in a claim or a bucket."""
    return f"{view.name}-{view.uid}"


def checkpoint_location(view: JobView) -> str:
    """The place of the run's checkpoints for the status: claim or bucket, and path."""
    if (s3 := view.spec.learner.checkpoint.s3) is not None:
        return "/".join(["s3:/", s3.bucket, *([s3.prefix] if s3.prefix else []), run_folder(view)])
    return f"pvc/{claim_name(view)}/{run_folder(view)}"


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
    def of(cls, view: JobView) -> Self:
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
