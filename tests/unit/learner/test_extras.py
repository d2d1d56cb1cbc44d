"""A job that needs RLlib where it is not installed is told so before anything starts."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from learner_support import job
from nitro_api import JobInvalid
from nitro_learner import algorithms, extras, failures
from nitro_learner.cli import main
from nitro_learner.failures import TrainingFailed

MISSING = (
    'spec.algorithm.name: "rllib/ppo"; needs Ray\'s RLlib, which is not installed; '
    "run pip install 'nitro-learner[train,rllib]', on a cluster use a learner image that was built with "
    "--build-arg EXTRAS=rllib"
)


@pytest.fixture(autouse=True)
def _without_ray() -> None:
    assert importlib.util.find_spec("ray") is None, "the usual environment stays free of Ray"


def test_the_sentence_says_how_to_install_it() -> None:
    spec = job(algorithm__name="rllib/ppo").spec
    for build in (lambda: extras.check(spec), lambda: algorithms.make(spec, {})):
        with pytest.raises(JobInvalid) as refused:
            build()
        assert str(refused.value) == MISSING


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
