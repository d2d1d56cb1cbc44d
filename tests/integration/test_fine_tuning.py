"""Fine-tuning on one machine: runs that begin with the policies of another one, and the best policy of a
run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
import yaml

import nitro_learner as nitro
from agents_jobs import job as agents_job
from nitro_api import JobInvalid
from nitro_learner.checkpoints.store import CheckpointStore, NoCheckpointError, load, pack
from nitro_learner.cli import main
from nitro_learner.run.rundir import RunDir, RunDirError

CARTPOLE = {"id": "CartPole-v1", "rolloutLength": 64, "envsPerActor": 2}
SMALL: dict[str, Any] = {
    "algorithm": {"hyperparameters": {"epochs": 1, "minibatchSize": 64}},
    "network": {"hiddenSizes": [8]},
    "evaluation": {"episodes": 2, "everyRounds": 1},
    "scaling": {"minActors": 1, "maxActors": 1},
    "backend": {"type": "Local", "local": {"processes": 1}},
}
SPREAD = {
    "environment": {"kwargs": {"N": 2, "max_cycles": 5}, "rolloutLength": 10, "envsPerActor": 2},
    **SMALL,
}


def job(rounds: int = 2, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "tuned"},
        "spec": {"environment": CARTPOLE, **SMALL, "stop": {"rounds": rounds}, **spec},
    }


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> nitro.Run:
    """A run of four rounds of which the newest checkpoint alone is kept, beside the best policy."""
    kept = {"checkpoint": {"keepLast": 1}}
    return nitro.train(job(4, learner=kept), run_dir=tmp_path_factory.mktemp("first") / "run")


def state(run: Path, name: str) -> dict[str, Any]:
    return load(run / "checkpoints" / name, attached=False).state


def learned(run: Path, name: str) -> bytes:
    """The weights and the optimiser's state of the only policy."""
    (learner,) = state(run, name)["policies"]["learners"]
    return pack(0, {part: learner["state"][part] for part in ("parameters", "adam", "observations")})


def test_a_run_begins_with_the_policies_of_another_one(
    first: nitro.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job(1, resumeFrom={"job": "on-a-cluster"})))
    slower = "spec.algorithm.hyperparameters.learningRate=1e-5"
    run = tmp_path / "run"
    words = [str(tmp_path / "job.yaml"), "--from", str(first.path), "--set", slower, "--run-dir", str(run)]
    assert main(["train", *words]) == 0
    said = capsys.readouterr().out
    assert f"beginning with the policies of {first.path} after round 4" in said
    assert learned(run, "round-000000.safetensors") == learned(first.path, "round-000004.safetensors")
    began = {"from": str(first.path), "run": state(first.path, "round-000004.safetensors")["run"], "round": 4}
    assert RunDir(run).read_start() == began
    assert nitro.Run(run).summary["start"] == began
    assert nitro.Run(run).metrics["round"].tolist() == [1], "rounds begin anew"
    assert nitro.Run(run).job.spec.resume_from is None


def test_a_run_begins_with_the_best_policy_by_its_file(first: nitro.Run, tmp_path: Path) -> None:
    best = first.path / "checkpoints" / "best.safetensors"
    run = nitro.train(job(1), run_dir=tmp_path / "run", start=best)
    assert learned(run.path, "round-000000.safetensors") == learned(first.path, best.name)
    assert RunDir(run.path).read_start()["round"] == load(best).round


def test_a_run_that_was_stopped_before_its_first_checkpoint_still_begins_with_the_other_one(
    first: nitro.Run, tmp_path: Path
) -> None:
    undisturbed = nitro.train(job(2), run_dir=tmp_path / "undisturbed", start=first)
    run = tmp_path / "run"
    shutil.copytree(undisturbed.path, run)
    for name in ("checkpoints", "tensorboard"):
        shutil.rmtree(run / name)
    for name in ("metrics.csv", "summary.json", "ledger.jsonl"):
        (run / name).unlink()
    (run / ".lock").write_bytes((undisturbed.path / ".lock").read_bytes())
    assert nitro.resume(run).metrics["policy_loss"].tolist() == undisturbed.metrics["policy_loss"].tolist()
    assert learned(run, "round-000000.safetensors") == learned(first.path, "round-000004.safetensors")
    last = "round-000002.safetensors"
    assert learned(run, last) == learned(undisturbed.path, last)


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({"network": {"hiddenSizes": [9]}}, ["spec.network.hiddenSizes is [8] there and [9] here"]),
        (
            {"algorithm": {"name": "impact"}},
            ["spec.algorithm.name is 'ppo' there and 'impact' here"],
        ),
        (
            {"environment": {**CARTPOLE, "id": "Pendulum-v1"}},
            [
                "observations of agent are [4] there and [3] here",
                "actions of agent are ['discrete', 2] there and ['continuous', 1] here",
            ],
        ),
    ],
    ids=["network", "algorithm", "spaces"],
)
def test_what_does_not_fit_is_refused_by_name_and_leaves_nothing(
    first: nitro.Run, tmp_path: Path, changes: dict[str, Any], differing: list[str]
) -> None:
    with pytest.raises(JobInvalid) as refused:
        nitro.train(job(1, **changes), run_dir=tmp_path / "run", start=first)
    (error,) = refused.value.errors
    assert error.path == f"start={first.path}"
    assert error.message.startswith("does not fit this job: ")
    assert error.message.endswith(". They must be equal; correct the job")
    assert all(one in error.message for one in differing), error.message
    assert not list((tmp_path / "run").glob("*"))


def test_a_start_that_is_not_there_is_named(
    first: nitro.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job(1)))
    (tmp_path / "empty").mkdir()
    for given, code, said in (
        ("nowhere", 2, "nowhere: does not exist; name a run folder or a checkpoint"),
        ("empty", 2, "empty: has no checkpoint; name a run that has one"),
        ("s3://", 2, "the address of a run is s3://BUCKET/PREFIX/RUN"),
        ("job.yaml", 1, "no job.yaml in it, so it is no run folder"),
    ):
        place = given if given.startswith("s3:") else str(tmp_path / given)
        words = [str(tmp_path / "job.yaml"), "--from", place, "--run-dir", str(tmp_path / "run")]
        told = main(["train", *words]), capsys.readouterr().err
        assert said in told[1], told
        assert told[0] in (code, 2)
        assert not (tmp_path / "run").exists()
    assert main(["train", "--resume", str(first.path), "--from", str(first.path)]) == 2
    assert "--from begins a new run, and --resume goes on with one" in capsys.readouterr().err


def test_a_changed_setting_is_refused_on_resume_and_fine_tuning_is_offered_where_it_fits(
    first: nitro.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = "spec.algorithm.hyperparameters.learningRate=1e-5"
    assert main(["train", "--resume", str(first.path), "--set", changed]) == 2
    tuned = f"nitro train {first.path}/job.yaml --from {first.path} --set {changed}"
    assert f"To train it there from what this run has learned: {tuned}\n" in capsys.readouterr().err
    assert main(["train", "--resume", str(first.path), "--set", "spec.network.hiddenSizes=[9]"]) == 2
    told = capsys.readouterr().err
    assert "To train the changed job in a new folder: " in told
    assert "--from" not in told, "its networks do not fit"


def test_a_run_whose_learning_rate_falls_is_not_extended_and_fine_tuning_is_offered(tmp_path: Path) -> None:
    falling = {"hyperparameters": {**SMALL["algorithm"]["hyperparameters"], "learningRateAnneal": True}}
    run = nitro.train(job(1, algorithm=falling), run_dir=tmp_path / "run")
    with pytest.raises(RunDirError, match=f"with --from {run.path} it begins with what this run has learned"):
        nitro.resume(run, rounds=3)


def test_the_best_policy_is_evaluated_exported_and_loaded(
    first: nitro.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = CheckpointStore(RunDir(first.path).checkpoints, keep_last=1)
    found = store.best()
    assert found is not None
    round, mean = found["round"], found["mean"]
    assert first.summary["best"] == found
    means = [*first.metrics["evaluation_mean"].tolist(), first.summary["evaluation"]["mean"]]
    assert mean == np.nanmax(means)
    assert store.rounds() == [4], "it outlives its round's checkpoint"

    played = state(first.path, "best.safetensors")["played"]["policies"]["default"]["tensors"]
    for policy in (nitro.load(first.path, best=True), first.policy(best=True)):
        assert policy.round == round
        mine = policy.weights.policies["default"].tensors
        assert {name: array.tobytes() for name, array in mine.items()} == {
            name: np.asarray(array).tobytes() for name, array in played.items()
        }
    assert nitro.load(first.path).round == 4

    assert main(["evaluate", str(first.path), "--best", "--episodes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["round"] == round
    with pytest.raises(SystemExit):
        main(["evaluate", str(first.path), "--best", "--checkpoint", "4"])
    out = tmp_path / "exported"
    words = [str(first.path), "--best", "--format", "safetensors", "--out", str(out)]
    assert main(["export", *words]) == 0
    assert nitro.load(out / "policy.safetensors").round == round


def test_a_run_without_a_best_policy_is_named(
    first: nitro.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(first.path, run)
    (run / "checkpoints" / "best.safetensors").unlink()
    said = f"{run}: no checkpoints/best.safetensors in it: the run was not evaluated yet"
    with pytest.raises(NoCheckpointError, match=said):
        nitro.load(run, best=True)
    for words in (["evaluate", run], ["serve", run], ["export", run, "--format", "onnx"]):
        capsys.readouterr()
        assert main([*map(str, words), "--best"]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("algorithm", ["mappo", "qmix"])
def test_runs_of_several_agents_have_a_best_policy_and_begin_with_another_runs(
    algorithm: str, tmp_path: Path
) -> None:
    spec = {**SPREAD, "algorithm": {"teamReward": True}, "stop": {"rounds": 3}}
    run = nitro.train(agents_job(name=algorithm, **spec), run_dir=tmp_path / "run")
    policy = run.policy(best=True)
    assert policy.round == run.summary["best"]["round"]
    assert set(policy.agents) == {"agent_0", "agent_1"}
    assert main(["evaluate", str(run.path), "--best", "--episodes", "1"]) == 0
    best = run.path / "checkpoints" / "best.safetensors"
    spec["stop"] = {"rounds": 1}
    tuned = nitro.train(agents_job(name=algorithm, **spec), run_dir=tmp_path / "tuned", start=best)
    begun, there = (
        {name: one["tensors"] for name, one in state(place, file)["played"]["policies"].items()}
        for place, file in ((tuned.path, "round-000000.safetensors"), (run.path, best.name))
    )
    assert pack(0, begun) == pack(0, there), "exploration alone begins anew"
    spec["environment"] = {**SPREAD["environment"], "kwargs": {"N": 3, "max_cycles": 5}}
    with pytest.raises(JobInvalid, match=r"agents of .*observations of "):
        nitro.train(agents_job(name=algorithm, **spec), run_dir=tmp_path / "more", start=run)


@pytest.fixture
def in_a_bucket(s3_endpoint: str, first: nitro.Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the first run in a bucket that boto3 finds by its own variables."""
    for name, value in (
        ("AWS_ENDPOINT_URL", s3_endpoint),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "who"),
        ("AWS_SECRET_ACCESS_KEY", "what"),
    ):
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="tuned")
    for path in first.path.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            s3.upload_file(str(path), "tuned", f"team/first/{path.relative_to(first.path)}")
    yield "s3://tuned/team/first"
    for item in s3.list_objects_v2(Bucket="tuned")["Contents"]:
        s3.delete_object(Bucket="tuned", Key=item["Key"])
    s3.delete_bucket(Bucket="tuned")


def test_a_run_in_a_bucket_is_begun_with_and_its_best_policy_loaded(
    in_a_bucket: str, first: nitro.Run, tmp_path: Path
) -> None:
    best = first.summary["best"]["round"]
    assert nitro.load(in_a_bucket).round == 4
    assert nitro.load(in_a_bucket, best=True).round == best
    assert nitro.load(f"{in_a_bucket}/checkpoints/best.safetensors").round == best
    with pytest.raises(NoCheckpointError, match=r"s3://tuned/team/second: no checkpoints/best\."):
        nitro.load("s3://tuned/team/second", best=True)
    run = nitro.train(job(1), run_dir=tmp_path / "run", start=in_a_bucket)
    assert learned(run.path, "round-000000.safetensors") == learned(first.path, "round-000004.safetensors")
    file = f"{in_a_bucket}/checkpoints/best.safetensors"
    run = nitro.train(job(1), run_dir=tmp_path / "best", start=file)
    assert learned(run.path, "round-000000.safetensors") == learned(first.path, "best.safetensors")
    assert RunDir(run.path).read_start()["from"] == file


SETS = [{"name": "short", "kwargs": {"max_episode_steps": 7}, "seed": 3}, {"name": "usual"}]


def test_evaluations_in_environments_of_their_own_have_columns_and_the_first_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation = {**SMALL["evaluation"], "environment": SETS}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job(3, evaluation=evaluation)))
    run = tmp_path / "run"
    assert main(["train", str(tmp_path / "job.yaml"), "--run-dir", str(run)]) == 0
    said = capsys.readouterr().out
    assert "of each set: short 7.0, usual " in said
    assert "; short decides" in said
    found = nitro.Run(run)
    assert found.metrics["evaluation_short_mean"].tolist()[1:] == [7, 7]
    assert np.isnan(found.metrics["evaluation_usual_mean"][0])
    assert (found.metrics["evaluation_usual_mean"][1:] > 7).all()
    assert found.metrics["evaluation_mean"].tolist()[1:] == [7, 7]
    assert found.summary["evaluation"]["sets"]["short"] == 7
    assert found.summary["best"] == {"round": 1, "mean": 7}, "no later one was better"
    longer = nitro.resume(run, rounds=4)
    assert longer.metrics["evaluation_short_mean"].tolist()[1:] == [7, 7, 7]


def test_evaluations_of_several_agents_have_environments_of_their_own(tmp_path: Path) -> None:
    spec = {**SPREAD, "algorithm": {"teamReward": True}, "stop": {"rounds": 2}}
    sets = [{"name": "usual"}, {"name": "longer", "kwargs": {"max_cycles": 9}}]
    spec["evaluation"] = {**spec["evaluation"], "environment": sets}
    run = nitro.train(agents_job(name="vdn", **spec), run_dir=tmp_path / "run")
    usual, longer = (run.metrics[f"evaluation_{name}_mean"][-1] for name in ("usual", "longer"))
    assert longer < usual < 0, "more steps cost more"
    assert run.metrics["evaluation_mean"][-1] == usual
