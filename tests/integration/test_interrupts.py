"""Ctrl-C before a command is under way: a short message, exit code 130, and nothing left behind.

A real process sends itself SIGINT at a chosen moment: when it first imports a module, or opens a file.
"""

import subprocess
from pathlib import Path

import pytest

from experiment_support import write_spec
from train_support import LOADING, nitro, python, write_job

# The audit hook hears of both moments; NITRO_TEST_MOMENT is `import NAME` or `open END-OF-A-PATH`.
PROGRAM = """
import os, signal, sys
kind, _, wanted = os.environ["NITRO_TEST_MOMENT"].partition(" ")
def hook(event, arguments, sent=[]):
    if event == kind and not sent:
        name = str(arguments[0])
        if name == wanted if kind == "import" else name.endswith(wanted):
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest may run where it is ignored
sys.addaudithook(hook)
from nitro_learner.cli import main
sys.exit(main())
"""


def interrupted(moment: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return python(PROGRAM, *arguments, NITRO_TEST_MOMENT=moment)


@pytest.mark.parametrize(
    "moment",
    [
        "import argparse",
        "import pydantic",
        "import pydantic_core",
        "import nitro_learner.cli.common",
        "import numpy",
        "import numpy.linalg",
        "import torch",
        "import torch._C",
        "import torch.nn.functional",
        "import nitro_learner.training.trainer",
        "open /.lock",
        "open .job.yaml.partial",
        "open ledger.jsonl",
    ],
)
def test_an_early_interrupt_ends_training_cleanly(tmp_path: Path, moment: str) -> None:
    run = tmp_path / "run"
    done = interrupted(moment, "train", write_job(tmp_path), "--run-dir", run)
    assert done.returncode == 130, done.stderr
    told = done.stderr.removeprefix(LOADING)
    assert told.startswith("nitro: interrupted"), done.stderr
    assert told.count("\n") == 1, done.stderr
    assert not run.exists()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    done = nitro("train", write_job(directory, stop={"rounds": 1}), "--run-dir", directory / "run")
    assert done.returncode == 0, done.stderr
    return directory / "run"


@pytest.mark.parametrize(
    "moment",
    [
        "import pydantic",
        "import torch",
        "import torch.nn.functional",
        "import mujoco",
    ],
)
def test_an_early_interrupt_ends_an_evaluation_cleanly(run: Path, moment: str) -> None:
    done = interrupted(moment, "evaluate", run, "--episodes", "5")
    assert (done.returncode, done.stderr) == (130, f"{LOADING}nitro: interrupted\n")


@pytest.mark.parametrize("moment", ["import pydantic", "import nitro_experiments.running.runner"])
def test_an_early_interrupt_ends_an_experiment_cleanly(tmp_path: Path, moment: str) -> None:
    results = tmp_path / "results"
    done = interrupted(moment, "experiment", "run", write_spec(tmp_path), "--dir", results)
    assert (done.returncode, done.stderr) == (130, f"{LOADING}nitro: interrupted\n")
    assert not results.exists()


def test_an_interrupted_resume_keeps_its_run(run: Path) -> None:
    before = sorted(path.name for path in run.iterdir())
    for moment in ("import torch", "open .job.yaml.partial"):
        done = interrupted(moment, "train", "--resume", run, "--set", "spec.stop.rounds=2")
        assert done.returncode == 130, done.stderr
        assert "Traceback" not in done.stderr
    assert sorted(path.name for path in run.iterdir() if path.suffix != ".partial") == before
