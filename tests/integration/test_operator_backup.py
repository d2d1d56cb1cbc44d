"""Objects that a backup has brought back, without uid, owners and status: the operator's part of the section
"Backup and restore" of docs/operations.md, whose commands run here.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from apiserver import ApiServer
from cluster_support import KINDS, Cluster
from operator_support import Object, OperatorProcess, eventually, job

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
LABEL = "velero.io/exclude-from-backup"
KNATIVE, REVISIONS = "services.serving.knative.dev", "revisions.serving.knative.dev"
FORMER = "0f8fad5b-d9cb-469f-a165-70867728950e"
REPLACED = (
    ("job", "hopper-learner"),
    (KNATIVE, "hopper-actors"),
    (REVISIONS, "hopper-actors-v1"),
)
ADOPTED = (
    ("service", "hopper-redis"),
    ("serviceaccount", "hopper-learner"),
    ("role", "hopper-learner"),
    ("rolebinding", "hopper-learner"),
    ("networkpolicy", "hopper-learner"),
    ("networkpolicy", "hopper-actors"),
)


def found(cluster: Cluster, kind: str, name: str) -> Object:
    obj = cluster.get(kind, name)
    assert obj is not None, f"{kind} {name}"
    return obj


def restored(kind: str, obj: Object) -> Object:
    """The object as Velero restores it from the backup of a release whose children had no label for it."""
    meta, spec = obj["metadata"], dict(obj.get("spec") or {})
    labels = {name: value for name, value in meta["labels"].items() if name != LABEL}
    if kind == "job":  # Velero takes off what the Job controller has set
        del spec["selector"]
        template = spec["template"]
        own = {
            name: value
            for name, value in template["metadata"]["labels"].items()
            if "controller-uid" not in name and "job-name" not in name
        }
        spec["template"] = template | {"metadata": {"labels": own}}
    if kind == "service":
        spec = {name: value for name, value in spec.items() if not name.startswith("clusterIP")}
    kept = {name: obj[name] for name in ("rules", "roleRef", "subjects") if name in obj}
    meta = {"name": meta["name"], "labels": labels, "annotations": meta.get("annotations") or {}}
    known = KINDS[kind]
    kept |= {"spec": spec} if spec else {}
    return {"apiVersion": known.api_version, "kind": known.kind, "metadata": meta, **kept}


def forget(cluster: Cluster, kind: str, name: str) -> None:
    cluster.kubectl("delete", kind, name, "--cascade=background", "--wait=false", "--ignore-not-found")
    eventually(lambda: cluster.get(kind, name) is None, what=f"{kind} {name} is gone")


def test_backups_leave_out_all_children_but_the_claim(cluster: Cluster) -> None:
    cluster.apply(job("hopper"))
    learner = eventually(lambda: cluster.get("job", "hopper-learner"), what="the learner")
    service = found(cluster, KNATIVE, "hopper-actors")
    children = [found(cluster, kind, name) for kind, name in ADOPTED]
    children += [learner, learner["spec"]["template"], service, service["spec"]["template"]]
    for child in [*children, cluster.credentials("hopper")]:
        assert child["metadata"]["labels"][LABEL] == "true", child["metadata"]
    assert LABEL not in found(cluster, "pvc", "hopper-checkpoint")["metadata"]["labels"]


def test_children_of_the_release_before_get_the_label_and_a_running_job_goes_on(
    operator: OperatorProcess, cluster: Cluster
) -> None:
    cluster.apply(job("hopper"))
    pod = cluster.start_learner("hopper")
    cluster.start_knative("hopper")
    operator.kill()
    before = [found(cluster, kind, name) for kind, name in REPLACED]
    for kind, name in (*ADOPTED, *REPLACED[:2]):
        cluster.patch(kind, name, {"metadata": {"labels": {LABEL: None}}})
    operator.start()
    for kind, name in ADOPTED:
        eventually(lambda kind=kind, name=name: LABEL in found(cluster, kind, name)["metadata"]["labels"])
    operator.wait_for_resyncs(2)
    after = [found(cluster, kind, name) for kind, name in REPLACED]
    for one, other in zip(before, after, strict=True):
        assert (one["metadata"]["uid"], one["spec"]) == (other["metadata"]["uid"], other["spec"])
    assert "deletionTimestamp" not in found(cluster, "pod", pod["metadata"]["name"])["metadata"]
    assert cluster.status("hopper")["phase"] == "Running"


def test_children_that_a_backup_brings_back_are_replaced_or_adopted(cluster: Cluster) -> None:
    cluster.apply(job("hopper"))
    learner = cluster.start_learner("hopper")
    cluster.start_knative("hopper")
    actor = cluster.start_actor("hopper")
    children = [restored(kind, found(cluster, kind, name)) for kind, name in (*REPLACED, *ADOPTED)]
    children += [
        restored("pod", pod) | {"spec": {"containers": pod["spec"]["containers"]}} for pod in (learner, actor)
    ]
    old = {(kind, name): found(cluster, kind, name)["metadata"]["uid"] for kind, name in REPLACED}
    claim = found(cluster, "pvc", "hopper-checkpoint")["metadata"]["uid"]
    # The cluster is lost, but for the claim, and everything comes back, the job last.
    cluster.kubectl("delete", "ntj", "hopper")
    for kind, name in (*REPLACED, *ADOPTED):
        forget(cluster, kind, name)
    for pod in (learner, actor):
        cluster.delete_pod(pod)
        eventually(lambda pod=pod: cluster.get("pod", pod["metadata"]["name"]) is None)
    cluster.apply(*children)
    cluster.apply(job("hopper"))

    for pod in (learner, actor):  # no kubelet has them, so a deletion is the end of them
        name = pod["metadata"]["name"]
        eventually(lambda name=name: cluster.get("pod", name) is None, what=f"Pod {name} is deleted")
    revision = eventually(lambda: deleted(cluster, REVISIONS, "hopper-actors-v1"), what="the Revision goes")
    cluster.patch(REVISIONS, revision["metadata"]["name"], {"metadata": {"finalizers": None}})
    cluster.collect_job("hopper")
    cluster.collect_service("hopper")
    new = eventually(lambda: cluster.get("job", "hopper-learner"), what="the learner of the restored job")
    uid = found(cluster, "ntj", "hopper")["metadata"]["uid"]
    assert new["metadata"]["uid"] != old["job", "hopper-learner"]
    for kind, name in (*REPLACED[:2], *ADOPTED):
        meta = found(cluster, kind, name)["metadata"]
        assert [owner["uid"] for owner in meta["ownerReferences"]] == [uid], (kind, name)
        assert meta["labels"][LABEL] == "true", (kind, name)
    assert found(cluster, "pvc", "hopper-checkpoint")["metadata"]["uid"] == claim
    conditions = cluster.status("hopper")["conditions"]
    assert not [one for one in conditions if one["reason"] in ("NameTaken", "Refused", "Forbidden")]


def deleted(cluster: Cluster, kind: str, name: str) -> Object | None:
    obj = cluster.get(kind, name)
    return obj if obj is not None and "deletionTimestamp" in obj["metadata"] else None


@pytest.fixture
def shell(apiserver: ApiServer, namespace: str, tmp_path: Path) -> list[str]:
    """Words before a command of the page that run it in this namespace, by a shell."""
    kubectl = f'kubectl() {{ "{apiserver.assets}/kubectl" --kubeconfig "{apiserver.kubeconfig}" '
    (tmp_path / "functions").write_text(f'{kubectl} --namespace "{namespace}" "$@"; }}\n')
    return ["bash", "-c", f'cd "{tmp_path}" && . ./functions && eval "$1"', "-"]


def commands(beginning: str = "kubectl") -> list[str]:
    """The commands of the page's section."""
    section = re.search(r"^## Backup and restore\n(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section
    return [
        line for line in re.findall(r"^    (.+)$", section[1], re.MULTILINE) if line.startswith(beginning)
    ]


def run(shell: list[str], command: str) -> str:
    done = subprocess.run([*shell, command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_the_documented_commands_go_on_with_the_former_run(cluster: Cluster, shell: list[str]) -> None:
    """No garbage collector is here: the learner's Job and the Knative Service are removed by hand."""
    save, claim, former, events, keep, *again = commands()
    cluster.apply(job("hopper", learner={"checkpoint": {"pvc": {"retain": False}}}))
    cluster.start_learner("hopper")
    eventually(lambda: "conditions" in cluster.status("hopper"), what="the first look at the job")
    cluster.report("hopper", round=0, formerRun=f"hopper-{FORMER}")
    said = eventually(
        lambda: run(shell, events) if "hopper" in run(shell, events) else None, what="the event"
    )
    lines = f"spec.resumeFrom: {{claim: hopper-checkpoint, folder: hopper-{FORMER}, take: Run}}"
    assert lines in said
    assert run(shell, former) == f"hopper-{FORMER}"
    for command in (save, claim, keep):
        run(shell, command)
    assert "ownerReferences" not in found(cluster, "pvc", "hopper-checkpoint")["metadata"]

    uid = found(cluster, "ntj", "hopper")["metadata"]["uid"]
    for command in again:
        run(shell, command.replace("hopper-UID", f"hopper-{FORMER}"))
    for kind, name in REPLACED[:2]:
        forget(cluster, kind, name)
    for pod in cluster.list("pods"):
        cluster.delete_pod(pod)
    learner = eventually(lambda: cluster.get("job", "hopper-learner"), what="the learner of the new job")
    stored = found(cluster, "ntj", "hopper")
    assert stored["metadata"]["uid"] not in (uid, FORMER)
    assert stored["spec"]["resumeFrom"]["take"] == "Run"
    (container,) = learner["spec"]["template"]["spec"]["containers"]
    (mount,) = (one for one in container["volumeMounts"] if one["mountPath"] == "/resume-from")
    assert mount == {
        "name": "checkpoints",  # the claim is the job's own
        "mountPath": "/resume-from",
        "subPath": f"hopper-{FORMER}",
        "readOnly": True,
    }
    assert {"name": "NITRO_RESUME_FROM", "value": "/resume-from"} in container["env"]


def test_what_the_event_says_is_what_the_section_does() -> None:
    (patch,) = (line for line in commands() if "resumeFrom" in line)
    asked = json.loads(re.findall("'(.+)'", patch)[0])["spec"]["resumeFrom"]
    assert asked == {"claim": "hopper-checkpoint", "folder": "hopper-UID", "take": "Run"}


def test_a_whole_run_is_taken_after_its_job_has_ended(cluster: Cluster) -> None:
    local = {"type": "Local"}
    cluster.apply(job("first", backend=local))
    cluster.start_learner("first")
    cluster.patch("ntj", "first", {"status": {"checkpoint": {"round": 3}}}, status=True)
    cluster.apply(job("second", backend=local, resumeFrom={"job": "first", "take": "Run"}))
    cluster.apply(job("third", backend=local, resumeFrom={"claim": "runs", "folder": "team/first-1"}))
    eventually(lambda: cluster.condition("second", "Ready").get("reason") == "SourceRunning")
    third = eventually(lambda: cluster.get("job", "third-learner"), what="a job of a folder waits for nobody")
    pod = third["spec"]["template"]["spec"]
    assert {"name": "resume-from", "persistentVolumeClaim": {"claimName": "runs"}} in pod["volumes"]
    cluster.patch_spec("first", suspend=True)
    cluster.collect_job("first")
    eventually(lambda: cluster.get("job", "second-learner"), what="the second learner")
