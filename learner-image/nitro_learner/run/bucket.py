"""Runs kept in a bucket: after every checkpoint the run's folder is copied there, and a learner that starts
on an empty disk takes it from there.

A checkpoint is uploaded last, so the bucket's metrics and ledger never know less than its newest checkpoint.
S3 replaces an object at once or not at all, like a rename in a file system.
"""

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from nitro_api.spec.checkpoint import CheckpointBucket
from nitro_api.spec.lambda_backend import CREDENTIAL_KEYS
from nitro_learner.checkpoints.files import BEST
from nitro_learner.checkpoints.store import CheckpointError, CheckpointStore, NoCheckpointError
from nitro_learner.run.rundir import RunDir

logger = logging.getLogger(__name__)

# botocore's standard mode waits between tries for a random time that grows.
_CLIENT = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 5})
_PARTIAL = ".partial"
_MISSES = 5
"""Checkpoints in a row that the bucket may miss, where it also misses them for _PATIENCE_SECONDS."""
_PATIENCE_SECONDS = 600.0
"""Time for somebody to replace credentials that are no longer accepted. A learner that ends earlier has lost
what it has trained, and the next one, with the same credentials, could not even begin."""
_OWN_RUN = (
    "Check spec.learner.checkpoint.s3, its credentials and the bucket's policy; the run goes on from its "
    "last checkpoint there."
)
_OTHER_RUN = (
    "Check the address, spec.learner.checkpoint.s3 with its credentials, by which it is reached, and the "
    "bucket's policy."
)
_NO_JOB = (
    "Check the address, the credentials, region and endpoint that boto3 finds, such as AWS_ACCESS_KEY_ID, "
    "AWS_DEFAULT_REGION and AWS_ENDPOINT_URL, and the bucket's policy."
)


class BucketError(CheckpointError):
    """The bucket cannot be read or written now. The run can go on later from what it holds."""


class NoRunAddressError(BucketError, NoCheckpointError):
    """An address names no bucket and run."""


class RunBucket:
    """The place of one run in a bucket.

    Args:
        where: spec.learner.checkpoint.s3.
        run: name of the run's own folder there.
        remedy: what to check where the bucket cannot be reached.

    Credentials are those of the Secret that the job names. The kubelet keeps its present contents in files of
    the folder NITRO_S3_CREDENTIALS, which are read before each use of the bucket. Without these files they
    come from NITRO_S3_AWS_ACCESS_KEY_ID and so on, and without those boto3 looks for credentials.

    Raises:
        BucketError: the credentials are incomplete, or the endpoint is no URL.
    """

    def __init__(self, where: CheckpointBucket, run: str, remedy: str = _OWN_RUN) -> None:
        self._remedy = remedy
        self._where = where
        self._keys: dict[str, str | None] | None = None
        self._best: int | None = None  # when the file of the best policy was written that is in the bucket
        self.bucket = where.bucket
        self.prefix = str(PurePosixPath(where.prefix or "") / run) + "/"
        with self._reached("read"):
            pass  # wrong settings are refused at once

    @classmethod
    def copied(cls, address: str, folder: RunDir, own: CheckpointBucket | None = None) -> Path | None:
        """Copy job and checkpoint from an address into an empty folder, and return the checkpoint's file, if
        there is one: the newest of s3://BUCKET/PREFIX/RUN, or s3://BUCKET/PREFIX/RUN/checkpoints/FILE.

        Raises:
            NoRunAddressError: as `at`.
            BucketError: the bucket cannot be read.
        """
        run, _, name = address.rpartition(f"/{folder.checkpoints.name}/")
        if not run or not name.endswith(".safetensors"):  # a folder of the prefix may have the same name
            run, name = address, ""
        cls.at(run, own)._copy_checkpoint(folder, name)
        return next(folder.checkpoints.glob("*.safetensors"), None)

    @classmethod
    def at(cls, address: str, own: CheckpointBucket | None = None) -> Self:
        """The place of the run s3://BUCKET/PREFIX/RUN, reached as another bucket is.

        Args:
            own: the other bucket; without it, boto3 looks for the region and the endpoint.

        Raises:
            NoRunAddressError: the address names no bucket and run, or a bucket that S3 cannot have.
            BucketError: as above.
        """
        bucket, *folders = address.removeprefix("s3://").rstrip("/").split("/")
        if not folders or "" in (bucket, *folders):
            raise NoRunAddressError(f"{address}: the address of a run is s3://BUCKET/PREFIX/RUN")
        run = folders.pop()
        try:
            where = CheckpointBucket(
                bucket=bucket,
                prefix="/".join(folders) or None,
                region=own.region if own else None,
                endpoint_url=own.endpoint_url if own else None,
            )
        except ValidationError as error:
            raise NoRunAddressError(
                f"{address}: the address of a run is s3://BUCKET/PREFIX/RUN; its bucket or prefix is wrong: "
                f"{error.errors()[0]['msg']}"
            ) from None
        return cls(where, run, _OTHER_RUN if own else _NO_JOB)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def restore(self, folder: RunDir) -> None:
        """Copy the run, the checkpoints last, into a folder without a checkpoint.

        Such a folder is empty, or an earlier copy into it was interrupted. A folder with a checkpoint stays
        as it is.

        Raises:
            BucketError: the bucket cannot be read.
        """
        if CheckpointStore(folder.checkpoints, keep_last=1).rounds():
            return
        checkpoints = folder.checkpoints.relative_to(folder.path).parts[0]
        with self._reached("read"):
            names = sorted(self._names(), key=lambda name: (name.startswith(checkpoints), name))
            self._download(names, folder)

    def _copy_checkpoint(self, folder: RunDir, name: str) -> None:
        """Copy the run's job and the checkpoint of that name, else the newest, without what is attached."""
        job, checkpoints = (str(path.relative_to(folder.path)) for path in (folder.job, folder.checkpoints))
        with self._reached("read"):
            names = self._names()
            rounds = [name for name in names if name.startswith(f"{checkpoints}/round-")]
            newest = sorted(rounds, key=lambda name: (len(name), name))[-1:]
            wanted = [f"{checkpoints}/{name}"] if name else newest
            self._download([name for name in [job, *wanted] if name in names], folder)

    def beside(self, begin: str) -> dict[str, float]:
        """The runs in the same place whose folders' names begin so, each with the time of its newest
        checkpoint. Unix seconds.

        Raises:
            BucketError: the bucket cannot be read.
        """
        place = self.prefix[: self.prefix.rstrip("/").rfind("/") + 1]
        newest: dict[str, float] = {}
        with self._reached("read"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=place + begin
            )
            for item in (item for page in pages for item in page.get("Contents", [])):
                run, _, name = item["Key"].removeprefix(place).partition("/")
                if name.startswith("checkpoints/round-"):
                    newest[run] = max(newest.get(run, 0.0), item["LastModified"].timestamp())
        return newest

    def _download(self, names: Sequence[str], folder: RunDir) -> None:
        for name in names:
            path = folder.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}{_PARTIAL}")
            self._s3.download_file(self.bucket, self.prefix + name, str(temporary))
            temporary.replace(path)

    def keep(self, folder: RunDir, *, ended: bool = False) -> None:
        """Copy what a resumed run needs, the checkpoints last, and remove old checkpoints from the bucket.

        If the run has ended, everything is copied.

        Raises:
            BucketError: the bucket cannot be written.
        """
        local = {str(path.relative_to(folder.path)): path for path in _files(folder.path)}
        checkpoints = folder.checkpoints.relative_to(folder.path).parts[0]
        if not ended:  # logs and TensorBoard's events grow: no copy with every checkpoint
            files = (folder.job, folder.metrics, folder.policies, folder.sharing, folder.ledger)
            needed = {path.name for path in files}
            local = {n: p for n, p in local.items() if n in needed or n.startswith(checkpoints)}
        with self._reached("written"):
            there = self._names()
            for name in sorted(local, key=lambda name: (name.startswith(checkpoints), name)):
                # The checkpoints of rounds never change, so one that is in the bucket is not copied again.
                written = local[name].stat().st_mtime_ns if name == f"{checkpoints}/{BEST}" else None
                if name.startswith(checkpoints) and name in there and written in (None, self._best):
                    continue
                self._s3.upload_file(str(local[name]), self.bucket, self.prefix + name)
                self._best = written or self._best
            gone = {name for name in there - local.keys() if name.startswith(checkpoints)}
            for name in sorted(gone):
                self._s3.delete_object(Bucket=self.bucket, Key=self.prefix + name)

    def store(self, folder: RunDir, keep_last: int) -> CheckpointStore:
        """The checkpoints of the folder; each one that is saved is copied to the bucket, too."""
        return _BucketCheckpoints(folder, keep_last, self)

    def _names(self) -> set[str]:
        """The names of this run's objects, without their prefix.

        Objects that name no file are left out, such as the empty ones that stand for folders in Amazon's
        console.
        """
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix)
        keys = (item["Key"] for page in pages for item in page.get("Contents", []))
        names = (key.removeprefix(self.prefix) for key in keys)
        return {name for name in names if not {"", ".", ".."} & set(name.split("/"))}

    @contextlib.contextmanager
    def _reached(self, verb: str) -> Iterator[None]:
        """Use the bucket with the present credentials, and explain its errors."""
        try:
            keys = _present_keys()
            if keys != self._keys:
                s3 = self._where
                self._s3 = boto3.client(
                    "s3", region_name=s3.region, endpoint_url=s3.endpoint_url, config=_CLIENT, **keys
                )
                self._keys = keys
            yield
        except (BotoCoreError, ClientError, OSError, ValueError, boto3.exceptions.Boto3Error) as error:
            raise BucketError(f"{self}: the run could not be {verb} ({error}). {self._remedy}") from error


class _BucketCheckpoints(CheckpointStore):
    def __init__(self, folder: RunDir, keep_last: int, bucket: RunBucket) -> None:
        super().__init__(folder.checkpoints, keep_last)
        self._folder = folder
        self._bucket = bucket
        self._misses = 0
        self._missing_since: float | None = None

    def save(self, round: int, state: Mapping[str, Any]) -> Path:
        path = super().save(round, state)
        try:
            self._bucket.keep(self._folder)
        except BucketError as error:
            # The next checkpoint copies what this one could not. A bucket that stays unreachable ends the
            # run, because nothing of the run would outlive the pod. Round 0 holds another run's policies.
            # After its checkpoint is reported, the operator no longer tells a new pod where that run is.
            self._misses += 1
            self._missing_since = self._missing_since or time.monotonic()
            lasting = time.monotonic() - self._missing_since >= _PATIENCE_SECONDS
            if (lasting and self._misses >= _MISSES) or round == 0:
                raise
            logger.warning("%s", error)
            self.missed = str(error)
        else:
            self._misses, self._missing_since, self.missed = 0, None, None
        return path


def _present_keys() -> dict[str, str | None]:
    """boto3's arguments with the credentials of the job's Secret; None where there are none."""
    folder = Path(os.environ.get("NITRO_S3_CREDENTIALS") or "/nonexistent")
    files = {name: folder / name for name in CREDENTIAL_KEYS}
    if any(file.exists() for file in files.values()):
        return {name.lower(): file.read_text() if file.exists() else None for name, file in files.items()}
    return {name.lower(): os.environ.get(f"NITRO_S3_{name}") for name in CREDENTIAL_KEYS}


def _files(folder: Path) -> Iterator[Path]:
    """The folder's files, without half-written and hidden ones."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith(".") and not path.name.endswith(_PARTIAL):
            yield path
