"""What is said of an environment's id that is not registered on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nitro_api import load_job
from nitro_learner.cli import main
from nitro_learner.studies.environment_ids import doubts, mistakes

JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: looked-up}
spec:
  environment: {id: Hopper-v5}
"""


@pytest.mark.parametrize(
    ("id", "meant"),
    [
        ("Pendulm-v1", "Pendulum-v1"),
        ("Hopper-v9", "Hopper-v5"),
        ("Hopper", "Hopper-v5"),
        ("cartpole-v1", "CartPole-v1"),
        ("phys2d/CartPol-v1", "phys2d/CartPole-v1"),
        ("ALE/Pnog-v5", "ALE/Pong-v5"),
        ("ALE/Pong-v4", "ALE/Pong-v5"),
    ],
)
def test_an_id_that_is_nearly_a_registered_one_is_a_mistake(id: str, meant: str) -> None:
    (error,) = mistakes(load_job(JOB, [f"spec.environment.id={id}"]).spec)
    assert (error.path, error.value) == ("spec.environment.id", id)
    assert f"did you mean {meant}?" in error.message


@pytest.mark.parametrize(
    "environment",
    ["{id: CartPole-v1}", "{id: ALE/Pong-v5}", "{id: phys2d/CartPole-v1}", "{id: 'my.games:Pendulm-v1'}",
     "{id: Pendulm-v1, entryPoint: 'mine:Game'}", "{entryPoint: 'mine:Game'}"],
)  # fmt: skip
def test_registered_ids_and_environments_of_the_user_are_accepted(environment: str) -> None:
    spec = load_job(JOB, [f"spec.environment={environment}"]).spec
    assert (mistakes(spec), doubts(spec)) == ([], [])


@pytest.mark.parametrize("id", ["Chess-v0", "my_games/Pendulum-v1", "my_games/Pendulm-v1"])
def test_an_id_that_the_actors_may_know_gives_only_a_warning(id: str) -> None:
    spec = load_job(JOB, [f"spec.environment.id={id}"]).spec
    assert mistakes(spec) == []
    assert doubts(spec)[0].startswith(f"spec.environment.id: {id} is not registered here")


@pytest.mark.parametrize(
    "image",
    ["spec.actor.image=registry.example.com/games:1",
     "spec.backend={type: Lambda, lambda: {roleArn: 'arn:aws:iam::123456789012:role/nitro', "
     "image: '123456789012.dkr.ecr.us-east-2.amazonaws.com/games:1'}}"],
)  # fmt: skip
def test_an_actor_image_of_the_user_may_register_a_similar_id(image: str) -> None:
    spec = load_job(JOB, ["spec.environment.id=Pendulm-v1", image]).spec
    assert mistakes(spec) == []
    assert doubts(spec)[0].endswith("did you mean Pendulum-v1?")
    small = "spec.network.hiddenSizes=[64]"
    assert mistakes(load_job(JOB, ["spec.environment.id=ALE/Pnog-v5", image, small]).spec)


def test_validate_reports_an_unknown_id_beside_every_other_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    changes = ("spec.environment.id=ALE/Pnog-v5", "spec.seed=[", "spec..seed=1", "spec.stop.rounds=-1",
               "metadata.name=Bad_Name", "spec.backend.type=Lambda")  # fmt: skip
    arguments = [word for change in changes for word in ("--set", change)]
    assert main(["validate", "--json", str(path), *arguments]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert {error["path"] for error in answer["errors"]} == {
        "", "spec.seed", "spec.stop.rounds", "metadata.name", "spec.backend.lambda", "spec.environment.id",
    }  # fmt: skip
    assert main(["validate", "--json", str(path), "--set", "spec.environment.id=Chess-v0"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "Chess-v0 is not registered here" in warning


def test_train_reports_an_unknown_id_beside_every_other_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = tmp_path / "job.yaml", tmp_path / "run"
    path.write_text(JOB.replace("Hopper-v5", "Pendulm-v1"))
    assert main(["train", str(path), "--run-dir", str(run), "--set", "spec.seed=-1"]) == 2
    told = capsys.readouterr().err
    assert "spec.seed: -1" in told
    assert "did you mean Pendulum-v1?" in told
    assert not run.exists()
