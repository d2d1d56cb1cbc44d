"""Loading of a run's policy, without torch."""

import json
import tempfile
from pathlib import Path
from typing import Any

import safetensors

from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.checkpoints.files import BEST, without_best
from nitro_learner.checkpoints.store import Checkpoint, CheckpointError, CheckpointStore, NoCheckpointError
from nitro_learner.checkpoints.store import load as load_checkpoint
from nitro_learner.run.policy_file import KEY, policy_file
from nitro_learner.run.rundir import RunDir

_PLAYED = "played"


def write_exported(policy: TrainedPolicy) -> bytes:
    """The file of a policy; see `policy_file`."""
    weights = policy.weights
    played = {
        "version": weights.version,
        "environment": policy.environment,
        "agents": weights.agents,
        "policies": {
            name: {"meta": policy.meta, "tensors": policy.tensors}
            for name, policy in weights.policies.items()
        },
    }
    return policy_file(played, policy.round)


def read_exported(path: Path, seed: int | None) -> TrainedPolicy | None:
    """Read such a file; None if it is another one, such as a checkpoint.

    Raises:
        CheckpointError: it is damaged.
    """
    try:
        with safetensors.safe_open(path, "numpy") as file:
            text = (file.metadata() or {}).get(KEY)
            if text is None:
                return None
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no mapping)
    except (safetensors.SafetensorError, OSError):
        return None  # whoever reads it as a checkpoint says what is wrong
    try:
        described = json.loads(text)
        policies: dict[str, Any] = {
            name: {"meta": meta, "tensors": {}} for name, meta in described["policies"].items()
        }
        for key, tensor in tensors.items():
            name, _, own = key.partition("/")
            policies[name]["tensors"][own] = tensor
        played = {name: described[name] for name in ("version", "environment", "agents")}
        return TrainedPolicy(played | {"policies": policies}, int(described["round"]), seed)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: no policy can be read from it ({type(error).__name__}: {error})"
        ) from None


def load(source: str | Path, *, best: bool = False, seed: int | None = None) -> TrainedPolicy:
    """Load what actors play: the policy of a run, or the policies of its agents.

    Args:
        source: a run folder, or its address s3://BUCKET/PREFIX/RUN, for its newest checkpoint; a checkpoint
            file of either; or the policy.safetensors of `nitro export`. boto3 looks for S3's credentials,
            region and endpoint.
        best: load the run's policy with the best evaluation in place of the newest one.
        seed: of the actions that are drawn; None for a random one.

    Raises:
        NoCheckpointError: there is no such folder or file, or no checkpoint in it, or an address names no
            run.
        CheckpointError: there is no checkpoint that can be read, or the bucket cannot be reached.
    """
    if str(source).startswith("s3://"):
        from nitro_learner.run.bucket import RunBucket  # the client of S3 takes a second to import

        with tempfile.TemporaryDirectory() as copy:
            address = f"{str(source).rstrip('/')}/checkpoints/{BEST}" if best else str(source)
            file = RunBucket.copied(address, RunDir(Path(copy)))
            if file is None:
                raise without_best(str(source)) if best else _without_checkpoint(str(source))
            return _policy(_read(file), seed)
    path = Path(source)
    if not path.exists():
        raise NoCheckpointError(f"{path} does not exist. Name a run folder, or a checkpoint file of it.")
    if path.is_file():
        if best:
            raise NoCheckpointError(f"{path} is a file. The best policy is that of a run: name its folder.")
        if (exported := read_exported(path, seed)) is not None:
            return exported
        return _policy(_read(path), seed)
    store = CheckpointStore(RunDir(path).checkpoints, keep_last=1)
    if best:
        if not (store.directory / BEST).exists():
            raise without_best(str(path))
        return _policy(_read(store.directory / BEST), seed)
    checkpoint = store.latest(attached=False, only=[_PLAYED])
    if checkpoint is None:
        raise _without_checkpoint(str(path))
    return _policy(checkpoint, seed)


def _read(file: Path) -> Checkpoint:
    return load_checkpoint(file, attached=False, only=[_PLAYED])


def _without_checkpoint(name: str) -> NoCheckpointError:
    return NoCheckpointError(
        f"{name}: no checkpoint in it. Name a run that has one, or a checkpoint file of it."
    )


def _policy(checkpoint: Checkpoint, seed: int | None) -> TrainedPolicy:
    return TrainedPolicy(checkpoint.state[_PLAYED], checkpoint.round, seed)
