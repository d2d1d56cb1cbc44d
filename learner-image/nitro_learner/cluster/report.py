"""Reports the run in the job's status, and has what stands there looked at.

A background thread sends the newest state, never an older one: at once when actors are requested, else at
most every half second, and at least every few seconds as a heartbeat, whatever the training is doing. While
the API server is away it tries again with bounded back-off, and the training goes on.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from nitro_api.status import ACTORS_SILENT
from nitro_learner.cluster.job import ApiUnavailable, JobClient, JobGone
from nitro_learner.cluster.seen import Seen
from nitro_learner.report import Listener, Outcome, RoundReport, Row

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
"""Well below the ten seconds that the operator is promised."""

_PAUSE_SECONDS = 0.5
_POLL_SECONDS = 1.0
# While the operator has not answered a request for more actors, its answer is looked for more often.
_EAGER_POLL_SECONDS = 0.1
_EAGER_SECONDS = 5.0
_BACKOFF_SECONDS = (0.5, 8.0)
# An API server that has just started may not know the kind yet; a job that is gone for longer hears no end.
_GONE_SECONDS = 20.0
_HISTORY = 60


class StatusReporter(Listener):
    """Keeps status.training, status.cost, and round and time of status.checkpoint current.

        with StatusReporter(client, job.get("status")) as reporter:
            reporter.starting(round=0, actors=8)
            reporter.seen.on_actors(lambda granted, ready: backend.set_limit(granted))
            ...                                         # it listens to the trainer
            reporter.conclude("Succeeded", outcome.reason, outcome.message)

    Args:
        client: of the job.
        previous: the status that an earlier pod left. It stays until there is something newer.

    Attributes:
        seen: what the operator and the user say in the job.
    """

    def __init__(self, client: JobClient, previous: Mapping[str, Any] | None) -> None:
        self.seen = Seen()
        self._client = client
        left = dict((previous or {}).get("training") or {})
        self._history: deque[dict[str, Any]] = deque(left.pop("history", []), maxlen=_HISTORY)
        ended = ("updatedAt", "reason", "message")
        self._training = {name: value for name, value in left.items() if name not in ended} | {
            "state": "Running"
        }
        self._cost: dict[str, float] = dict((previous or {}).get("cost") or {})
        saved = (previous or {}).get("checkpoint") or {}
        self._checkpoint = {name: saved[name] for name in ("round", "savedAt") if name in saved}
        self._best: float | None = None
        self._changed = threading.Condition()
        self._version = 0
        self._sent = -1
        self._urgent = False
        self._eager_until = 0.0
        self._closing_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def __enter__(self) -> StatusReporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close(5.0)

    def close(self, seconds: float) -> None:
        """Sends what is unsent, for at most so many seconds, and ends the thread."""
        with self._changed:
            if self._closing_at is None:
                self._closing_at = time.monotonic() + seconds
            self._changed.notify()
        self._thread.join(seconds + 15)

    # What the training tells

    def starting(self, *, round: int, actors: int) -> None:
        """Before the actors are there: the operator has to know how many are wanted."""
        self._update(round=round, weightsVersion=round, requestedActors=actors, requestedAt=_now())

    def started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        with self._changed:
            self._history.clear()
        for row in history:
            self._take(row)
        self._update(round=round, weightsVersion=round)

    def requested(self, *, round: int, actors: int) -> None:  # noqa: ARG002
        self._update(requestedActors=actors, requestedAt=_now())

    def round_done(self, report: RoundReport) -> None:
        self._take(report.row())

    def actors_silent(self, trouble: str | None) -> None:
        """That no actor has answered yet, and why; None when one has."""
        if trouble is not None:
            self._update(reason=ACTORS_SILENT, message=trouble[:1000])
        else:
            self._update(reason=None, message=None)

    def checkpointed(self, *, round: int, location: str) -> None:  # noqa: ARG002  the operator knows the place
        with self._changed:
            self._checkpoint = {"round": round, "savedAt": _now()}
        self._update()

    def conclude(self, state: str, reason: str, message: str) -> None:
        """The end, as the learner sees it: Succeeded or Failed, or Running when another pod goes on."""
        self._update(state=state, reason=reason, message=message[:1000])

    def ended(self, outcome: Outcome) -> None:
        self._spend(outcome.cost.learner, outcome.cost.actors)
        state = "Succeeded" if outcome.finished else "Running"
        self.conclude(state, outcome.reason, outcome.message)

    def _take(self, row: Mapping[str, Any]) -> None:
        reward = row["reward_mean"]
        if reward is not None:
            self._best = reward if self._best is None else max(self._best, reward)
        entry = {
            "round": int(row["round"]),
            "rewardMean": _readable(reward, 3),
            "score": _readable(row["boosting_score"], 4),
            "actors": int(row["actors"]),
            "cost": _readable(row["cost_total"], 6),
        }
        with self._changed:
            self._history.append(_present(entry))
        self._spend(float(row["cost_learner"]), float(row["cost_actors"]))
        evaluation = _present({"evaluationMean": _readable(row["evaluation_mean"], 3)})
        self._update(
            round=int(row["round"]),
            weightsVersion=int(row["round"]),
            envSteps=int(row["env_steps"]),
            rewardMean=_readable(reward, 3),
            rewardBest=_readable(self._best, 3),
            boostingScore=_readable(row["boosting_score"], 4),
            convexityRatio=row["convexity_ratio"],
            **evaluation,
        )

    def _spend(self, learner: float, actors: float) -> None:
        """Takes in the run's cost so far."""
        now = {"learner": learner, "actors": actors, "total": learner + actors}
        with self._changed:
            # Never back: rounds that a crash made the run do again were paid all the same.
            self._cost = {name: max(self._cost.get(name, 0.0), round(now[name], 6)) for name in now}

    def _update(self, **fields: Any) -> None:
        with self._changed:
            self._training |= fields
            self._version += 1
            if "requestedActors" in fields or "state" in fields:
                self._urgent = True
            self._changed.notify()

    # The thread

    def _run(self) -> None:
        sent_at = float("-inf")
        failures = 0
        gone_at = math.inf
        while True:
            with self._changed:
                now = time.monotonic()
                dirty = self._version != self._sent
                closing = self._closing_at
                if closing is not None and (not dirty or now >= min(closing, gone_at + _GONE_SECONDS)):
                    return
                due = sent_at + (_PAUSE_SECONDS if dirty else HEARTBEAT_SECONDS)
                send = (dirty and (self._urgent or closing is not None)) or now >= due
                if not send and self._changed.wait(min(due - now, self._poll_pause())):
                    continue
                version, body = self._version, self._body()
                self._urgent = False
            try:
                job = self._client.apply_status(body) if send else self._client.get()
                failures, gone_at = 0, math.inf
            except (ApiUnavailable, JobGone) as error:
                failures += 1
                gone_at = min(gone_at, time.monotonic()) if isinstance(error, JobGone) else math.inf
                if failures == 1 or failures % 20 == 0:
                    logger.warning("the status was not reported (try %d): %s", failures, error)
                self._back_off(failures)
                continue
            if send:
                sent_at, self._sent = time.monotonic(), version
                if body["training"].get("requestedActors") != self.seen.granted:
                    self._eager_until = sent_at + _EAGER_SECONDS
            self.seen.take(job)
            if self.seen.granted is not None and self.seen.granted == self._training.get("requestedActors"):
                self._eager_until = 0.0

    def _poll_pause(self) -> float:
        return _EAGER_POLL_SECONDS if time.monotonic() < self._eager_until else _POLL_SECONDS

    def _back_off(self, failures: int) -> None:
        """Full jitter below a doubling ceiling; the end of the run cuts it short."""
        first, most = _BACKOFF_SECONDS
        pause = random.uniform(0.1, min(most, first * 2 ** min(failures, 6)))
        with self._changed:
            closing = self._closing_at
            if closing is not None:
                pause = max(0.0, min(pause, 0.5, closing - time.monotonic()))
        time.sleep(pause)

    def _body(self) -> dict[str, Any]:
        training = _present(self._training) | {"updatedAt": _now()}
        if self._history:
            training["history"] = list(self._history)
        body: dict[str, Any] = {"training": training}
        if self._cost:
            body["cost"] = dict(self._cost)
        if self._checkpoint:
            body["checkpoint"] = dict(self._checkpoint)
        return body


def _readable(value: float | None, digits: int) -> float | None:
    """Rounded for `kubectl get`, which prints all that there is; metrics.csv has the exact value."""
    return None if value is None else round(value, digits)


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value; JSON has no word for NaN and infinity."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
