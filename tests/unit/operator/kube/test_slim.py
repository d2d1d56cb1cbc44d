"""What the operator keeps of an object."""

from __future__ import annotations

from typing import Any

from nitro_operator.kube.decoding import KEPT_LEVELS
from nitro_operator.kube.kinds import LEARNER_JOB, POD, TRAINING_JOB
from nitro_operator.kube.slim import LAST_APPLIED, STATUS_WRITTEN_AT, slim, whole_spec
from operator_objects import make_job


def test_a_copy_that_kubectl_made_is_not_kept() -> None:
    job = make_job()
    job["metadata"] |= {"annotations": {LAST_APPLIED: "{}", "mine": "x"}, "managedFields": [{"time": "t"}]}
    for kind in (TRAINING_JOB, LEARNER_JOB):
        kept = slim(kind, job)["metadata"]
        assert (kept["annotations"], "managedFields" in kept) == ({"mine": "x"}, False)


def test_fields_that_take_any_json_are_kept_as_text_and_come_back() -> None:
    deep: Any = 1
    for _ in range(KEPT_LEVELS):
        deep = [deep]
    kwargs = {"rows": [{"x": 0.1, "y": []}], "text": "ä", "none": None, "deep": deep}
    own = {"entryPoint": "mine:Plateau", "settings": {"weight": 0.5}}
    job = make_job(
        environment={"id": "A-v0", "kwargs": kwargs},
        algorithm={"rllib": {"lr": 1e-4}, **own},
        scaling=own,
        network=own,
    )
    kept = slim(TRAINING_JOB, job)
    assert isinstance(kept["spec"]["environment"]["kwargs"], bytes)
    assert isinstance(kept["spec"]["algorithm"]["rllib"], bytes)
    assert isinstance(kept["spec"]["algorithm"]["settings"], bytes)
    assert isinstance(kept["spec"]["scaling"]["settings"], bytes)
    assert isinstance(kept["spec"]["network"]["settings"], bytes)
    assert whole_spec(kept) == job["spec"]
    assert whole_spec(job) == job["spec"]


def test_a_slim_job_keeps_the_time_of_its_status() -> None:
    job = make_job()
    mine = {"manager": "nitro-operator", "subresource": "status", "time": "2026-01-01T00:00:00Z"}
    job["metadata"]["managedFields"] = [{"manager": "kubectl", "time": "other"}, mine]
    kept = slim(TRAINING_JOB, slim(TRAINING_JOB, job))
    assert kept["metadata"][STATUS_WRITTEN_AT] == "2026-01-01T00:00:00Z"


def test_of_a_pods_spec_its_node_and_the_requests_of_what_runs_in_it_stay() -> None:
    cpu = {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}, "limits": {"memory": "1Gi"}}
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    pod: Any = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "volumes": [{}], "tolerations": [{}]}}
    pod["spec"]["initContainers"] = [
        {"name": "first", "image": "x", "resources": cpu},
        {"name": "mesh", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "5m"}}},
    ]
    pod["spec"]["containers"] = [
        {"name": "actor", "image": "x", "env": [{}], "resources": cpu, "resizePolicy": policy},
        {"name": "queue-proxy", "image": "x", "resources": {}},
    ]
    kept = slim(POD, pod)
    assert kept["spec"] == {
        "nodeName": "n",
        "containers": [
            {"name": "mesh", "resources": {"requests": {"cpu": "5m"}}},
            {
                "name": "actor",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                "resizePolicy": policy,
            },
            {"name": "queue-proxy"},
        ],
    }
    assert slim(POD, kept) == kept, "a list that is slim already is put into the cache"
