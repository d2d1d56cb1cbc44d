"""The scripts that need no cluster to be tested: kubectl is a stand-in that a test writes."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from chart_support import find_helm

ROOT = Path(__file__).parents[2]
WAITS = """#!/bin/sh
# Whoever follows the job says so and stays.
case "$1 $*" in
  apply*) echo nitrotrainingjob.nitro.dev/hopper ;;
  *--watch*) echo here >> "$NOTES"; exec sleep 600 ;;
  get*jsonpath*) echo here >> "$NOTES"; echo Running ;;
esac
"""
ENDS = """#!/bin/sh
echo "$@" >> "$NOTES"
case "$1 $*" in
  apply*) echo nitrotrainingjob.nitro.dev/hopper ;;
  *--watch*) exec sleep 600 ;;
  get*jsonpath*) if [ "$(grep -c jsonpath "$NOTES")" -gt 1 ]; then echo "$PHASE"; else exit 1; fi ;;
esac
"""


def start(folder: Path, kubectl: str, notes: Path, **environment: str) -> subprocess.Popen[str]:
    """scripts/example with that kubectl, which writes into `notes`."""
    program = folder / "kubectl"
    program.write_text(kubectl)
    program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.Popen(
        [ROOT / "scripts" / "example", "job.yaml"],
        env={**os.environ, "PATH": path, "NOTES": str(notes), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # Ignored in what a shell runs in the background, as these tests may be, and bash could not undo that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 1)])
def test_the_example_ends_as_its_job_does(tmp_path: Path, phase: str, code: int) -> None:
    notes = tmp_path / "notes"
    example = start(tmp_path, ENDS, notes, PHASE=phase)
    output, _ = example.communicate(timeout=120)
    assert example.returncode == code, output
    assert f"nitrotrainingjob.nitro.dev/hopper: {phase}" in output
    for call in notes.read_text().splitlines():
        assert "-f job.yaml" in call, "a job of another namespace is found by its file alone"


def test_the_example_runs_in_the_bash_of_macos() -> None:
    """It is 3.2, and skips what it does not know wherever the script goes on after errors."""
    text = (ROOT / "scripts" / "example").read_text()
    assert not re.search(r"wait -n|mapfile|readarray|declare -A|\$\{\w+(,,|\^\^)", text)


def test_the_example_gives_up_after_its_time(tmp_path: Path) -> None:
    example = start(tmp_path, WAITS, tmp_path / "notes", TIMEOUT="0h0m1s")
    output, _ = example.communicate(timeout=120)
    assert example.returncode == 1, output
    assert "nitrotrainingjob.nitro.dev/hopper: Running" in output


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_example_leaves_no_process(tmp_path: Path, how: signal.Signals) -> None:
    pipe = tmp_path / "notes"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDWR)) as notes:
        example = start(tmp_path, WAITS, pipe)
        try:
            assert [notes.readline() for _ in range(2)] == ["here\n"] * 2
            example.send_signal(how)
            example.communicate(timeout=120)  # its output ends with the last process that holds it
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(example.pid, signal.SIGKILL)


def test_make_works_in_a_folder_with_a_space(tmp_path: Path) -> None:
    """The environment's recipe is run with stand-ins for its tools, the others are printed."""
    copy = tmp_path / "a clone"
    copy.mkdir()
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "scripts", copy / "scripts")
    tools = copy / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("python", "uv"):
        (tools / name).write_text('#!/bin/sh\necho $0 "$@" >> calls\n')
        (tools / name).chmod(0o755)
    # The clone's own environment, not the one that this suite was started with.
    clean = {
        name: value for name, value in os.environ.items() if name != "VENV" and not name.startswith("MAKE")
    }

    def make(*targets: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", *targets], cwd=copy, env=clean, capture_output=True, text=True, check=False
        )

    made = make("environment")
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    assert (copy / "build" / "environment").exists()
    assert "uv pip install" in (copy / "calls").read_text()
    for target in ("run", "lint", "test", "e2e"):
        shown = make("-n", target)
        assert shown.returncode == 0, shown.stderr
        assert f'PATH="{tools}:' in shown.stdout or str(copy) not in shown.stdout, shown.stdout


HASH = "0123456789abcdef" * 4
DOCKER = f"""#!/bin/sh
echo "$@" >> "$NOTES"
echo sha256:{HASH}
"""
CURL = """#!/bin/sh
echo "$@" >> "$NOTES"
out=/dev/stdout
while [ $# -gt 0 ]; do [ "$1" = --output ] && out=$2; last=$1; shift; done
basename "$last" > "$out"
"""
NOTED = '#!/bin/sh\necho "${0##*/}" "$@" >> "$NOTES"\n'


class Checkout:
    """A copy of the scripts and what they read, with stand-ins for the programs that need a network."""

    def __init__(self, folder: Path, **programs: str) -> None:
        self.root, self.notes = folder / "checkout", folder / "notes"
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        for name in ("VERSION", "charts/nitro/values.yaml", "kind-config.yaml"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "scripts" / "digests.env").unlink(missing_ok=True)
        self._bin = folder / "bin"
        self._bin.mkdir()
        for name, text in programs.items():
            (self._bin / name).write_text(text)
            (self._bin / name).chmod(0o755)

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{self._bin}:{os.environ['PATH']}"
        return subprocess.run(
            [self.root / "scripts" / script],
            env={**os.environ, "PATH": path, "NOTES": str(self.notes), **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def called(self) -> str:
        return self.notes.read_text()


def test_what_the_registries_say_pins_images_redis_and_kinds_node(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, docker=DOCKER, curl=CURL, helm=NOTED, kubectl=NOTED)
    done = checkout.run("digests")
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if not line.startswith("#"))
    assert found["PYTHON_IMAGE"] == f"python:3.11-slim@sha256:{HASH}"
    assert found["REDIS_DIGEST"] == f"sha256:{HASH}"
    assert re.fullmatch(rf"kindest/node:v1[.][0-9.]+@sha256:{HASH}", found["KIND_NODE"])
    assert "inspect docker.io/library/redis:7" in checkout.called()
    assert checkout.run("images", IMAGE_COMMAND="docker build --tag").returncode == 0
    builds = [line for line in checkout.called().splitlines() if line.startswith("build ")]
    assert len(builds) == 3
    assert all(f"--build-arg PYTHON_IMAGE={found['PYTHON_IMAGE']}" in line for line in builds)
    assert checkout.run("install").returncode == 0
    assert f"images.redis.digest=sha256:{HASH}" in checkout.called()


@pytest.mark.parametrize("fails", ["docker", "curl"])
def test_without_a_network_no_digests_are_written(tmp_path: Path, fails: str) -> None:
    """Empty ones would pin nothing, or the hash of nothing."""
    programs = {"docker": DOCKER, "curl": CURL} | {fails: "#!/bin/sh\nexit 6\n"}
    checkout = Checkout(tmp_path, **programs)
    assert checkout.run("digests").returncode != 0
    assert not (checkout.root / "scripts" / "digests.env").exists()


def test_without_digests_the_base_image_stays_the_builders_choice(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, docker=DOCKER, helm=NOTED, kubectl=NOTED)
    assert checkout.run("images", IMAGE_COMMAND="docker build --tag").returncode == 0
    assert checkout.run("install").returncode == 0
    assert "PYTHON_IMAGE" not in checkout.called()
    assert "digest" not in checkout.called()


INDEX = "https://index.example.com/cpu"


@pytest.mark.parametrize(
    ("environment", "indexes"),
    [
        ({}, {"nitro-learner": None}),
        ({"TORCH_INDEX": INDEX}, {"nitro-learner": None, "nitro-learner-cpu": INDEX}),
        ({"TORCH_INDEX": INDEX, "LEARNERS": "cpu"}, {"nitro-learner-cpu": INDEX}),
        ({"TORCH_INDEX": INDEX, "LEARNERS": "cuda"}, {"nitro-learner": None}),
        (
            {"LEARNER_EXTRAS": "rllib", "TORCH_INDEX": INDEX, "LEARNERS": "cpu"},
            {"nitro-learner-cpu": INDEX, "nitro-learner-rllib": INDEX},
        ),
        (
            {"LEARNER_EXTRAS": "rllib", "TORCH_INDEX": INDEX},
            {
                "nitro-learner": None,
                "nitro-learner-cpu": INDEX,
                "nitro-learner-rllib": None,
                "nitro-learner-rllib-cpu": INDEX,
            },
        ),
    ],
)
def test_an_index_of_cpu_builds_gives_a_learner_image_more(
    tmp_path: Path, environment: dict[str, str], indexes: dict[str, str | None]
) -> None:
    checkout = Checkout(tmp_path, docker=DOCKER, helm=NOTED, kubectl=NOTED)
    assert checkout.run("images", IMAGE_COMMAND="docker build --tag", **environment).returncode == 0
    built = {}
    for line in checkout.called().splitlines():
        tag, index = (
            re.search(r"dev.local/(nitro-learner[a-z-]*):", line),
            re.search(r"TORCH_INDEX=(\S*)", line),
        )
        if tag:
            built[tag[1]] = (index and index[1]) or None
    assert built == indexes
    assert checkout.run("install", **environment).returncode == 0
    chosen = "images.learnerCpu.repository=nitro-learner-cpu" in checkout.called()
    assert chosen == ("nitro-learner-cpu" in indexes)


def test_a_tag_of_digits_stays_text(tmp_path: Path) -> None:
    """The short hash of a commit may have no letter, and the chart refuses a number."""
    checkout = Checkout(tmp_path, helm=NOTED, kubectl=NOTED)
    assert checkout.run("install", VERSION="1234567").returncode == 0
    (command,) = [line for line in checkout.called().splitlines() if line.startswith("helm ")]
    given = shlex.split(command)
    assert given[given.index("images.tag=1234567") - 1] == "--set-string"
    with pytest.raises(AssertionError, match=r"images[./]tag"):
        find_helm().render(set=["images.tag=1234567"])


@pytest.mark.parametrize("learners", ["cpu", "gpu"])
def test_a_learner_image_that_cannot_be_built_is_refused(tmp_path: Path, learners: str) -> None:
    checkout = Checkout(tmp_path, docker=DOCKER)
    done = checkout.run("images", IMAGE_COMMAND="docker build --tag", LEARNERS=learners)
    assert done.returncode == 2
    assert f"LEARNERS={learners}" in done.stderr


def test_kind_has_no_gpu_and_gets_the_small_learner_image_alone(tmp_path: Path) -> None:
    programs = dict.fromkeys(("kind", "helm"), NOTED)
    checkout = Checkout(tmp_path, docker=NOTED, kubectl=ENDS, curl=CURL, **programs)
    done = checkout.run("kind", TORCH_INDEX=INDEX, PHASE="Succeeded")
    assert done.returncode == 0, done.stderr
    loaded = [line.split()[-1] for line in checkout.called().splitlines() if line.startswith("kind load")]
    assert [name.split(":")[0] for name in loaded] == [
        "dev.local/nitro-actor",
        "dev.local/nitro-learner-cpu",
        "dev.local/nitro-operator",
    ]


def test_a_manifest_of_knative_that_has_changed_is_not_applied(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, docker=DOCKER, curl=CURL, kubectl=NOTED)
    assert checkout.run("digests").returncode == 0
    assert checkout.run("knative").returncode == 0
    applied = [line for line in checkout.called().splitlines() if line.startswith("kubectl apply")]
    assert len(applied) == 2
    pins = checkout.root / "scripts" / "digests.env"
    pins.write_text(re.sub("CORE_SHA256=.*", f"CORE_SHA256={HASH}", pins.read_text()))
    done = checkout.run("knative")
    assert done.returncode != 0
    assert "serving-core.yaml is not the file of scripts/digests.env" in done.stderr
    assert checkout.called().count("kubectl apply") == 3, "only the first manifest, which is the same"


def test_a_release_of_knative_without_hashes_is_not_applied_where_others_have_them(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, docker=DOCKER, curl=CURL, kubectl=NOTED)
    assert checkout.run("digests").returncode == 0
    done = checkout.run("knative", KNATIVE="v1.24.0")
    assert done.returncode != 0
    assert "KNATIVE=v1.24.0 scripts/digests" in done.stderr
    assert "kubectl" not in checkout.called()
    assert checkout.run("digests", KNATIVE="v1.24.0").returncode == 0
    assert checkout.run("knative", KNATIVE="v1.24.0").returncode == 0
    assert checkout.called().count("kubectl apply") == 2


def test_ci_ends_where_the_cluster_does_not_start(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    cluster.write_text("#!/bin/sh\n[ $1 != up ]\n")
    cluster.chmod(0o755)
    text = (ROOT / ".ci" / "run").read_text()
    (start,) = re.findall(r"^if .*?\n  KUBEBUILDER_ASSETS=.*?^fi\n", text, re.MULTILINE | re.DOTALL)
    command = ["bash", "-euo", "pipefail", "-c", f"cluster=$0\n{start}echo went on", str(cluster)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_the_hashes_are_those_of_the_constraints() -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / name).read_text().splitlines()
        return {re.split(r"[ ;\\]", line)[0] for line in lines if re.match(r"\w", line)}

    assert pins("hashes.txt") == pins("constraints.txt")
    text = (ROOT / "hashes.txt").read_text()
    assert text.count("--hash=sha256:") >= len(pins("hashes.txt"))
