"""A job that a backup has brought back, without uid and status: it goes on with its run by the commands of
docs/operations.md, section "Backup and restore".
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from harness import Cluster, round_of, training
from jobs import hopper
from namespaces import Start

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
LABEL = "velero.io/exclude-from-backup"
NAME = "hopper"
SPEC = hopper(rounds=1000, actors=(1, 2, 2), learner={"checkpoint": {"pvc": {"retain": True}}})


@pytest.mark.full
def test_a_restored_job_goes_on_with_its_run(
    cluster: Cluster, namespace: str, start: Start, tmp_path: Path
) -> None:
    save, claim, former, events, *again = commands()
    start(NAME, SPEC)
    cluster.until_round(namespace, NAME, 3)
    only_what_is_not_made_anew_is_backed_up(cluster, namespace)
    for command in (save, claim):
        run(command, namespace, tmp_path)
    lost = cluster.job(namespace, NAME)
    delete(cluster, namespace)

    cluster.create_job(namespace, NAME, SPEC)  # as Velero restores it; its claim is there
    anew = cluster.until_round(namespace, NAME, 1)
    folder = f"{NAME}-{lost['metadata']['uid']}"
    assert training(anew)["history"][0]["round"] == 1
    assert run(former, namespace, tmp_path) == folder
    cluster.until(
        cluster.kind("v1", "Event"),
        lambda found: any(f"folder: {folder}, take: Run" in one["message"] for one in found),
        namespace=namespace,
        what="the event with the lines of spec.resumeFrom",
    )
    assert folder in run(events, namespace, tmp_path)

    for command in again:
        run(command.replace("hopper-UID", folder), namespace, tmp_path)
    restored = cluster.until_job(
        namespace,
        NAME,
        # Its first report has the round of the checkpoint, which may be later, and no history yet.
        lambda job: job if round_of(job) >= round_of(lost) + 2 and training(job).get("history") else None,
        what="the former run's rounds, and two more",
    )
    assert restored["metadata"]["uid"] not in (lost["metadata"]["uid"], anew["metadata"]["uid"])
    # Of the round whose checkpoint was the last the run may not have written the time any more.
    times = [
        {entry["round"]: entry["seconds"] for entry in training(job)["history"] if "seconds" in entry}
        for job in (lost, restored)
    ]
    both = set(times[0]) & set(times[1])
    assert both, "they are the former run's rounds, not the same ones done again in another time"
    assert {number: times[0][number] for number in both} == {number: times[1][number] for number in both}
    (learner,) = cluster.pods(namespace, NAME, "learner")
    assert learner["metadata"]["labels"]["nitro.dev/run"] == restored["metadata"]["uid"]


def only_what_is_not_made_anew_is_backed_up(cluster: Cluster, namespace: str) -> None:
    """Of what has the job's label, Knative's own objects included, only the claim lacks Velero's."""
    lacking = {
        f"{kind.kind}/{item.metadata.name}"
        for kind in cluster.kinds()
        for item in kind.get(namespace=namespace, label_selector=f"nitro.dev/job={NAME},!{LABEL}").items
    }
    assert lacking == {f"PersistentVolumeClaim/{NAME}-checkpoint"}


def delete(cluster: Cluster, namespace: str) -> None:
    cluster.jobs.delete(namespace=namespace, name=NAME)
    cluster.until(cluster.jobs, lambda jobs: not jobs, namespace=namespace, what="the deletion", name=NAME)


def commands() -> list[str]:
    """The commands with kubectl of the page's section."""
    section = re.search(r"^## Backup and restore\n(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section
    return re.findall(r"^    (kubectl .+)$", section[1], re.MULTILINE)


def run(command: str, namespace: str, folder: Path) -> str:
    """Run a command of the page in a namespace, and return what it printed."""
    own = command.replace("kubectl ", f"kubectl --namespace {namespace} ", 1)
    done = subprocess.run(
        own, shell=True, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, (own, done.stderr)
    return done.stdout
