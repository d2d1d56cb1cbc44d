"""What a command imports, and when: before it says anything, and for a plain training on this machine."""

import os
from pathlib import Path

import pytest

from train_support import LOADING, SUPPORT, python, write_job

# Says on standard error when one of the modules begins to be imported.
PROGRAM = """
import os, sys
named = sys.argv.pop(1).split(",")
def hook(event, arguments):
    if event == "import" and arguments[0] in named:
        os.write(2, f"import {arguments[0]}\\n".encode())
sys.addaudithook(hook)
from nitro_learner.cli import main
sys.exit(main())
"""
# The import of torch waits until the actors' processes begin; the audit hook hears of both.
BESIDE = """
import os, sys, threading
begun = threading.Event()
def hook(event, arguments):
    if event == "subprocess.Popen" and "nitro_actor.server" in arguments[1]:
        begun.set()
    if event == "import" and arguments[0] == "torch" and not begun.wait(120):
        os._exit(99)
sys.addaudithook(hook)
from nitro_learner.cli import main
sys.exit(main())
"""
HEAVY = ("torch", "numpy", "pydantic", "nitro_api", "yaml", "redis", "aiohttp", "matplotlib")
UNNEEDED = (
    *("tensorboard", "scipy", "gymnasium", "mujoco", "kubernetes", "boto3", "botocore"),
    *("torch._dynamo", "torch._inductor", "torch.onnx", "torch.utils.tensorboard", "onnx", "sympy", "ray"),
    *("mlflow", "wandb", "optuna", "pandas", "av"),
)


@pytest.mark.parametrize(
    "command",
    [
        ["train", "absent.yaml"],
        ["evaluate", "absent"],
        ["export", "absent", "--format", "safetensors"],
        ["serve", "absent"],
        ["experiment", "run", "absent.yaml"],
        ["landscape", "absent"],
        ["profile", "absent.yaml"],
        ["pretrain-scaler", "absent.yaml"],
    ],
    ids=lambda command: command[0],
)
def test_a_slow_command_says_that_it_loads_before_it_imports_anything_slow(command: list[str]) -> None:
    done = python(PROGRAM, ",".join(HEAVY), *command)
    assert done.returncode in (1, 2), done.stderr
    assert done.stderr.startswith(LOADING), done.stderr
    assert done.stderr.count(LOADING) == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    "command",
    [
        ["train", "absent.yaml", "--json"],
        ["evaluate", "absent", "--json"],
        ["experiment", "run", "absent.yaml", "--json"],
        ["profile", "absent.yaml", "--json"],
        ["validate", "absent.yaml"],
    ],
    ids=" ".join,
)
def test_what_a_program_reads_and_what_is_quick_say_nothing_of_loading(command: list[str]) -> None:
    done = python(PROGRAM, "none", *command)
    assert done.returncode in (1, 2), done.stderr
    assert "loading" not in done.stderr + done.stdout


def test_a_plain_training_imports_only_what_it_needs(tmp_path: Path) -> None:
    """From the command to its end, the picture included."""
    job = write_job(tmp_path, environment={"id": "CartPole-v1", "rolloutLength": 64}, stop={"rounds": 1})
    done = python(PROGRAM, ",".join(("torch", *UNNEEDED)), "train", job, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    told = done.stderr.splitlines(keepends=True)
    assert told[:2] == [LOADING, "import torch\n"], done.stderr
    assert not {line for line in told if line.startswith("import ")} - {"import torch\n"}
    assert (tmp_path / "run" / "result.png").is_file()


def test_the_actors_start_beside_the_import_of_torch(tmp_path: Path) -> None:
    job = write_job(tmp_path, stop={"rounds": 1})
    done = python(BESIDE, "train", job, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr


def test_what_an_actor_prints_at_an_early_start_is_kept(tmp_path: Path) -> None:
    """It is printed before the run has a folder."""
    (tmp_path / "chatty.py").write_text(
        "import gymnasium\nprint('the robot wakes')\ndef make(**_): return gymnasium.make('CartPole-v1')\n"
    )
    environment = {"id": "chatty", "entryPoint": "chatty:make", "rolloutLength": 64}
    job = write_job(tmp_path, environment=environment, stop={"rounds": 1})
    path = f"{SUPPORT}{os.pathsep}{tmp_path}"
    done = python(BESIDE, "train", job, "--no-check", "--run-dir", tmp_path / "run", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "actors.log").read_text().count("the robot wakes") == 2
