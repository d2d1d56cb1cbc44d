"""What `make release` builds, and when it refuses to."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import release
import version
from chart_support import KUBE_VERSION, find_helm
from release_support import committed, git

NUMBER = version.read()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return committed(tmp_path_factory.mktemp("release") / "checkout")


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages."""
    folder = tmp_path_factory.mktemp("built")
    epoch = release.export(checkout, folder / "source")
    release.build_packages(folder / "source", folder / "dist", epoch)
    return folder / "dist"


def test_packages_of_one_commit_are_equal_to_the_byte(checkout: Path, built: Path, tmp_path: Path) -> None:
    epoch = release.export(checkout, tmp_path / "elsewhere")
    os.utime(tmp_path / "elsewhere" / "crds" / "nitro_api" / "base.py")
    release.build_packages(tmp_path / "elsewhere", tmp_path / "again", epoch)
    names = {file.name for file in built.iterdir()}
    assert names == {"constraints.txt"} | {
        f"nitro_{name}-{NUMBER}{end}"
        for name in ("api", "actor", "learner", "rllib", "experiments", "operator")
        for end in ("-py3-none-any.whl", ".tar.gz")
    }
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (built / name).read_bytes(), name


def test_wheels_hold_the_whole_package_and_the_licence_and_run(
    checkout: Path, built: Path, tmp_path: Path
) -> None:
    for wheel in built.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(tmp_path)
        (licence,) = tmp_path.glob(f"{wheel.name.split('-')[0]}-*.dist-info/licenses/LICENSE")
        assert licence.read_bytes() == (checkout / "LICENSE").read_bytes()
    for folder in (
        "crds/nitro_api",
        "actor-image/nitro_actor",
        "learner-image/nitro_learner",
        "rllib/nitro_rllib",
        "experiments/nitro_experiments",
        "operator/nitro_operator",
    ):
        source, name = checkout / folder, Path(folder).name
        for file in source.rglob("*"):
            if file.is_file():
                assert (tmp_path / name / file.relative_to(source)).read_bytes() == file.read_bytes()
    program = (
        "import nitro_operator as o, nitro_learner.cli as c; print(o.__file__); c.main(['explain', 'spec'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path)), "the wheel's code ran, not this folder's"
    assert "environment" in done.stdout


def test_the_chart_of_one_commit_is_equal_to_the_byte_and_names_the_registry(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helm = find_helm()
    monkeypatch.setenv("TORCH_INDEX", "https://index.example.com/cpu")
    packages = []
    for name in ("one", "two"):
        epoch = release.export(checkout, tmp_path / name)
        release.build_chart(tmp_path / name, tmp_path / f"{name}-dist", epoch, "registry.example.com/you")
        packages.append(tmp_path / f"{name}-dist" / f"nitro-{NUMBER}.tgz")
    one, two = packages
    assert one.read_bytes() == two.read_bytes()
    rendered = helm.run("template", "nitro", str(one), "--kube-version", KUBE_VERSION)
    (operator,) = [one for one in yaml.safe_load_all(rendered) if one and one["kind"] == "Deployment"]
    container = operator["spec"]["template"]["spec"]["containers"][0]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    assert container["image"] == f"registry.example.com/you/nitro-operator:{NUMBER}"
    assert environment["NITRO_LEARNER_IMAGE"] == f"registry.example.com/you/nitro-learner:{NUMBER}"
    assert environment["NITRO_LEARNER_CPU_IMAGE"] == f"registry.example.com/you/nitro-learner-cpu:{NUMBER}"
    assert (
        "files/dashboards/nitro-job.json"
        in subprocess.run(["tar", "--list", "--file", one], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize("index", ["", "https://index.example.com/cpu"])
@pytest.mark.parametrize("chosen", ["", "cuda", "cpu", "cuda cpu"])
def test_the_chart_names_the_learners_that_are_built(
    index: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_INDEX", index)
    monkeypatch.setenv("LEARNERS", chosen)
    said = 'source scripts/common.sh; echo "$LEARNERS"'
    root = Path(release.__file__).parent.parent
    built = subprocess.run(["bash", "-c", said], cwd=root, capture_output=True, text=True, check=True)
    assert release.learners() == built.stdout.split()


def test_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tgz"):
        (tmp_path / name).write_text(name)
    release.write_checksums(tmp_path)
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "a.tgz: OK\nb.whl: OK\n"


def test_a_commit_that_is_no_release_is_refused_with_every_reason(tmp_path: Path) -> None:
    checkout = committed(tmp_path / "checkout")
    assert release.problems(checkout) == []
    assert release.problems(checkout, f"v{NUMBER}") == []
    git(checkout, "tag", f"v{NUMBER}")
    git(checkout, "tag", "nightly")
    assert release.problems(checkout) == []
    (checkout / "VERSION").write_text("9.0.0\n")
    changed, changelog, tag = release.problems(checkout)
    assert "VERSION" in changed
    assert "CHANGELOG.md has nothing under `## 9.0.0`" in changelog
    assert tag == f"the tag is v{NUMBER}, but VERSION says 9.0.0: it must be v9.0.0"
    pages = (checkout / "CHANGELOG.md").read_text()
    (checkout / "CHANGELOG.md").write_text(
        pages.replace("## Unreleased", "## 9.0.0 - 2026-12-01\n\n## Unreleased")
    )
    git(checkout, "commit", "--all", "--quiet", "--message", "9.0.0")
    (changelog,) = release.problems(checkout)
    assert "nothing under" in changelog, "the section is empty"
    (checkout / "CHANGELOG.md").write_text(pages.replace("## Unreleased", "## 9.0.0 - 2026-12-01"))
    git(checkout, "commit", "--all", "--quiet", "--amend", "--message", "9.0.0")
    assert release.problems(checkout) == []
    (wrong,) = release.problems(checkout, "v9.0.1")
    assert "v9.0.1" in wrong


def test_images_of_both_platforms_are_one_command(tmp_path: Path) -> None:
    checkout = committed(tmp_path / "checkout")
    command = ["make", "release-images", "DRY_RUN=1", "REGISTRY=registry.example.com/you"]
    clean = {name: os.environ[name] for name in os.environ.keys() - {"REGISTRY", "MAKEFLAGS", "MAKELEVEL"}}
    done = subprocess.run(command, cwd=checkout, env=clean, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    tags = []
    for line in done.stdout.splitlines():
        assert line.startswith("docker buildx build --platform linux/amd64,linux/arm64 ")
        tags.append(line.split("--push --tag ")[1].split()[0])
    assert tags == [
        f"registry.example.com/you/nitro-{name}:{NUMBER}" for name in ("actor", "learner", "operator")
    ]
    refused = subprocess.run(
        command[:3], cwd=checkout, env=clean, capture_output=True, text=True, timeout=120
    )
    assert refused.returncode == 2
    assert "REGISTRY is needed" in refused.stderr
