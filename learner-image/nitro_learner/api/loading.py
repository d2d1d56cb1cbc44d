"""Loading of a run's policy, without torch."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nitro_learner.api.exported import read_exported
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.checkpoints.store import Checkpoint, CheckpointError, CheckpointStore, NoCheckpointError
from nitro_learner.checkpoints.store import load as load_checkpoint
from nitro_learner.run.rundir import RunDir

_PLAYED = "played"


def load(source: str | Path, *, seed: int | None = None) -> TrainedPolicy:
    """Load what actors play: the policy of a run, or the policies of its agents.

    Args:
        source: a run folder, or its address s3://BUCKET/PREFIX/RUN, for its newest checkpoint; a checkpoint
            file; or the policy.safetensors of `nitro export`. boto3 looks for S3's credentials, region and
            endpoint.
        seed: of the actions that are drawn; None for a random one.

    Raises:
        NoCheckpointError: there is no such folder or file, or no checkpoint in it, or an address names no
            run.
        CheckpointError: there is no checkpoint that can be read, or it is of a version of Nitro that did not
            keep what actors play; or the bucket cannot be reached.
    """
    if str(source).startswith("s3://"):
        from nitro_learner.run.bucket import RunBucket  # the client of S3 takes a second to import

        with tempfile.TemporaryDirectory() as copy:
            RunBucket.at(str(source)).copy_newest(RunDir(Path(copy)))
            return _policy(_newest(Path(copy), str(source)), seed)
    path = Path(source)
    if not path.exists():
        raise NoCheckpointError(f"{path} does not exist. Name a run folder, or a checkpoint file of it.")
    if path.is_file():
        if (exported := read_exported(path, seed)) is not None:
            return exported
        return _policy(load_checkpoint(path, attached=False, only=[_PLAYED]), seed)
    return _policy(_newest(path, str(path)), seed)


def _newest(path: Path, name: str) -> Checkpoint:
    store = CheckpointStore(RunDir(path).checkpoints, keep_last=1)
    checkpoint = store.latest(attached=False, only=[_PLAYED])
    if checkpoint is None:
        raise NoCheckpointError(
            f"{name}: no checkpoint in it. Name a run that has one, or a checkpoint file of it."
        )
    return checkpoint


def _policy(checkpoint: Checkpoint, seed: int | None) -> TrainedPolicy:
    if _PLAYED not in checkpoint.state:
        raise CheckpointError(
            f"{checkpoint.path}: an earlier version wrote this checkpoint, without what actors play. Go on "
            "with the run for a round: nitro train --resume RUN --set spec.stop.rounds=N."
        )
    return TrainedPolicy(checkpoint.state[_PLAYED], checkpoint.round, seed)
