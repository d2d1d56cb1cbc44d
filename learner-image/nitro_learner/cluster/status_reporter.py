"""Reports of the run in the job's status.

A background thread sends the newest state: at once when actors are requested or needed, otherwise at most
every half second, and every few seconds as a heartbeat. Each report is one write, and all its values belong
to the same round. While the API server does not answer, the thread tries again with bounded back-off;
training goes on. If the job is gone, there is nobody to report to, and the training ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from nitro_api import JobSpec, JobStatus
from nitro_api.spec.learner_status import ACTORS_SILENT, CHECKPOINT_MISSED, ENVIRONMENT_FAULTY, ROLLOUTS_CUT
from nitro_learner.cluster.api import backoff
from nitro_learner.cluster.job import ApiUnavailable, JobClient, JobGone
from nitro_learner.cluster.job_mirror import JobMirror, JobWatch
from nitro_learner.cluster.report_fields import (
    PolicyStatus,
    ahead,
    checked,
    cut,
    history_entry,
    needs,
    present,
    progress,
    readable,
    request,
    rewound,
    sentence,
    spent,
    timestamp,
    worst,
)
from nitro_learner.training.round_report import Listener, Outcome, RoundReport, Row
from nitro_learner.training.stop import ENDED_BY

if TYPE_CHECKING:
    from nitro_api.costs.pod_use import PodUse
    from nitro_learner.run.checking.report import Report
    from nitro_learner.training.needs import ActorNeed
    from nitro_learner.training.sharing.toggles import Regrouping

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
"""Well below the ten seconds that the operator relies on."""

_PAUSE_SECONDS = 0.5
_HISTORY = 60


class StatusReporter(Listener):
    """Keep the learner's part of the status current, and round and time of status.checkpoint.

        with StatusReporter(client, job.get("status")) as reporter:
            reporter.starting(job.spec, round=0, version=0, actors=8)
            reporter.mirror.on_actors(lambda actors: backend.set_limit(actors.granted))
            ...                                         # the trainer calls its listeners
            reporter.conclude("Succeeded", outcome.reason, outcome.message)

    Args:
        previous: the status that an earlier pod left. It stays until there is something newer.

    Attributes:
        mirror: what the operator and the user write in the job.
        faulty: whether the environment had a fault when an earlier pod had it checked.
    """

    def __init__(self, client: JobClient, previous: Mapping[str, Any] | None) -> None:
        self.mirror = JobMirror()
        self._client = client
        self._watch = JobWatch(client, self.mirror)
        before = JobStatus.model_validate(previous or {}).to_dict()
        left = before.get("training", {})
        self._history: deque[dict[str, Any]] = deque(left.pop("history", []), maxlen=_HISTORY)
        kept = {name: value for name, value in left.items() if name not in ("updatedAt", "reason", "message")}
        self.faulty = kept.get("check") == ENVIRONMENT_FAULTY
        self._pods = "neededAt" in left  # whether the actors are pods, which sleep while nobody needs them
        self._training: dict[str, Any] = kept | {"state": "Running"} | self._idle()
        self._progress: dict[str, Any] = _not_going_on(before.get("progress", {}))
        self._cost: dict[str, float] = before.get("cost", {})
        saved = before.get("checkpoint", {})
        self._checkpoint = {name: saved[name] for name in ("round", "savedAt") if name in saved}
        self._policies = PolicyStatus(before)
        self._best: float | None = None
        self._troubles: dict[str, str] = {}
        self._changed = threading.Condition()
        self._version, self._sent = 0, -1
        self._timeout, self._urgent = 0, False
        self._closing_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def __enter__(self) -> StatusReporter:
        self._thread.start()
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close(5.0)

    def close(self, seconds: float) -> None:
        """Send what is not sent yet, for at most so many seconds, and end both threads."""
        self._watch.stop()
        with self._changed:
            if self._closing_at is None:
                self._closing_at = time.monotonic() + seconds
            self._changed.notify()
        self._thread.join(seconds + 15)

    # Events of the training

    def found_former(self, folder: str | None) -> None:
        """Report which older run of the job's name is beside the run that begins, if there is one."""
        self._update(formerRun=folder)

    def starting(self, spec: JobSpec, *, round: int, version: int, actors: int) -> None:
        """Report the start, before there are actors: the operator has to know how many are requested.

        Later versions need the rollouts' size and whether the rate falls, because their defaults may differ.
        `version` is that of the weights.
        """
        with self._changed:
            if self._training.get("round") != round:
                self._rewind(round)
            self._policies.starting(spec.sharing)
            self._pods = spec.backend.type == "Knative"
            self._timeout = spec.actor.timeout_seconds
            self._update(
                round=round,
                weightsVersion=version,
                rolloutLength=spec.environment.rollout_length,
                envsPerActor=spec.environment.envs_per_actor,
                learningRateAnneal=spec.algorithm.anneals,
                **request(actors),
                **self._idle(),
            )

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        with self._changed:
            # metrics.csv does not say how many slots found a ready actor; an earlier pod's report does.
            ready = {entry["round"]: entry.get("ready") for entry in self._history}
            self._history.clear()
            for row in history:
                self._take(row, ready=ready.get(row["round"]))
            self._update(round=round)

    def on_round_requested(self, *, round: int, actors: int) -> None:  # noqa: ARG002
        self._update(**request(actors))

    def on_need_changed(self, need: ActorNeed) -> None:
        if self._pods:
            self._update(**needs(need.now, need.later))

    def _idle(self) -> dict[str, Any]:
        return needs(0) if self._pods else {}

    def on_round_done(self, report: RoundReport) -> None:
        with self._changed:
            self._policies.played(report.policies)
            if (late := cut(report, self._timeout)) or ROLLOUTS_CUT in self._troubles:
                self._report_trouble(ROLLOUTS_CUT, late)
            if report.counters.forecast is not None:
                self._progress = ahead(report.counters.forecast)
            busy = {"busySeconds": round(report.counters.work.seconds, 1)}
            more = {"weightsVersion": report.counters.weights_version, **request(report.next_actors)}
            self._take(report.row(), ready=report.ready, pods=report.counters.pods, **busy, **more)

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        with self._changed:
            self._policies.regrouped(regrouping)
            self._update(weightsVersion=regrouping.version)

    def actors_silent(self, trouble: str | None) -> None:
        """Report why no actor has answered yet; None when one has."""
        self._report_trouble(ACTORS_SILENT, trouble)

    def on_checkpoint_saved(self, *, round: int, location: str) -> None:  # noqa: ARG002  the operator knows the place
        with self._changed:
            self._checkpoint = {"round": round, "savedAt": timestamp()}
            if CHECKPOINT_MISSED in self._troubles:
                self._report_trouble(CHECKPOINT_MISSED, None)
            self._update()

    def on_checkpoint_missed(self, *, round: int, why: str) -> None:
        lacking = f"the checkpoint of round {round} is not in the bucket"
        self._report_trouble(CHECKPOINT_MISSED, f"{lacking}. {why}")

    def environment_checked(self, report: Report) -> None:
        """Report what the check of the environment has found."""
        self._update(**checked(report))

    def conclude(self, state: str, reason: str, message: str) -> None:
        """Report the end as the learner sees it: Succeeded or Failed, or Running when another pod goes on."""
        with self._changed:
            self._progress = _not_going_on(self._progress)
            if state == "Succeeded":
                self._progress = {"percent": 100.0, "by": ENDED_BY.get(reason), "etaSeconds": 0}
            self._update(state=state, reason=reason, message=sentence(message), **self._idle())

    def on_run_ended(self, outcome: Outcome) -> None:
        with self._changed:
            # The operator charges what the last pods really take; until then their drain is an estimate.
            self._spend(outcome.cost.learner, outcome.cost.actors - outcome.estimated, outcome.pods)
            self._cost |= {"estimated": round(outcome.estimated, 6)} if outcome.estimated else {}
            self._training["busySeconds"] = round(outcome.work.seconds, 1)
            if outcome.evaluation:  # the final policy's; no round reports it
                self._training["evaluationMean"] = readable(fmean(outcome.evaluation), 3)
            self.conclude("Succeeded" if outcome.finished else "Running", outcome.reason, outcome.message)

    def _report_trouble(self, reason: str, message: str | None) -> None:
        """Report what is wrong while the run goes on; None when it is over. Of several the worst is told."""
        with self._changed:
            if message is None:
                self._troubles.pop(reason, None)
            else:
                self._troubles[reason] = sentence(message)
            self._update(**worst(self._troubles))

    def _rewind(self, round: int) -> None:
        """Remove what an earlier pod reported of rounds after the checkpoint, which are done again."""
        while self._history and self._history[-1]["round"] > round:
            self._history.pop()
        last = self._history[-1] if self._history and self._history[-1]["round"] == round else {}
        self._training |= rewound(last)
        self._progress = {}

    def _take(
        self, row: Mapping[str, Any], *, ready: int | None = None, pods: PodUse | None = None, **more: Any
    ) -> None:
        """Take over a finished round, the slots that found a ready actor, and more of status.training."""
        reward = row["reward_mean"]
        if reward is not None:
            self._best = reward if self._best is None else max(self._best, reward)
        with self._changed:
            self._history.append(history_entry(row, ready))
            self._spend(float(row["cost_learner"]), float(row["cost_actors"]), pods)
            self._update(**progress(row), rewardBest=readable(self._best, 3), **more)

    def _spend(self, learner: float, actors: float, pods: PodUse | None = None) -> None:
        """Take over the run's cost so far, and what of its pods that pays; the caller holds the lock."""
        self._cost = spent(self._cost, learner, actors, pods)

    def _update(self, **fields: Any) -> None:
        with self._changed:
            self._training |= fields
            self._version += 1
            if fields.keys() & {"requests", "needsNow", "state"}:
                self._urgent = True
            self._changed.notify()

    # The thread

    def _run(self) -> None:
        sent_at, failures = float("-inf"), 0
        while True:
            with self._changed:
                now = time.monotonic()
                dirty = self._version != self._sent
                closing = self._closing_at
                if self.mirror.gone or (closing is not None and (not dirty or now >= closing)):
                    return
                due = sent_at + (_PAUSE_SECONDS if dirty else HEARTBEAT_SECONDS)
                send = (dirty and (self._urgent or closing is not None)) or now >= due
                if not send:
                    self._changed.wait(due - now)
                    continue
                version, body = self._version, self._body()
                self._urgent = False
            try:
                self._client.apply_status(body)
                failures = 0
            except JobGone as error:
                self.mirror.lose(error)
                return
            except ApiUnavailable as error:
                failures += 1
                if failures == 1 or failures % 20 == 0:
                    logger.warning("the status was not reported (try %d): %s", failures, error)
                self._back_off(failures)
                continue
            sent_at, self._sent = time.monotonic(), version

    def _back_off(self, failures: int) -> None:
        """Wait before the next try; the end of the run shortens the pause."""
        pause = backoff(failures)
        with self._changed:
            if (closing := self._closing_at) is not None:
                pause = max(0.0, min(pause, 0.5, closing - time.monotonic()))
        time.sleep(pause)

    def _body(self) -> dict[str, Any]:
        training = present(self._training) | {"updatedAt": timestamp()}
        if self._history:
            training["history"] = list(self._history)
        body: dict[str, Any] = {"training": training, **self._policies.body()}
        if self._progress:
            body["progress"] = present(self._progress)
        if self._cost:
            body["cost"] = dict(self._cost)
        if self._checkpoint:
            body["checkpoint"] = dict(self._checkpoint)
        return body


def _not_going_on(progress: Mapping[str, Any]) -> dict[str, Any]:
    """status.progress of a run that stands still: nobody knows when it goes on."""
    return {name: value for name, value in progress.items() if name != "etaSeconds"}
