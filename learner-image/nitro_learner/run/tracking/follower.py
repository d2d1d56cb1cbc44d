"""The process of one tracker: it follows a run's folder and records the rounds that the learner names.

    python -m nitro_learner.run.tracking.follower TOLD

TOLD is a JSON object of `tracker`, `folder`, `run` and `tags`. On standard input the learner writes a line
for each checkpoint, {"round": N}, and one at the end, {"end": STATUS}. When the input ends without that, the
learner is gone. On standard output are lines {"opened": PLACE}, {"recorded": N}, {"failed": SENTENCE}, and at
the end {"finished": true}.

All that takes long or fails happens here, beside the training, in a library that the training never loads.
Nothing waits in a queue: rounds that could not be recorded are read again from the folder.
"""

import contextlib
import csv
import fcntl
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import yaml

from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.run import policy_files
from nitro_learner.run.policy_file import EXPORTED, policy_file
from nitro_learner.run.published import published_job
from nitro_learner.run.recorders import tag
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.tracking.base import MeasuredRound, TrackedRun, Tracker

_OF_POLICIES = tuple(name for name in policy_files.COLUMNS if name not in ("round", "policy", "agents"))
STUCK_SECONDS = 120.0
"""Longest time of one call of a tracker: then the process ends, and the learner starts another one."""
GONE_SECONDS = 10.0
"""The same after the learner is gone."""
LAST_TRIES = 3
"""After so many failures in a row, a run that has ended is not tried again."""
_LONGEST_PAUSE = 300.0


def final_figures(folder: RunDir) -> dict[str, float]:
    """Figures of the run's end: return of the final policy, and cost in US dollars."""
    summary = folder.read_summary()
    figures = {"final/cost": summary["cost"]["total"]}
    evaluation = summary.get("evaluation", {})
    figures |= {f"final/return_{name}": evaluation[name] for name in ("mean", "std") if name in evaluation}
    figures |= {f"final/agent/{name}": value for name, value in evaluation.get("agents", {}).items()}
    return {name: float(value) for name, value in figures.items()}


def write_policy(folder: RunDir, config: Mapping[str, Any], target: Path) -> list[Path]:
    """Write the final policy and its job, under the names that `nitro export --format hub` gives them.

    Raises:
        CheckpointError: all checkpoints are damaged.
    """
    checkpoint = CheckpointStore(folder.checkpoints, keep_last=1).latest(attached=False, only=["played"])
    assert checkpoint is not None, "a run that has finished has a checkpoint"
    job, policy = target / "job.yaml", target / EXPORTED
    job.write_text(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True), encoding="utf-8")
    policy.write_bytes(policy_file(checkpoint.state["played"], checkpoint.round))
    return [job, policy]


class Rounds:
    """Reads metrics.csv and policies.csv once, from their beginning, as far as it is told.

    Only rounds that a checkpoint has are asked for: their rows are whole, and no resume makes them again.
    """

    def __init__(self, folder: RunDir) -> None:
        self._metrics = _Rows(folder.metrics)
        self._policies = _Rows(folder.policies)

    def up_to(self, last: int, at: float) -> Iterator[MeasuredRound]:
        """The rounds up to `last` that were not returned yet, in order.

        `at` is the time at which `last` was done. Those before it were done earlier by the training time that
        lies between; time between two sittings of the run does not count.
        """
        rows = list(self._metrics.up_to(last))
        for row in rows:
            round = int(row["round"])
            values = {tag(name): float(value) for name, value in row.items() if name != "env_steps" and value}
            before = float(rows[-1]["wall_seconds"]) - float(row["wall_seconds"])
            for own in self._policies.up_to(round):
                measured = {name: float(own[name]) for name in _OF_POLICIES if own.get(name)}
                values |= {f"policy/{own['policy']}/{name}": value for name, value in measured.items()}
            yield MeasuredRound(round, int(row["env_steps"]), at - before, values)


class _Rows:
    """The rows of a CSV file that grows, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._head: list[str] = []

    def up_to(self, last: int) -> Iterator[dict[str, str]]:
        """The next rows, as far as their round is at most `last`. None where there is no file."""
        if self._file is None:
            if not self._path.exists():
                return
            self._file = self._path.open(encoding="utf-8")
            self._head = next(csv.reader([self._file.readline()]))
        while True:
            place = self._file.tell()
            line = self._file.readline()
            row = dict(zip(self._head, next(csv.reader([line]), ()), strict=False))
            if not line.endswith("\n") or int(row["round"]) > last:
                self._file.seek(place)
                return
            yield row


class Follower:
    """Follows one run for one tracker.

    Args:
        make: makes the tracker; it imports the tracker's library.
    """

    def __init__(
        self, name: str, run: TrackedRun, make: Callable[[TrackedRun], Tracker], out: TextIO
    ) -> None:
        self._name = name
        self._run = run
        self._make = make
        self._out = out
        self._folder = RunDir(run.folder)
        self._changed = threading.Condition()
        self._round = self._recorded = 0
        self._done_at = 0.0
        self._end: str | None = None
        self._gone = False
        self._tracker: Tracker | None = None
        self._lock: TextIO | None = None
        self._rounds: Rounds  # made with the tracker

    def listen(self, lines: TextIO) -> None:
        """Take in what the learner says, until it says no more."""
        for line in lines:
            said = json.loads(line)
            with self._changed:
                if said.get("round", 0) > self._round:
                    self._round, self._done_at = said["round"], time.time()
                self._end = said.get("end", self._end)
                self._changed.notify()
        with self._changed:
            self._gone = self._end is None
            self._changed.notify()
        if self._gone:
            self._limit(GONE_SECONDS)

    def follow(self) -> None:
        """Record rounds until the run has ended or the learner is gone."""
        with contextlib.suppress(Exception):  # it is made again later, and its failure told then
            self._make(self._run)  # its library loads for seconds, while the first round is trained
        failures = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._gone or self._end or self._round > self._recorded)
            try:
                if self._gone:
                    self._drop()
                    return
                self._record()
                if self._end:
                    self._finish(self._end)
                    self._say(finished=True)
                    return
                failures = 0
            except Exception as error:  # a library of others may raise anything
                self._drop()
                failures += 1
                self._say(failed=_sentence(error))
                if self._end and failures >= LAST_TRIES:
                    return
                self._pause(failures)

    def _record(self) -> None:
        if self._round == 0:
            return  # the run ended before its first checkpoint
        if self._tracker is None:
            with self._watched():
                self._wait_for_former()
                self._rounds = Rounds(self._folder)
                self._tracker = self._make(self._run)
                self._say(opened=self._tracker.open())
        with self._changed:
            last, at = self._round, self._done_at
        for measured in self._rounds.up_to(last, at):
            if self._gone:
                return
            with self._watched():
                self._tracker.record(measured)
        self._recorded = last
        self._say(recorded=last)

    def _wait_for_former(self) -> None:
        """Wait for an earlier process of this run and tracker: it may outlive its learner for a moment."""
        if self._lock is None:
            self._lock = (self._folder.path / f".{self._name}.lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _finish(self, status: str) -> None:
        if self._tracker is None:
            return
        with tempfile.TemporaryDirectory() as folder, self._watched():
            finished = status == "FINISHED"
            files = write_policy(self._folder, self._run.config, Path(folder)) if finished else []
            self._tracker.finish(status, final_figures(self._folder) if finished else {}, files)

    def _drop(self) -> None:
        """Let go of the tracker; the next one begins from what is recorded."""
        tracker, self._tracker = self._tracker, None
        self._recorded = 0
        if tracker is not None:
            with contextlib.suppress(Exception), self._watched():
                tracker.abandon()

    def _pause(self, failures: int) -> None:
        """Wait before the next try; the end of the run shortens the pause."""
        ended = self._end
        longest = 2.0 if ended else _LONGEST_PAUSE
        seconds = min(longest, 2.0**failures) * random.uniform(0.5, 1.0)
        with self._changed:
            self._changed.wait_for(lambda: self._gone or self._end != ended, seconds)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """End the process if the block takes too long."""
        timer = self._limit(STUCK_SECONDS)
        try:
            yield
        finally:
            timer.cancel()

    def _limit(self, seconds: float) -> threading.Timer:
        def stop() -> None:
            self._say(failed=f"no answer for {seconds:.0f} s")
            os._exit(1)

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        return timer

    def _say(self, **what: Any) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            print(json.dumps(what), file=self._out, flush=True)


def _sentence(error: Exception) -> str:
    """The first line of an error, for a log."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


def _maker(tracker: str) -> Callable[[TrackedRun], Tracker]:
    if tracker == "wandb":
        from nitro_learner.run.tracking.wandb_tracker import WandbTracker

        return WandbTracker
    from nitro_learner.run.tracking.mlflow_tracker import MlflowTracker

    return MlflowTracker


def main() -> None:
    # What libraries print must not come between the lines for the learner.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.nice(10)  # the training goes first
    told = json.loads(sys.argv[1])
    folder = RunDir(Path(told["folder"]))
    job = folder.read_job()
    run = TrackedRun(
        id=told["run"],
        name=job["metadata"]["name"],
        settings=job["spec"]["tracking"][told["tracker"]],
        config=published_job(job),
        tags=told["tags"],
        folder=folder.path,
        learner=os.getppid(),
    )
    follower = Follower(told["tracker"], run, _maker(told["tracker"]), out)
    threading.Thread(target=follower.listen, args=(sys.stdin,), daemon=True).start()
    follower.follow()
    # Libraries clean up when the process ends, but not for ever.
    last = threading.Timer(GONE_SECONDS, os._exit, (0,))
    last.daemon = True
    last.start()


if __name__ == "__main__":
    main()
