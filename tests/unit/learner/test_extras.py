"""A job that needs RLlib where it is not installed is told so before anything starts."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from learner_support import job
from nitro_api import JobInvalid
from nitro_learner import algorithms, extras, failures
from nitro_learner.cli import main
from nitro_learner.failures import TrainingFailed

REMEDY = (
    "run pip install 'nitro-learner[train,rllib]', on a cluster use a learner image that was built with "
    "--build-arg EXTRAS=rllib"
)
MISSING = f'spec.algorithm.name: "rllib/ppo"; needs Ray\'s RLlib, which is not installed; {REMEDY}'


@pytest.fixture(autouse=True)
def _without_ray() -> Iterator[None]:
    assert importlib.util.find_spec("ray") is None, "the usual environment stays free of Ray"
    yield
    sys.modules.pop("ray", None)


def test_the_sentence_says_how_to_install_it() -> None:
    spec = job(algorithm__name="rllib/ppo").spec
    for build in (lambda: extras.check(spec), lambda: algorithms.make(spec, {})):
        with pytest.raises(JobInvalid) as refused:
            build()
        assert str(refused.value) == MISSING


@pytest.mark.parametrize(
    ("version", "obstacle"),
    [
        ("2.59.1", "needs RLlib of Ray 2.60, but Ray 2.59.1 is installed"),
        ("2.6.0", "needs RLlib of Ray 2.60, but Ray 2.6.0 is installed"),
        ("3.0.0.dev0", "needs RLlib of Ray 2.60, but Ray 3.0.0.dev0 is installed"),
        (None, "needs RLlib of Ray 2.60, but the package ray that is found has no version"),
        (
            "2.60.0",
            "needs RLlib of Ray 2.60, which cannot be imported (ModuleNotFoundError: No module named "
            "'ray.rllib')",
        ),
    ],
)
def test_a_ray_that_cannot_be_used_is_named_with_the_one_that_can(
    version: str | None, obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("ray", "tree", "fsspec", "pandas", "pyarrow", "scipy"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    if version:
        (tmp_path / "ray-0.dist-info").mkdir()
        (tmp_path / "ray-0.dist-info" / "METADATA").write_text(f"Name: ray\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = job(algorithm__name="rllib/ppo").spec
    assert extras.lacking(spec) == (version != "2.60.0")
    with pytest.raises(JobInvalid) as refused:
        extras.check(spec)
    assert str(refused.value) == f'spec.algorithm.name: "rllib/ppo"; {obstacle}; {REMEDY}'


def test_other_jobs_need_nothing() -> None:
    extras.check(job().spec)


def test_a_failure_of_rllib_ends_a_run_that_can_be_resumed() -> None:
    with pytest.raises(TrainingFailed, match="the reason") as failed, failures.told():
        raise extras.RllibError("the reason")
    assert failed.value.resumable


def test_validate_says_that_the_settings_are_checked_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job(algorithm__name="rllib/ppo").to_dict()))
    assert main(["validate", str(path)]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{path}: valid\n", f"{path}: warning: {extras.UNCHECKED}\n")
