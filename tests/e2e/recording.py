"""A record of what a job, its actor pods and its Revision were seen to do."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from harness import SERVING, Cluster, Object, is_ready, of_component, phase_of, round_of
from kubernetes.dynamic.resource import Resource

MIN_SCALE = "autoscaling.knative.dev/min-scale"


@dataclass(frozen=True)
class Observation:
    """State after one change of a job's status or of its actor pods."""

    seconds: float
    round: int
    requested: int
    granted: int
    ready: int
    """status.actors.ready."""
    pods: int
    """Actor pods that exist and are not being deleted."""
    running: int
    """Of these, the ready ones, seen from the pods."""
    phase: str


@dataclass
class Recording:
    """Everything seen, in order."""

    seen: list[Observation] = field(default_factory=list)
    scales: list[int] = field(default_factory=list)
    """Values of min-scale that the Revision had."""
    revisions: set[str] = field(default_factory=set)
    learner_pods: set[str] = field(default_factory=set)
    learner_jobs: set[str] = field(default_factory=set)
    """UIDs of the learner's Jobs."""

    def table(self) -> str:
        """Per finished round: request and grant for the next one, and the most pods until that one ended."""
        rounds: dict[int, list[Observation]] = {}
        for one in self.seen:
            rounds.setdefault(one.round, []).append(one)
        lines = ["seconds round requested granted ready pods"]
        for number, group in sorted(rounds.items()):
            last = group[-1]
            ready = max(one.running for one in group)
            pods = max(one.pods for one in group)
            lines.append(
                f"{group[0].seconds:7.1f} {number:5} {last.requested:9} {last.granted:7} {ready:5} {pods:4}"
            )
        return "\n".join(lines)


@contextlib.contextmanager
def recording(cluster: Cluster, namespace: str, name: str) -> Iterator[Recording]:
    """Record while the block runs."""
    recorder = _Recorder(cluster, namespace, name)
    try:
        yield recorder.recording
    finally:
        recorder.end = 0.0


class _Recorder:
    """One watching thread for each kind."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.recording = Recording()
        self.end = math.inf
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._job: Object = {}
        self._pods: list[Object] = []
        pod = cluster.kind("v1", "Pod")
        of_job = f"nitro.dev/job={name}"
        for kind, take, selector, only in (
            (cluster.jobs, self._take_job, None, name),
            (pod, self._take_pods, of_component(name, "actor"), None),
            (pod, self._take_learners, of_component(name, "learner"), None),
            (cluster.kind("batch/v1", "Job"), self._take_jobs, of_job, None),
            (cluster.kind(SERVING, "Revision"), self._take_revisions, of_job, None),
        ):
            arguments = (cluster, namespace, kind, take, selector, only)
            threading.Thread(target=self._watch, args=arguments, daemon=True).start()

    def _watch(
        self,
        cluster: Cluster,
        namespace: str,
        kind: Resource,
        take: Callable[[list[Object]], None],
        selector: str | None,
        only: str | None,
    ) -> None:
        for items in cluster.follow(kind, namespace, end=lambda: self.end, selector=selector, name=only):
            if not self.end:
                return
            with self._lock:
                take(list(items.values()))

    def _take_job(self, found: list[Object]) -> None:
        self._job = found[0] if found else {}
        self._note()

    def _take_pods(self, found: list[Object]) -> None:
        self._pods = found
        self._note()

    def _take_learners(self, found: list[Object]) -> None:
        self.recording.learner_pods.update(pod["metadata"]["name"] for pod in found)

    def _take_jobs(self, found: list[Object]) -> None:
        self.recording.learner_jobs.update(one["metadata"]["uid"] for one in found)

    def _take_revisions(self, found: list[Object]) -> None:
        for one in found:
            self.recording.revisions.add(one["metadata"]["name"])
            scale = int((one["metadata"].get("annotations") or {}).get(MIN_SCALE, 0))
            if self.recording.scales[-1:] != [scale]:
                self.recording.scales.append(scale)

    def _note(self) -> None:
        actors = self._job.get("status", {}).get("actors") or {}
        alive = [pod for pod in self._pods if not pod["metadata"].get("deletionTimestamp")]
        self.recording.seen.append(
            Observation(
                seconds=time.monotonic() - self._began,
                round=round_of(self._job),
                requested=actors.get("requested") or 0,
                granted=actors.get("granted") or 0,
                ready=actors.get("ready") or 0,
                pods=len(alive),
                running=sum(is_ready(pod) for pod in alive),
                phase=phase_of(self._job),
            )
        )
