"""A job that needs RLlib where it is not installed is told so before anything starts."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from learner_support import HOPPER, job, learner_of
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobInvalid
from nitro_learner.algorithms import availability
from nitro_learner.cli import main
from nitro_learner.training import failures
from nitro_learner.training.failures import TrainingFailed

REMEDY = (
    "in a checkout run pip install ./actor-image ./rllib './learner-image[train,rllib]', on a cluster use a "
    "learner image that was built with --build-arg EXTRAS=rllib"
)
MISSING = f'spec.algorithm.name: "rllib/ppo"; needs Ray\'s RLlib, which is not installed; {REMEDY}'


@pytest.fixture(autouse=True)
def _without_ray() -> Iterator[None]:
    assert importlib.util.find_spec("ray") is None, "the usual environment stays free of Ray"
    yield
    for name in ("ray", "nitro_rllib", "nitro_rllib.settings"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "action",
    [
        {"kind": "multiDiscrete", "sizes": [2, 3], "shape": [2], "start": [0, 0], "dtype": "int64"},
        {"kind": "multiBinary", "size": 2, "shape": [2]},
    ],
)
def test_actions_of_several_whole_numbers_are_refused(action: dict[str, Any]) -> None:
    environment = DescribedEnvironment.from_json({**HOPPER.json, "action": action})
    with pytest.raises(JobInvalid, match=r'"rllib/ppo"; learns no MultiDiscrete .* take ppo or impact'):
        availability.check_actions(job(algorithm__name="rllib/ppo").spec, environment)
    availability.check_actions(job().spec, environment)
    availability.check_actions(
        job(algorithm__name="rllib/ppo").spec,
        DescribedEnvironment.from_json({**HOPPER.json, "action": {"kind": "discrete", "n": 2}}),
    )


def test_a_missing_rllib_is_reported_with_the_way_to_install_it() -> None:
    spec = job(algorithm__name="rllib/ppo").spec
    for build in (lambda: availability.check(spec), lambda: learner_of(spec, HOPPER)):
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
def test_an_unsupported_ray_is_named_with_the_supported_version(
    version: str | None, obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("nitro_rllib", "ray", "tree", "fsspec", "pandas", "pyarrow", "scipy"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    ours = tmp_path / "nitro_rllib-0.dist-info"
    ours.mkdir()
    (ours / "METADATA").write_text("Name: nitro-rllib\nVersion: 0\nRequires-Dist: ray<2.61,>=2.60.0\n")
    (ours / "entry_points.txt").write_text("[nitro.settings]\nrllib = nitro_rllib.settings:mistakes\n")
    (tmp_path / "nitro_rllib" / "settings.py").write_text("import ray.rllib\n")
    if version:
        (tmp_path / "ray-0.dist-info").mkdir()
        (tmp_path / "ray-0.dist-info" / "METADATA").write_text(f"Name: ray\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = job(algorithm__name="rllib/ppo").spec
    assert availability.lacking(spec) == (version != "2.60.0")
    with pytest.raises(JobInvalid) as refused:
        availability.check(spec)
    assert str(refused.value) == f'spec.algorithm.name: "rllib/ppo"; {obstacle}; {REMEDY}'


def test_other_algorithms_need_no_rllib() -> None:
    availability.check(job().spec)


def test_a_failure_of_rllib_ends_a_run_that_can_be_resumed() -> None:
    with pytest.raises(TrainingFailed, match="the reason") as failed, failures.as_training_failure():
        raise availability.RllibError("the reason")
    assert failed.value.resumable


def test_validate_says_that_the_settings_are_checked_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job(algorithm__name="rllib/ppo").to_dict()))
    assert main(["validate", str(path)]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{path}: valid\n", f"{path}: warning: {availability.UNCHECKED}\n")
