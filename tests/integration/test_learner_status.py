"""The learner's side of the job on a real API server, with the rights that the operator gives it.

Every status that becomes visible is consistent, and a grant arrives by a watch.
"""

from __future__ import annotations

import json
import queue
import re
import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes.client import Configuration

from apiserver import ApiServer
from nitro_api import resolve_stored
from nitro_learner.cluster import status_reporter
from nitro_learner.cluster.job import ApiUnavailable, JobClient, JobGone, WatchExpired
from nitro_learner.cluster.job_mirror import JobMirror, JobWatch
from nitro_learner.cluster.status_reporter import StatusReporter
from nitro_operator.builders import JobView, learner_access
from nitro_operator.kube.kinds import TRAINING_JOB
from nitro_operator.observation import reported
from nitro_operator.scaling import demand
from operator_objects import CONFIG
from operator_support import eventually
from train_support import job, start

SECONDS = 120.0
Object = dict[str, Any]


class Learner:
    """A job with the learner's account: `grant` writes as the operator does."""

    def __init__(self, server: ApiServer, namespace: str, **spec: Any) -> None:
        self.server = server
        self.namespace = namespace
        self._collection = TRAINING_JOB.path(namespace)
        self.job: Object = server.request("POST", self._collection, job(**spec))
        self.role, account = "small-learner", f"/api/v1/namespaces/{namespace}/serviceaccounts/small-learner"
        view = JobView.of(self.job, resolve_stored(self.job).spec, CONFIG)
        access = {"apiVersion": "v1", "kind": "List", "items": learner_access(view)}
        server.kubectl("apply", "-f", "-", input=json.dumps(access))
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        self.token = server.request("POST", f"{account}/token", request)["status"]["token"]

    def client(self) -> JobClient:
        return JobClient(self.namespace, "small", self.job["metadata"]["uid"])

    def grant(self, actors: int) -> None:
        status = {"status": {"actors": {"granted": actors}}}
        self.server.request("PATCH", f"{self._collection}/small/status", status)

    def status(self) -> Object:
        """Read as a list, so that it does not count as one of the learner's reads."""
        found: Object = self.server.request("GET", self._collection)["items"][0].get("status") or {}
        return found

    def reads(self) -> int:
        """How often any job has been read by its name, as the API server counts it."""
        return self._counted("apiserver_request_total", "GET")

    def watches(self) -> int:
        """How many watches on jobs are open now."""
        return self._counted("apiserver_longrunning_requests", "WATCH")

    def _counted(self, metric: str, verb: str) -> int:
        headers = {"Authorization": f"Bearer {self.server.token}"}
        pool = urllib3.PoolManager(ca_certs=str(self.server.ca), headers=headers)
        text = pool.request("GET", f"{self.server.url}/metrics").data.decode()
        lines = re.findall(rf"^{metric}{{(.*)}} (\S+)$", text, re.MULTILINE)
        wanted = ('resource="nitrotrainingjobs"', f'verb="{verb}"', 'subresource=""')
        return sum(int(float(value)) for labels, value in lines if all(one in labels for one in wanted))

    def kubeconfig(self) -> Path:
        admin = json.loads(self.server.kubeconfig.read_text())
        admin["users"] = [{"name": "admin", "user": {"token": self.token}}]
        path = self.server.folder / f"kubeconfig-{self.namespace}"
        path.write_text(json.dumps(admin))
        return path


@pytest.fixture
def learner(apiserver: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Learner:
    """A job, and this process as its learner."""
    found = Learner(apiserver, namespace)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(found.kubeconfig()))
    monkeypatch.setattr(Configuration, "_default", None)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return found


@contextmanager
def reporting(learner: Learner) -> Iterator[tuple[StatusReporter, queue.SimpleQueue[int]]]:
    """A reporter that has requested actors, and the grants that reach the backend."""
    grants = queue.SimpleQueue[int]()
    spec = resolve_stored(learner.job).spec
    with StatusReporter(learner.client(), None) as reporter:
        reporter.mirror.on_actors(lambda actors: grants.put(actors.granted))
        reporter.starting(spec, round=0, version=0, actors=3)
        yield reporter, grants


def test_a_grant_arrives_as_an_event_and_an_idle_learner_reads_nothing(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_reporter, "HEARTBEAT_SECONDS", 0.5)
    before = learner.watches()
    with reporting(learner) as (_, grants):
        eventually(lambda: learner.watches() > before, what="the watch")
        reads = learner.reads()
        for actors in (3, 6, 2):
            learner.grant(actors)
            assert grants.get(timeout=SECONDS) == actors
        beats = {learner.status()["training"]["updatedAt"]}
        eventually(lambda: beats.add(learner.status()["training"]["updatedAt"]) or len(beats) > 2)
        assert learner.reads() <= reads + 3, "a grant may cross a report, which then reads the job once"
        reads = learner.reads()
        eventually(lambda: beats.add(learner.status()["training"]["updatedAt"]) or len(beats) > 6)
        assert grants.empty()
        assert learner.reads() == reads
    eventually(lambda: learner.watches() == before, what="the end of the watch")


def test_a_watch_from_a_version_that_is_forgotten_reads_the_job_anew(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WatchExpired, match="too old"):
        next(learner.client().watch("1"))
    mirror, client = JobMirror(), learner.client()
    watched, forgotten = client.watch, iter(["1"])
    monkeypatch.setattr(client, "watch", lambda version: watched(next(forgotten, version)))
    watch = JobWatch(client, mirror)
    watch.start()
    try:
        for actors in (3, 4):
            learner.grant(actors)
            eventually(lambda actors=actors: mirror.granted == actors)
    finally:
        watch.stop()


def test_a_watch_goes_on_after_the_api_server_was_started_anew(learner: Learner) -> None:
    server = learner.server
    with reporting(learner) as (_, grants):
        learner.grant(3)
        assert grants.get(timeout=SECONDS) == 3
        position = next(n for n, one in enumerate(server._processes) if "kube-apiserver" in str(one.args))
        old = server._processes[position]
        old.send_signal(signal.SIGKILL)
        old.wait()
        server._processes[position] = subprocess.Popen(
            old.args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        server._await_ready()
        eventually(lambda: learner.server.request("GET", TRAINING_JOB.path(learner.namespace)) is not None)
        learner.grant(5)
        assert grants.get(timeout=SECONDS) == 5
        eventually(lambda: learner.watches() > 0, what="the watch")


def test_a_new_job_of_the_same_name_gets_none_of_its_predecessors_reports(learner: Learner) -> None:
    """The API server does not compare the uid of a status that is applied."""
    gone = queue.SimpleQueue[bool]()
    collection, early = TRAINING_JOB.path(learner.namespace), learner.client()
    early.apply_status({"training": {"state": "Running"}})
    with reporting(learner) as (reporter, _):
        reporter.mirror.on_gone(lambda: gone.put(True))
        eventually(lambda: learner.status().get("training", {}).get("requestedActors") == 3)
        learner.server.request("DELETE", f"{collection}/small")
        learner.server.request("POST", collection, job())
        with pytest.raises(JobGone, match="replaced by another"):
            early.apply_status({"training": {"state": "Running", "round": 152}, "cost": {"total": 1.0}})
        assert gone.get(timeout=SECONDS)
        reporter.conclude("Running", "Interrupted", "interrupted after round 152")
    assert learner.status() == {}


def test_a_status_is_written_although_others_change_the_job(learner: Learner) -> None:
    client = learner.client()
    client.apply_status({"training": {"state": "Running"}})
    for actors in (3, 4):
        learner.grant(actors)
        client.apply_status({"training": {"state": "Running", "round": actors}})
    assert learner.status()["training"]["round"] == 4
    assert learner.status()["actors"] == {"granted": 4}


def test_a_learner_whose_account_is_deleted_gives_up(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector may remove the account long before the pod: answers are 401 from then on."""
    monkeypatch.setattr("nitro_learner.cluster.api.BACKOFF_SECONDS", (0.01, 0.1))
    gone = queue.SimpleQueue[bool]()
    with reporting(learner) as (reporter, _):
        reporter.mirror.on_gone(lambda: gone.put(True))
        account = f"/api/v1/namespaces/{learner.namespace}/serviceaccounts/{learner.role}"
        learner.server.request("DELETE", account)
        assert gone.get(timeout=SECONDS)


def test_an_api_server_that_does_not_serve_the_kind_yet_is_no_deleted_job(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = str(learner.server.kubeconfig)  # who may read kinds that are not there
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", admin)
    monkeypatch.setattr("nitro_learner.cluster.job.PLURAL", "notyettrainingjobs")
    with pytest.raises(ApiUnavailable, match="answered 404"):
        learner.client().get()


def test_every_visible_status_belongs_to_one_round(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    """The demand and the score change once a round: no grant is made by an old score."""
    learner = Learner(apiserver, namespace)
    process = start(
        "learn",
        variables={
            "KUBECONFIG": str(learner.kubeconfig()),
            "NITRO_JOB_NAMESPACE": namespace,
            "NITRO_JOB_NAME": "small",
            "NITRO_RUN": learner.job["metadata"]["uid"],
            "NITRO_RUN_DIR": str(tmp_path / "run"),
        },
    )
    statuses: list[Object] = []
    follower = threading.Thread(target=_follow, args=(learner, statuses.append), daemon=True)
    follower.start()
    _, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    follower.join(SECONDS)
    spec = resolve_stored(learner.job).spec
    rounds = defaultdict(set)
    views = defaultdict(set)
    for seen in statuses:
        training = reported.training(seen)
        assert training is not None
        if training.round is None:
            continue  # before the run is opened
        assert training.requests == {"actors": training.requested_actors}
        if training.history:
            last = training.history[-1]
            assert (last.round, last.score) == (training.round, training.boosting_score)
        rounds[training.requested_at].add(training.round)
        seen_now = demand.demand_of(spec, training, 0.0)
        views[training.round].add((seen_now.requested, tuple(seen_now.past), demand.score(training)))
    assert {0, 6} <= set(views) <= set(range(7)), "under load one write may report two rounds"
    assert all(len(found) == 1 for found in rounds.values()), rounds
    assert all(len(found) == 1 for found in views.values()), views


def _follow(learner: Learner, take: Any) -> None:
    """Hand on every version of the job with a report, until the learner's last word."""
    server = learner.server
    pool = urllib3.PoolManager(ca_certs=str(server.ca), headers={"Authorization": f"Bearer {server.token}"})
    query = f"watch=true&resourceVersion={learner.job['metadata']['resourceVersion']}"
    url = f"{server.url}{TRAINING_JOB.path(learner.namespace)}?{query}"
    rest = b""
    for chunk in pool.request("GET", url, preload_content=False, timeout=280).stream(amt=None):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            found = json.loads(line)["object"]
            training = (found.get("status") or {}).get("training")
            if training:
                take(found)
                if training["state"] != "Running":
                    return
