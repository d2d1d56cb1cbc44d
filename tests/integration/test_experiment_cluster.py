"""`nitro experiment run --cluster` on a real API server. The tests report in place of operator and learners,
which tests/e2e has, and moto stands in for Amazon's S3."""

from __future__ import annotations

import asyncio
import copy
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from kubernetes.config import kube_config

from apiserver import ApiServer
from cluster_support import Cluster
from experiment_support import pretend, spec, write_spec
from nitro_api import JobInvalid
from nitro_api.spec.checkpoint import CheckpointBucket
from nitro_experiments.planning.plan import PlannedRun, plan
from nitro_experiments.planning.spec import Experiment, load
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.on_cluster import cluster_runs
from nitro_experiments.running.on_cluster.cluster_runs import ClusterRuns
from nitro_experiments.running.on_cluster.manifests import LABEL, RUN, manifest, object_name
from nitro_experiments.running.runner import Runner, RunState
from nitro_experiments.search.scores import steps_reached
from nitro_experiments.search.trials import trial_runs
from nitro_experiments.writing import experiment_report
from nitro_learner.backends.base import BackendError
from nitro_learner.cluster.jobs import NamespaceJobs
from nitro_learner.run import folders
from nitro_learner.run.bucket import RunBucket
from operator_support import eventually
from train_support import LOADING, nitro

PATIENCE_SECONDS = 240.0
VERSIONS = {"python": "3.11.2", "machine": "a pod", "torch": "2.15.0"}
RETURNS = (10.0, 20.0, 30.0, 40.0)


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> CheckpointBucket:
    """A bucket, and this user's own right to it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "what")
    boto3.client("s3", "us-east-1", endpoint_url=s3_endpoint).create_bucket(Bucket="runs")
    return CheckpointBucket(bucket="runs", prefix="a", region="us-east-1", endpoint_url=s3_endpoint)


@pytest.fixture
def cluster(apiserver: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    # The client reads KUBECONFIG when it is imported.
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(apiserver.kubeconfig))
    monkeypatch.setattr(cluster_runs, "_LOOK_SECONDS", 0.05)
    return Cluster(apiserver, namespace)


@pytest.fixture
def single(experiment: Experiment) -> Experiment:
    """The experiment with a single run."""
    return experiment.model_copy(update={"variants": {"nitro": {}}, "seeds": [0]})


@pytest.fixture
def experiment(bucket: CheckpointBucket, tmp_path: Path) -> Experiment:
    job: dict[str, Any] = copy.deepcopy(spec()["job"])
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    job["spec"]["learner"]["checkpoint"]["s3"] = bucket.to_dict()
    return load(write_spec(tmp_path, job=job))


class Sitting:
    """One call of the command, and its runs."""

    def __init__(self, experiment: Experiment, folder: Path, cluster: Cluster) -> None:
        assert experiment.budget
        self.experiment, self.cluster = experiment, cluster
        folders.mark(folder)
        self.folder = ExperimentDir(folder)
        self.runs = plan(experiment)
        self.jobs = NamespaceJobs(cluster.namespace)
        self.place = ClusterRuns(self.folder, experiment, self.jobs)
        self.runner = Runner(self.folder, self.runs, experiment.budget, self.place, jobs=2)

    @property
    def run(self) -> PlannedRun:
        """The only run."""
        (run,) = self.runs
        return run

    @property
    def state(self) -> RunState:
        """The state of the only run."""
        (state,) = self.runner.states
        return state

    def name(self, run: PlannedRun) -> str:
        return object_name(self.folder.identity(), run)

    def report(self, run: PlannedRun, phase: str, **status: Any) -> None:
        """The operator's and the learner's part of the status."""
        self.cluster.patch("ntj", self.name(run), {"status": {"phase": phase, **status}}, status=True)

    def history(self, rounds: int) -> dict[str, Any]:
        entries = [
            {"round": n, "envSteps": 192 * n, "rewardMean": RETURNS[n - 1], "cost": 0.02 * n, "seconds": 36.0}
            for n in range(1, rounds + 1)
        ]
        return {"training": {"round": rounds, "history": entries}}

    def end(self, run: PlannedRun, files: Path, *, stop: Any = None) -> None:
        """What a learner leaves that has done its rounds, under another spec.stop if one is given."""
        job = self.cluster.get("ntj", self.name(run)) or {}
        place = RunBucket(
            CheckpointBucket.model_validate(job["spec"]["learner"]["checkpoint"]["s3"]),
            f"{self.name(run)}-{job['metadata']['uid']}",
        )
        left = ExperimentDir(files)
        finished = stop or run.job.to_dict()["spec"]["stop"]
        pretend(left, run, actors=(2, 2, 2, 2), returns=RETURNS, ended={"versions": VERSIONS})
        written = left.run(run).read_job()
        left.run(run).job.write_text(
            yaml.safe_dump({**written, "spec": {**written["spec"], "stop": finished}})
        )
        place.keep(left.run(run), ended=True)
        self.report(run, "Succeeded", checkpoint={"round": 4, "location": str(place).rstrip("/")})


@asynccontextmanager
async def training(sitting: Sitting) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(sitting.runner.train())
    try:
        yield task
        await asyncio.wait_for(task, PATIENCE_SECONDS)
    finally:
        task.cancel()


async def until(condition: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(eventually, condition)


def begun(sitting: Sitting, run: PlannedRun) -> Callable[[], Any]:
    return lambda: sitting.cluster.get("ntj", sitting.name(run))


def gone(sitting: Sitting, run: PlannedRun) -> Callable[[], bool]:
    return lambda: sitting.cluster.get("ntj", sitting.name(run)) is None


async def test_runs_are_jobs_and_their_files_come_back(
    experiment: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    sitting = Sitting(experiment, tmp_path / "results", cluster)
    sitting.folder.open(experiment)
    async with training(sitting):
        for run in sitting.runs:
            job = await until(begun(sitting, run))
            assert job["metadata"]["labels"] == {LABEL: "two", "kueue.x-k8s.io/queue-name": "team"}
            assert job["metadata"]["annotations"][RUN] == str(run.folder)
            assert job["spec"]["seed"] == run.seed
            assert job["spec"]["stop"] == run.job.to_dict()["spec"]["stop"]
            assert job["spec"]["backend"] == {"type": "Knative"}, "not this machine"
            sitting.report(run, "Running", **sitting.history(3))
            await until(lambda run=run: _state(sitting, run).round == 3)
            assert _state(sitting, run).fraction == 6 / 8
            assert _state(sitting, run).score == RETURNS[2]
            sitting.end(run, tmp_path / "left")
            await until(gone(sitting, run))
    assert [state.status for state in sitting.runner.states] == ["done"] * 4
    text = experiment_report.write(sitting.folder, experiment)
    assert "4 of 4 runs are finished and took 0.16 hours, on Kubernetes v1." in text
    assert ", Python 3.11.2, torch 2.15.0." in text
    again = Sitting(experiment, tmp_path / "results", cluster)
    assert {state.status for state in again.runner.states} == {"done"}


async def test_a_later_command_takes_over_jobs_that_went_on_alone(
    experiment: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    first = Sitting(experiment, tmp_path / "results", cluster)
    run = first.runs[0]
    task = asyncio.create_task(first.runner.train())
    job = await until(begun(first, run))
    task.cancel()
    first.end(run, tmp_path / "left")
    later = Sitting(experiment, tmp_path / "results", cluster)
    async with training(later):
        await until(lambda: gone(later, run)() and _state(later, run).round == 4)
        for other in later.runs[1:]:
            await until(begun(later, other))
            later.end(other, tmp_path / "left")
    uid = job["metadata"]["uid"]
    kept = list((tmp_path / "results").glob("runs/*/*/*/metrics.csv"))
    assert len(kept) == 4
    assert uid not in {one["metadata"]["uid"] for one in cluster.list("ntj")}


async def test_an_interruption_suspends_jobs_and_the_next_command_resumes_them(
    experiment: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    first = Sitting(experiment, tmp_path / "results", cluster)
    both = first.runs[:2]
    async with training(first):
        for run in both:
            await until(begun(first, run))
            first.report(run, "Running", **first.history(2))
            await until(lambda run=run: _state(first, run).round == 2)
        first.runner.interrupt()
        for run in both:
            await until(lambda run=run: begun(first, run)()["spec"]["suspend"])
            first.report(run, "Suspended")
    assert [state.status for state in first.runner.states] == ["stopped"] * 2 + ["waiting"] * 2
    later = Sitting(experiment, tmp_path / "results", cluster)
    async with training(later):
        for run in both:
            await until(lambda run=run: not begun(later, run)()["spec"]["suspend"])
        later.runner.interrupt()
        for run in both:
            await until(lambda run=run: begun(later, run)()["spec"]["suspend"])
            later.report(run, "Suspended")


async def test_a_job_that_failed_stays_until_it_is_begun_anew(
    single: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    first = Sitting(single, tmp_path / "results", cluster)
    run = first.run
    why = [{"type": "Failed", "status": "True", "reason": "OutOfMemory", "message": "too little memory"}]
    async with training(first):
        failed = await until(begun(first, run))
        first.report(run, "Failed", conditions=why)
    state = first.state
    assert state.status == "failed"
    assert state.message.startswith("too little memory\n  more: kubectl describe ntj nitro-0-")
    assert begun(first, run)()["metadata"]["uid"] == failed["metadata"]["uid"]
    later = Sitting(single, tmp_path / "results", cluster)
    async with training(later):
        await until(lambda: (begun(later, run)() or failed)["metadata"]["uid"] != failed["metadata"]["uid"])
        later.end(run, tmp_path / "left")


async def test_a_larger_budget_trains_anew_what_had_ended_but_was_not_copied(
    single: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    first = Sitting(single, tmp_path / "results", cluster)
    run = first.run
    task = asyncio.create_task(first.runner.train())
    ended = await until(begun(first, run))
    task.cancel()
    first.end(run, tmp_path / "left")
    larger = single.model_copy(update={"budget": single.budget.model_copy(update={"actor_rounds": 9})})  # type: ignore[union-attr]
    later = Sitting(larger, tmp_path / "results", cluster)
    async with training(later):
        await until(lambda: (begun(later, run)() or ended)["metadata"]["uid"] != ended["metadata"]["uid"])
        assert begun(later, run)()["spec"]["stop"]["actorRounds"] == 9
        later.end(later.runs[0], tmp_path / "left")


@pytest.mark.parametrize(
    ("meddle", "words"),
    [
        (lambda job: job["spec"].update(seed=99), "in which these fields differ: spec.seed. To begin anew"),
        (lambda job: job["spec"]["environment"].pop("envsPerActor"), "differ: spec.environment.envsPerActor"),
    ],
)
async def test_another_job_of_the_name_is_left_alone(
    single: Experiment, cluster: Cluster, tmp_path: Path, meddle: Callable[[Any], Any], words: str
) -> None:
    sitting = Sitting(single, tmp_path / "results", cluster)
    run = sitting.run
    job = manifest(single, run, run.job, sitting.folder.identity())
    meddle(job)
    cluster.apply(job)
    await sitting.runner.train()
    state = sitting.state
    assert state.status == "failed"
    assert words in state.message
    assert begun(sitting, run)()["metadata"]["generation"] == 1, "it was not changed"


@pytest.mark.parametrize("held", [False, True])
async def test_a_job_that_somebody_deletes_is_reported(
    single: Experiment, cluster: Cluster, tmp_path: Path, held: bool
) -> None:
    """Also one that a finalizer holds, which the operator stops."""
    sitting = Sitting(single, tmp_path / "results", cluster)
    run = sitting.run
    async with training(sitting):
        await until(begun(sitting, run))
        if held:
            cluster.patch("ntj", sitting.name(run), {"metadata": {"finalizers": ["drill.example/x"]}})
        cluster.kubectl("delete", "ntj", sitting.name(run), "--wait=false")
        if held:
            sitting.report(run, "Deleting")
    state = sitting.state
    assert (state.status, "was deleted" in state.message) == ("failed", True)


async def test_a_copy_without_the_runs_end_is_refused_and_the_job_stays(
    single: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    sitting = Sitting(single, tmp_path / "results", cluster)
    run = sitting.run
    async with training(sitting):
        await until(begun(sitting, run))
        sitting.end(run, tmp_path / "left", stop={"rounds": 1})
    state = sitting.state
    assert state.status == "failed"
    assert "its files could not be copied: the copy has no end of the run, or that of" in state.message
    assert begun(sitting, run)()
    assert not sitting.folder.run(run).summary.exists()


async def test_a_job_whose_files_are_here_already_is_removed(
    experiment: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    """A process was killed between the copy and the removal."""
    one = experiment.model_copy(update={"variants": {"nitro": {}}, "seeds": [0, 1]})
    sitting = Sitting(one, tmp_path / "results", cluster)
    copied, other = sitting.runs
    for run in sitting.runs:
        cluster.apply(manifest(one, run, run.job, sitting.folder.identity()))
        pretend(sitting.folder, run, actors=(2, 2, 2, 2), returns=RETURNS, finished=run is copied)
        sitting.report(run, "Succeeded")
    async with sitting.place:
        pass
    assert begun(sitting, copied)() is None
    assert begun(sitting, other)(), "it has not been copied"


async def test_files_that_cannot_be_copied_leave_the_job(
    single: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    sitting = Sitting(single, tmp_path / "results", cluster)
    run = sitting.run
    async with training(sitting):
        await until(begun(sitting, run))
        sitting.report(run, "Succeeded", checkpoint={"round": 4, "location": "s3://no-such-bucket/a/run"})
    state = sitting.state
    assert state.status == "failed"
    assert "is done, but its files could not be copied: s3://no-such-bucket/a/run" in state.message
    assert begun(sitting, run)()


async def test_a_user_without_the_right_is_told_once(
    experiment: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    sitting = Sitting(experiment, tmp_path / "results", cluster)
    sitting.jobs.client.default_headers["Impersonate-User"] = "nobody"
    with pytest.raises(BackendError, match=r'403.*User "nobody" cannot list resource "nitrotrainingjobs"'):
        await sitting.runner.train()
    assert cluster.list("ntj") == []


async def test_rounds_that_a_job_reports_are_scored_as_its_files_are(
    single: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    sitting = Sitting(single, tmp_path / "results", cluster)
    run = sitting.run
    assert sitting.place.columns(run) is None
    async with training(sitting):
        await until(begun(sitting, run))
        sitting.report(run, "Running", **sitting.history(4))
        await until(lambda: _state(sitting, run).round == 4)
        told = sitting.place.columns(run)
        assert told is not None
        sitting.end(run, tmp_path / "left")
    files = sitting.place.columns(run)
    assert files is not None
    assert len(files) > len(told)
    assert list(steps_reached(single, told)) == list(steps_reached(single, files))
    late = {name: values[1:] for name, values in told.items()}
    assert list(steps_reached(single, late)) == [], "what came before is not known"
    for name, values in told.items():
        if name not in ("actors", "evaluation_mean"):
            assert values == pytest.approx(files[name]), name


async def test_what_will_not_go_on_is_removed(
    experiment: Experiment, cluster: Cluster, tmp_path: Path
) -> None:
    sitting = Sitting(experiment, tmp_path / "results", cluster)
    run = sitting.runs[0]
    cluster.apply(manifest(experiment, run, run.job, sitting.folder.identity()))
    await sitting.place.discard(run)
    assert cluster.list("ntj") == []
    await sitting.place.discard(run)


def test_every_variant_is_checked_before_the_first_job(tmp_path: Path) -> None:
    job = copy.deepcopy(spec()["job"])
    job["spec"]["backend"] = {"type": "Knative", "local": {"processes": 1}}
    experiment = load(write_spec(tmp_path, job=job))
    search = {
        "trials": 2,
        "seeds": [9],
        "space": {"spec.algorithm.hyperparameters.epochs": {"low": 1, "high": 3}},
    }
    searching = load(write_spec(tmp_path, job=job, search=search, variants={}, seeds=[5]))
    for one in (experiment, searching):
        with pytest.raises(JobInvalid, match=r"spec\.backend"):
            cluster_runs.check(one)


def test_names_are_the_same_each_time_and_those_of_no_other_run(tmp_path: Path) -> None:
    experiment = load(
        write_spec(
            tmp_path,
            variants={"a" * 39: {}, "a" * 40: {}},
            environments=["Hopper-v5", "Walker2d-v5"],
            set={"spec.environment.entryPoint": None},
        )
    )
    names = [object_name("one", run) for run in plan(experiment)]
    assert names == [object_name("one", run) for run in plan(experiment)]
    assert len({*names}) == 8
    assert all(len(name) <= 40 for name in names)
    assert not {*names} & {object_name("another", run) for run in plan(experiment)}


def test_a_manifest_has_nothing_that_would_lose_the_run(experiment: Experiment) -> None:
    job = copy.deepcopy(experiment.job)
    job["spec"] |= {"suspend": True, "ttlSecondsAfterFinished": 60}
    job["spec"]["learner"]["checkpoint"] = {"pvc": {"size": "2Gi"}}
    one = experiment.model_copy(update={"job": job})
    run = plan(one)[0]
    spec = manifest(one, run, run.job, "one")["spec"]
    assert {"suspend", "ttlSecondsAfterFinished"}.isdisjoint(spec)
    assert spec["learner"]["checkpoint"]["pvc"] == {"size": "2Gi", "retain": False}
    job["spec"]["learner"]["checkpoint"]["pvc"]["retain"] = True
    kept = manifest(one, run, run.job, "one")["spec"]["learner"]["checkpoint"]["pvc"]
    assert kept["retain"] is True, "as the user says"


def test_a_manifest_has_what_the_experiment_and_its_variants_give(tmp_path: Path) -> None:
    """Memory and claims follow the cluster only where nobody names them. A control has its source's."""
    large = {"spec.pricing.actorMemoryGB": 3}
    experiment = load(
        write_spec(
            tmp_path,
            variants={"usual": {}, "large": large},
            permuted={"large-permuted": "large"},
            set={"spec.learner.checkpoint.pvc.retain": True},
        )
    )
    specs = {run.variant: manifest(experiment, run, run.job, "one")["spec"] for run in plan(experiment)}
    assert {name: spec["pricing"].get("actorMemoryGB") for name, spec in specs.items()} == {
        "usual": None,
        "large": 3,
        "large-permuted": 3,
    }
    assert all(spec["learner"]["checkpoint"]["pvc"]["retain"] is True for spec in specs.values())


def test_a_trial_of_a_search_has_a_manifest(tmp_path: Path) -> None:
    rate = "spec.algorithm.hyperparameters.learningRate"
    wanted = spec(search={"trials": 2, "seeds": [7], "space": {rate: {"low": 1e-4, "high": 1e-2}}})
    del wanted["variants"]
    path = tmp_path / "search.yaml"
    path.write_text(yaml.safe_dump(wanted))
    experiment = load(path)
    cluster_runs.check(experiment)
    run = trial_runs(experiment, 0, {rate: 0.002})[0]
    made = manifest(experiment, run, run.job, "one")["spec"]
    assert made["algorithm"]["hyperparameters"]["learningRate"] == 0.002


def test_the_command_finds_mistakes_and_says_where_the_jobs_are(
    experiment: Experiment, apiserver: ApiServer, cluster: Cluster, tmp_path: Path
) -> None:
    def run_here(
        *arguments: str, kubeconfig: Path = apiserver.kubeconfig
    ) -> subprocess.CompletedProcess[str]:
        command = ("experiment", "run", tmp_path / "two.yaml", "--dir", tmp_path / "results")
        return nitro(*command, *arguments, variables={"KUBECONFIG": str(kubeconfig)})

    alone = run_here("--namespace", "a")
    assert (alone.returncode, alone.stderr) == (2, f"{LOADING}nitro: --namespace a: needs --cluster\n")
    nowhere = run_here("--cluster", kubeconfig=tmp_path / "none")
    assert nowhere.returncode == 1
    assert "Set KUBECONFIG" in nowhere.stderr
    assert not (tmp_path / "results").exists(), "nothing is begun"
    folders.mark(tmp_path / "results")
    for run in plan(experiment):
        job = manifest(experiment, run, run.job, ExperimentDir(tmp_path / "results").identity())
        job["spec"]["seed"] = 99
        cluster.apply(job)
    done = run_here("--cluster", "--namespace", cluster.namespace)
    assert done.returncode == 1
    assert f"jobs: kubectl get ntj --namespace {cluster.namespace} -l nitro.dev/experiment=two" in done.stdout
    assert "4 of 4 runs failed" in done.stderr


def _state(sitting: Sitting, run: PlannedRun) -> RunState:
    (state,) = (one for one in sitting.runner.states if one.run.folder == run.folder)
    return state
