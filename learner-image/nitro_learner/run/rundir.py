"""The run folder: job.yaml, metrics.csv, ledger.jsonl, log.jsonl, actors.log, summary.json, result.png,
checkpoints/ and tensorboard/. A run of several agents has policies.csv and sharing.jsonl as well. The folder
checkpoints/attachments/ has what many checkpoints share: a replay buffer's rounds. A run that began with the
policies of another one (`nitro train --from`) has start.json, and one with parts of the user's own own.json.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import yaml

from nitro_learner.checkpoints import files
from nitro_learner.run import folders

EXPERIMENT = "experiment.yaml"
"""The file by which the folder of an experiment is known."""


class RunDirError(Exception):
    """The run folder cannot be used; the message says why and what to do."""


class RunDirBusy(RunDirError):  # noqa: N818
    """Another learner is training in the folder."""


class OtherJob(RunDirError):  # noqa: N818
    """The folder holds a run of another job."""


@contextmanager
def naming(what: Path | str) -> Iterator[None]:
    """Add the name of the file to an OSError of the block: the error of a full disk has none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(what)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically, also if the machine loses its power."""
    temporary = path.with_name(f".{path.name}.partial")
    with naming(path):
        files.replace(path, temporary, text.encode())


class RunDir:
    """Paths of one run, and its small files: the job and the summary."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job = path / "job.yaml"
        self.metrics = path / "metrics.csv"
        self.policies = path / "policies.csv"
        self.sharing = path / "sharing.jsonl"
        self.ledger = path / "ledger.jsonl"
        self.log = path / "log.jsonl"
        self.actors = path / "actors.log"
        self.start = path / "start.json"
        self.own = path / "own.json"
        self.summary = path / "summary.json"
        self.plot = path / "result.png"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"

    @classmethod
    def fresh(cls, base: Path, name: str) -> Self:
        """A new folder base/NAME-DATE-TIME; a second run in the same second gets a suffix."""
        stem = f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
        for suffix in ("", *(f"-{number}" for number in range(2, 100))):
            path = base / f"{stem}{suffix}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            return cls(path)
        raise RunDirError(f"{base}: no free name for {stem}")

    @contextmanager
    def locked(self, instead: str = "choose another folder") -> Iterator[None]:
        """Keep a second learner out of the folder while the context is open; the lock ends with the process,
        however that dies.

        Args:
            instead: what the user of a second one can do besides waiting.

        Raises:
            RunDirBusy: another learner holds it.
        """
        busy = RunDirBusy(
            f"{self.path}: another nitro process is training in this folder. Wait for it, or {instead}."
        )
        with folders.held(folders.mark(self.path), busy):
            yield

    def is_ours(self) -> bool:
        """Whether `nitro` made what is in the folder. A run that was copied without hidden files
        is recognised by its checkpoints."""
        return folders.is_marked(self.path) or any(self.checkpoints.glob("round-*.safetensors"))

    def check_ours(self, instead: str) -> None:
        """Make sure that no job of the user's own is taken for that of a run to go on with.

        Args:
            instead: what trains that job.

        Raises:
            RunDirError: nitro did not write job.yaml.
        """
        if not self.is_ours():
            raise RunDirError(
                f"{self.path} holds no run to resume: nitro did not write its job.yaml. Nothing was changed. "
                f"To train that job: {instead}"
            )

    def check_free(self) -> None:
        """Make sure that a new run overwrites no other files.

        Raises:
            RunDirError: the folder holds something other than a run, or is a file.
        """
        if self.path.is_file():
            raise RunDirError(f"{self.path} is a file. Name a folder that is new or empty.")
        if (self.path / EXPERIMENT).exists():  # such a folder has the same mark as a run's
            raise RunDirError(
                f"the folder holds an experiment ({EXPERIMENT}). Nothing was changed. Name a folder that is "
                "new or empty."
            )
        if not self.is_ours() and (names := folders.contents(self.path)):
            raise RunDirError(
                f"the folder holds something else than a run of nitro ({folders.shown(names)}). Nothing was "
                "changed. Name a folder that is new or empty."
            )

    def discard(self) -> None:
        """Remove the files of a run that could not begin."""
        for directory in (self.checkpoints, self.tensorboard):
            shutil.rmtree(directory, ignore_errors=True)
        lock = self.path / folders.LOCK
        printed = self.path.glob(f"{self.actors.name}*")
        files = (
            self.job,
            self.metrics,
            self.policies,
            self.sharing,
            self.ledger,
            self.log,
            self.start,
            self.own,
            self.summary,
            self.plot,
        )
        for path in (*files, *printed, lock):
            path.unlink(missing_ok=True)

    def has_run(self) -> bool:
        """Whether the folder holds anything of a run: a round, a checkpoint, or a cost. Without them it
        holds at most a job that failed before it began."""
        rows = self.metrics.read_bytes().splitlines()[1:] if self.metrics.exists() else []
        paid = self.ledger.exists() and self.ledger.stat().st_size > 0
        return bool(rows) or paid or any(self.checkpoints.glob("round-*.safetensors"))

    def read_job(self) -> dict[str, Any]:
        """What job.yaml says, as it stands there: environment, algorithm and scaling at least.

        Raises RunDirError where it is missing or damaged.
        """
        if not self.job.exists():
            raise RunDirError(f"{self.path}: no job.yaml in it, so it is no run folder.")
        try:
            job = yaml.safe_load(self.job.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError):
            job = None
        spec = job.get("spec") if isinstance(job, dict) else None
        if not isinstance(spec, dict) or not {"environment", "algorithm", "scaling"} <= spec.keys():
            raise RunDirError(f"{self.job} is damaged: it holds no job.")
        return dict(job)

    def read_start(self) -> dict[str, Any]:
        """What start.json says of the run that this one began with: from, run and round; else empty.

        Raises RunDirError where it is damaged.
        """
        start = self._read_object(self.start)
        if start and not {"from", "run", "round"} <= start.keys():
            raise RunDirError(f"{self.start} is damaged: it names no run.")
        return start

    def read_own(self) -> dict[str, Any]:
        """What own.json says of the user's own parts, the digest of each one's files; else empty."""
        return self._read_object(self.own)

    def read_summary(self) -> dict[str, Any]:
        """What summary.json says; empty while the run has not ended, or when it was broken off.

        Raises RunDirError where it is damaged.
        """
        summary = self._read_object(self.summary)
        if type(summary.get("rounds", 0)) is not int:
            raise RunDirError(f"{self.summary} is damaged: it holds no summary.")
        return summary

    def _read_object(self, path: Path) -> dict[str, Any]:
        if not path.exists():
            return {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RunDirError(f"{path} is damaged: {error}.") from None
        if not isinstance(content, dict):
            raise RunDirError(f"{path} is damaged: it holds no {path.stem}.")
        return content

    def write_summary(self, summary: dict[str, Any]) -> None:
        write_text(self.summary, json.dumps(summary, indent=2) + "\n")
