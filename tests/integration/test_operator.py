"""The operator's process on a real API server: what it makes, scales, says and leaves behind."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from apiserver import ApiServer
from cluster_support import Cluster
from nitro_operator.kube.names import NOT_BACKED_UP
from operator_support import Object, OperatorProcess, eventually, install_knative, job

CHILDREN = [
    ("serviceaccount", "{}-learner"),
    ("role", "{}-learner"),
    ("rolebinding", "{}-learner"),
    ("networkpolicy", "{}-learner"),
    ("networkpolicy", "{}-actors"),
    ("service", "{}-redis"),
    ("pvc", "{}-checkpoint"),
    ("services.serving.knative.dev", "{}-actors"),
    ("job", "{}-learner"),
]
KNATIVE = "services.serving.knative.dev"
OPERATORS_LABELS = ("nitro.dev", "app.kubernetes.io")
LIMIT = 24


@pytest.fixture(scope="module")
def knative(apiserver: ApiServer) -> ApiServer:
    install_knative(apiserver)
    return apiserver


@pytest.fixture(scope="module")
def operator(knative: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with OperatorProcess(knative.kubeconfig, log, NITRO_PLATFORM_MAX_ACTORS=str(LIMIT)) as process:
        yield process


@pytest.fixture
def cluster(knative: ApiServer, namespace: str) -> Cluster:
    return Cluster(knative, namespace)


def running(cluster: Cluster, name: str, **spec: object) -> Object:
    """A job whose learner runs and whose Revision is ready; returns the learner's pod."""
    cluster.apply(job(name, **spec))
    pod = cluster.start_learner(name)
    cluster.start_knative(name)
    eventually(lambda: cluster.status(name)["phase"] == "Running", what="phase Running")
    return pod


@pytest.mark.usefixtures("operator")
class TestLife:
    def test_a_job_gets_all_its_children_and_they_are_its_own(self, cluster: Cluster) -> None:
        cluster.apply(job("hopper"))
        eventually(lambda: cluster.get("job", "hopper-learner"))
        uid = (cluster.get("ntj", "hopper") or {})["metadata"]["uid"]
        children = [(kind, cluster.get(kind, pattern.format("hopper"))) for kind, pattern in CHILDREN]
        for kind, child in [*children, ("secret", cluster.credentials("hopper"))]:
            assert child is not None, kind
            owners = [ref["uid"] for ref in child["metadata"].get("ownerReferences", [])]
            assert owners == ([] if kind == "pvc" else [uid])
        assert eventually(lambda: cluster.status("hopper")["phase"]) == "Starting"
        assert "finalizers" not in (cluster.get("ntj", "hopper") or {})["metadata"]

    def test_the_number_of_actors_follows_the_requests_on_one_revision(self, cluster: Cluster) -> None:
        running(cluster, "scaled")
        eventually(lambda: cluster.scale("scaled") == ("8", "8"), what="initial actors")
        cluster.report("scaled", round=1, requestedActors=12, boostingScore=0.5)
        eventually(lambda: cluster.scale("scaled") == ("12", "12"))
        history = [{"round": 2, "actors": 12, "seconds": 1.0}]
        cluster.report("scaled", round=2, requestedActors=5, history=history)
        eventually(lambda: cluster.status("scaled")["actors"]["requested"] == 5)
        assert cluster.scale("scaled") == ("12", "12"), "an actor that was needed a moment ago is held"
        history.append({"round": 3, "actors": 5, "seconds": 1000.0})
        cluster.report("scaled", round=3, requestedActors=4, history=history)
        eventually(lambda: cluster.scale("scaled") == ("5", "5"), what="12 were not needed for long")

    def test_how_long_actors_are_held_may_change_while_the_job_runs(self, cluster: Cluster) -> None:
        running(cluster, "held")
        eventually(lambda: cluster.scale("held") == ("8", "8"))
        history = [{"round": 1, "actors": 8, "seconds": 1.0}]
        cluster.report("held", round=1, requestedActors=4, history=history)
        eventually(lambda: cluster.status("held")["actors"]["requested"] == 4)
        assert cluster.scale("held") == ("8", "8")
        cluster.patch_spec("held", scaling={"hold": 0})
        eventually(lambda: cluster.scale("held") == ("4", "4"))
        cluster.report("held", round=2, requestedActors=20, history=history)
        eventually(lambda: cluster.scale("held") == ("20", "20"))
        cluster.patch_spec("held", scaling={"hold": 1})
        cluster.report("held", round=3, requestedActors=6, history=history)
        eventually(lambda: cluster.scale("held") == ("6", "6"), what="let go by time alone")
        assert len(cluster.list("revisions.serving.knative.dev")) == 1

    def test_success_releases_the_actors_and_no_child_is_created_again(
        self, cluster: Cluster, operator: OperatorProcess
    ) -> None:
        pod = running(cluster, "done")
        eventually(lambda: cluster.scale("done") == ("8", "8"))
        cluster.end_learner("done", pod, code=0, job_condition="Complete")
        eventually(lambda: cluster.status("done")["phase"] == "Succeeded")
        eventually(lambda: cluster.scale("done") == ("0", "1"))
        status = cluster.status("done")
        assert status["completionTime"]
        assert status["actors"]["granted"] == 0
        cluster.kubectl("delete", "job", "done-learner", "--cascade=background")
        cluster.kubectl("delete", "service", "done-redis")
        cluster.patch("ntj", "done", {"metadata": {"annotations": {"touched": "yes"}}})
        operator.wait_for_resyncs(3)
        assert cluster.get("job", "done-learner") is None
        assert cluster.get("service", "done-redis") is None
        assert cluster.status("done")["phase"] == "Succeeded"

    def test_suspend_stops_everything_and_resume_starts_again(self, cluster: Cluster) -> None:
        running(cluster, "paused")
        eventually(lambda: cluster.scale("paused") == ("8", "8"))
        cluster.patch_spec("paused", suspend=True)
        eventually(lambda: cluster.scale("paused") == ("0", "1"))
        cluster.collect_job("paused")
        eventually(lambda: cluster.status("paused")["phase"] == "Suspended")
        assert cluster.condition("paused", "Suspended")["status"] == "True"
        assert cluster.status("paused")["actors"]["granted"] == 0
        cluster.patch_spec("paused", suspend=False)
        cluster.start_learner("paused")
        eventually(lambda: cluster.status("paused")["phase"] == "Running")
        eventually(lambda: cluster.scale("paused") == ("8", "8"))

    def test_a_job_in_a_queue_waits_while_kueue_suspends_its_learner(
        self, cluster: Cluster, operator: OperatorProcess
    ) -> None:
        """Kueue's writes, made by hand: it suspends the learner's Job, and starts it on nodes that it
        chooses."""
        queue = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": "low"}
        queued = job("queued", learner={"labels": {"cost-centre": "a"}})
        queued["metadata"]["labels"] = {**queue, "not-for-kueue": "x"}
        cluster.apply(queued)
        cluster.start_knative("queued")
        learner = eventually(lambda: cluster.get("job", "queued-learner"), what="the learner's Job")
        labels = learner["metadata"]["labels"]
        others = {name: value for name, value in labels.items() if name.split("/")[0] not in OPERATORS_LABELS}
        assert others == queue | {"cost-centre": "a"} | NOT_BACKED_UP
        service = cluster.get("services.serving.knative.dev", "queued-actors")
        assert service is not None
        assert queue.items() <= service["spec"]["template"]["metadata"]["labels"].items()

        def waits() -> bool:
            return cluster.condition("queued", "LearnerReady").get("reason") == "Queued"

        cluster.patch("job", "queued-learner", {"spec": {"suspend": True}})
        eventually(waits, what="a job that waits")
        operator.wait_for_resyncs(2)
        found = cluster.get("job", "queued-learner")
        assert found is not None
        assert found["spec"]["suspend"] is True, "the operator leaves it to Kueue"
        assert cluster.status("queued")["phase"] == "Pending"
        assert cluster.condition("queued", "Failed")["status"] == "False"
        assert "queue 'team'" in cluster.condition("queued", "Ready")["message"]

        def admit() -> Object:
            chosen = {"spec": {"nodeSelector": {"pool": "batch"}}}
            cluster.patch("job", "queued-learner", {"spec": {"suspend": False, "template": chosen}})
            pod = cluster.start_learner("queued")
            cluster.report("queued", round=3, requestedActors=8)
            eventually(lambda: cluster.scale("queued") == ("8", "8"), what="actors")
            eventually(lambda: cluster.status("queued")["phase"] == "Running", what="phase Running")
            return pod

        pod = admit()
        cluster.patch("job", "queued-learner", {"spec": {"suspend": True}})  # another job has preempted it
        cluster.patch("job", "queued-learner", {"status": {"startTime": None, "active": 0}}, status=True)
        cluster.delete_pod(pod)
        eventually(lambda: cluster.scale("queued") == ("0", "1"), what="released actors")
        eventually(waits, what="a job that waits again")
        assert cluster.status("queued")["training"]["round"] == 3
        admit()
        again = cluster.get("job", "queued-learner")
        assert again is not None
        assert again["metadata"]["uid"] == learner["metadata"]["uid"], "Kueue's workload stays the same"
        assert again["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "batch"}

    def test_a_failed_learner_reports_its_last_log_line_and_a_suspend_restarts_it(
        self, cluster: Cluster
    ) -> None:
        pod = running(cluster, "crash")
        cluster.end_learner("crash", pod, code=1, message="ValueError: no such task")
        crashed = eventually(lambda: _false(cluster, "crash", "LearnerReady", "LearnerCrashed"))
        assert "ValueError: no such task" in crashed["message"]
        cluster.finish_job("crash-learner", "Failed", "BackoffLimitExceeded")
        eventually(lambda: cluster.status("crash")["phase"] == "Failed")
        failed = cluster.condition("crash", "Failed")
        assert failed["reason"] == "LearnerFailed"
        assert "ValueError: no such task" in failed["message"]
        assert "spec.suspend" in failed["message"]
        eventually(lambda: cluster.scale("crash") == ("0", "1"))
        cluster.patch_spec("crash", suspend=True)
        cluster.collect_job("crash")
        eventually(lambda: cluster.status("crash")["phase"] == "Suspended")
        assert "completionTime" not in cluster.status("crash")
        cluster.patch_spec("crash", suspend=False)
        cluster.start_learner("crash")
        eventually(lambda: cluster.status("crash")["phase"] == "Running")
        events = cluster.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
        assert {"LearnerCrashed", "LearnerFailed", "Suspended"} <= set(events.split())

    def test_the_deadline_counts_suspensions(self, cluster: Cluster) -> None:
        running(cluster, "late", activeDeadlineSeconds=12)
        learner = cluster.get("job", "late-learner") or {}
        assert 10 <= learner["spec"]["activeDeadlineSeconds"] <= 12
        cluster.patch_spec("late", suspend=True)
        cluster.collect_job("late")
        eventually(lambda: cluster.condition("late", "Failed").get("reason") == "DeadlineExceeded")
        assert cluster.status("late")["phase"] == "Failed"

    def test_ttl_deletes_a_finished_job(self, cluster: Cluster) -> None:
        pod = running(cluster, "brief", ttlSecondsAfterFinished=3)
        cluster.end_learner("brief", pod, code=0, job_condition="Complete")
        eventually(lambda: cluster.status("brief").get("phase") == "Succeeded")
        eventually(lambda: cluster.get("ntj", "brief") is None)

    def test_local_actors_need_no_knative_object(self, cluster: Cluster) -> None:
        cluster.apply(job("local", backend={"type": "Local"}))
        cluster.start_learner("local")
        eventually(lambda: cluster.condition("local", "Ready").get("status") == "True")
        assert cluster.list("services.serving.knative.dev") == []
        assert cluster.status("local")["actors"] == {
            "requested": 8,
            "granted": 8,
            "ready": 8,
            "podSeconds": 0,
        }

    def test_pod_seconds_are_metered(self, cluster: Cluster, operator: OperatorProcess) -> None:
        running(cluster, "metered")
        first = time.monotonic()
        pods = [cluster.start_actor("metered") for _ in range(2)]
        eventually(lambda: cluster.status("metered")["actors"]["ready"] == 2)
        begin = time.monotonic()
        operator.wait_for_resyncs(2)
        least = time.monotonic() - begin
        for pod in pods:
            cluster.delete_pod(pod)
        eventually(lambda: cluster.status("metered")["actors"]["ready"] == 0)
        most = time.monotonic() - first + 1  # the status has whole tenths of seconds
        assert 2 * least - 0.1 <= cluster.status("metered")["actors"]["podSeconds"] <= 2 * most


@pytest.mark.usefixtures("operator")
class TestTrouble:
    def test_a_deleted_secret_is_replaced_by_one_of_another_name_with_new_pods(
        self, cluster: Cluster
    ) -> None:
        """By the same name a kubelet may give new pods the deleted Secret's content."""
        running(cluster, "secretive")
        before = cluster.credentials("secretive")
        learner = (cluster.get("job", "secretive-learner") or {})["metadata"]
        service = (cluster.get(KNATIVE, "secretive-actors") or {})["metadata"]
        assert before["immutable"] is True
        cluster.kubectl("delete", "secret", before["metadata"]["name"])
        waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": "secret not found"}}
        cluster.set_pod(cluster.start_actor("secretive"), phase="Pending", containers={"actor": waiting})
        cluster.collect_job("secretive")
        cluster.collect_service("secretive")
        new = eventually(lambda: cluster.get("job", "secretive-learner"), what="the next learner")
        assert new["metadata"]["uid"] != learner["uid"]
        assert (cluster.get(KNATIVE, "secretive-actors") or {})["metadata"]["uid"] != service["uid"]
        after = cluster.credentials("secretive")
        assert after["metadata"]["name"] != before["metadata"]["name"]
        assert after["data"]["token"] != before["data"]["token"]
        assert cluster.get("secret", before["metadata"]["name"]) is None

    def test_drift_is_repaired(self, cluster: Cluster) -> None:
        running(cluster, "drifty")
        cluster.patch("service", "drifty-redis", {"spec": {"selector": {"nitro.dev/job": "other"}}})
        eventually(lambda: _selector(cluster, "drifty-redis")["nitro.dev/job"] == "drifty")
        cluster.kubectl("delete", "role", "drifty-learner")
        eventually(lambda: cluster.get("role", "drifty-learner"))

    def test_a_hand_edited_status_is_corrected(self, cluster: Cluster) -> None:
        running(cluster, "edited")
        lie = {"phase": "Succeeded", "actors": {"granted": 4000}, "completionTime": "2020-01-01T00:00:00Z"}
        done = {
            "type": "Complete",
            "status": "True",
            "reason": "Lie",
            "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
        cluster.patch("ntj", "edited", {"status": {**lie, "conditions": [done]}}, status=True)
        eventually(lambda: cluster.status("edited")["phase"] == "Running")
        assert cluster.status("edited")["actors"]["granted"] == 8
        assert cluster.condition("edited", "Complete")["status"] == "False"

    def test_an_immutable_field_is_refused_and_nothing_changes(self, cluster: Cluster) -> None:
        running(cluster, "fixed")
        said = cluster.kubectl(
            "patch", "ntj", "fixed", "--type=merge", "-p", '{"spec":{"seed":7}}', check=False
        )
        assert "spec" in said
        assert "Invalid" in said or "invalid" in said
        assert cluster.status("fixed")["phase"] == "Running"

    @pytest.mark.parametrize(
        ("state", "reason", "words"),
        [
            (
                {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
                "ImagePullFailed",
                "pull secret",
            ),
            ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "ActorOOMKilled", "limits.memory"),
            (
                {"terminated": {"exitCode": 1, "message": "no module", "reason": "Error"}},
                "ActorCrashed",
                "no module",
            ),
        ],
    )
    def test_an_actor_problem_is_named_and_removed_with_its_cause(
        self, cluster: Cluster, state: Object, reason: str, words: str
    ) -> None:
        name = f"ill-{reason.lower()}"
        running(cluster, name)
        actor = cluster.start_actor(name)
        cluster.set_pod(actor, phase="Running", containers={"actor": state})
        assert words in eventually(lambda: _false(cluster, name, "ActorsReady", reason))["message"]
        cluster.delete_pod(actor)
        eventually(lambda: cluster.condition(name, "Ready").get("status") == "True")

    def test_an_object_of_another_owner_is_not_adopted(self, cluster: Cluster) -> None:
        ports = [{"port": 80}]
        theirs = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "taken-redis"},
            "spec": {"ports": ports},
        }
        cluster.apply(
            {**theirs, "spec": {"ports": ports, "type": "ClusterIP", "selector": {"nitro.dev/job": "mine"}}}
        )
        cluster.apply(job("taken"))
        eventually(lambda: _false(cluster, "taken", "LearnerReady", "NameTaken"))
        assert _selector(cluster, "taken-redis")["nitro.dev/job"] == "mine"
        cluster.kubectl("delete", "service", "taken-redis")
        eventually(lambda: cluster.get("job", "taken-learner"))


def _false(cluster: Cluster, name: str, kind: str, reason: str) -> Object | None:
    found = cluster.condition(name, kind)
    return found if found.get("status") == "False" and found.get("reason") == reason else None


def _selector(cluster: Cluster, name: str) -> Object:
    return dict((cluster.get("service", name) or {})["spec"]["selector"])


def _reason(cluster: Cluster, name: str, kind: str) -> str | None:
    return cluster.condition(name, kind).get("reason")
