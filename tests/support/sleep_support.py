"""A job whose actors sleep, on a real API server: its learner's word, and what its status says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from cluster_support import Cluster
from kubelet_support import ASLEEP, Kubelet
from operator_support import Object, eventually, job

SCALING: Object = {"scaler": "fixed", "minActors": 4, "initialActors": 4, "maxActors": 4}


class Learner:
    """The word of a job's learner on what it needs, and its heartbeat. Use as a context manager."""

    def __init__(self, cluster: Cluster, name: str, **scaling: Any) -> None:
        self._cluster, self._name = cluster, name
        self._round = 0
        self._word: Object = {}
        self._said = threading.Lock()
        self._ends = threading.Event()
        self._heartbeat = threading.Thread(target=self._beat, daemon=True)
        cluster.apply(job(name, scaling=SCALING | scaling))
        cluster.start_learner(name)
        cluster.start_knative(name)
        eventually(lambda: cluster.status(name)["phase"] == "Running", what="phase Running")

    def __enter__(self) -> Learner:
        self._heartbeat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._heartbeat.join()

    def samples(self, actors: int = 4) -> None:
        self.says(needsNow=actors, needsLater=[])

    def updates(self, seconds: float = 1000.0, actors: int = 4, busy: int = 0) -> None:
        """Say that so many actors are needed after that time, and `busy` until then."""
        self._round += 1
        later = [{"afterSeconds": seconds, "actors": actors}]
        self.says(needsNow=busy, needsLater=later, round=self._round)

    def says(self, **word: Any) -> None:
        at = datetime.now(UTC).isoformat()
        found = {"neededAt": at, "requestedActors": 4, "state": "Running", "round": self._round}
        with self._said:
            self._word = found | word
            self._cluster.report(self._name, **self._word)

    def _beat(self) -> None:
        while not self._ends.wait(5):
            with self._said:
                if self._word:
                    self._cluster.report(self._name, **self._word)


def actors(cluster: Cluster, name: str) -> Object:
    found: Object = cluster.status(name)["actors"]
    return found


def addresses(cluster: Cluster, name: str) -> list[str]:
    return sorted(actors(cluster, name)["addresses"])


def states(cluster: Cluster, name: str) -> tuple[int, int, int]:
    found = actors(cluster, name)
    return found["awake"], found["asleep"], found["deferred"]


@contextmanager
def running(
    cluster: Cluster, name: str, *, container: Object | None = None, **scaling: Any
) -> Iterator[tuple[Learner, Kubelet]]:
    """A job with four actor pods whose learner has not said a word."""
    with Learner(cluster, name, **scaling) as learner, Kubelet(cluster, name) as kubelet:
        kubelet.start(4, container)
        yield learner, kubelet


@contextmanager
def sleeping(cluster: Cluster, name: str, **scaling: Any) -> Iterator[tuple[Learner, Kubelet]]:
    """A job of four actors, which have sampled and sleep."""
    with running(cluster, name, **scaling) as (learner, kubelet):
        learner.samples()
        eventually(lambda: addresses(cluster, name) == kubelet.addresses(), what="all awake")
        learner.updates()
        eventually(lambda: kubelet.cpus() == [ASLEEP] * 4, what="all asleep")
        yield learner, kubelet


def exhaust_quota(cluster: Cluster, hard: str, used: str) -> None:
    """The ResourceQuota `few` on CPU requests, of which so much is used."""
    about = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    cluster.apply({**about, "spec": {"hard": {"requests.cpu": hard}}})
    status = {"hard": {"requests.cpu": hard}, "used": {"requests.cpu": used}}
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "resourcequota", "few", "--subresource=status", "--type=merge", "-p", patch)
