"""Real `nitro train` processes for tests: a small job, a record of every batch's bits, and kills and hangs at
chosen moments.

A process is `nitro` itself, but for what its environment asks for:
NITRO_TEST_RECORD=FILE appends {"round", "fragments", "weights"} digests of each update;
NITRO_TEST_KILL=ROUND:MOMENT kills the process (-9) while round ROUND samples or updates, while its checkpoint
is half written, when a toggle of sharing after it is decided (`decide`), or when that toggle has regrouped
the policies (`regroup`);
NITRO_TEST_HANG=ROUND:SECONDS has the update of round ROUND stand still, which is told after SECONDS.
"""

import asyncio
import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from forked import Forked

SUPPORT = Path(__file__).parent
LOADING = "loading…\n"
"""What a command that imports for seconds says first, on standard error."""

# Times and cold starts depend on the machine, and the cost on times.
_MEASURED = ("wall_seconds", "cold_starts", "cost_", "seconds_", "fragment_bytes")


def python(program: str, *arguments: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python program that finds these modules, with more environment variables."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SUPPORT), **variables},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def job(**spec: Any) -> dict[str, Any]:
    """A job of small rounds: Hopper, 2 to 6 actors of 64 steps, the Nitro scaler, an evaluation every other
    round.
    """
    base: dict[str, Any] = {
        "environment": {"id": "Hopper-v5", "rolloutLength": 64, "envsPerActor": 4},
        "algorithm": {"hyperparameters": {"epochs": 2, "minibatchSize": 64}},
        "network": {"hiddenSizes": [16, 16]},
        "seed": 7,
        "evaluation": {"episodes": 2, "everyRounds": 2},
        "stop": {"rounds": 6},
        "scaling": {"scaler": "nitro", "minActors": 2, "maxActors": 6, "initialActors": 3},
        "backend": {"type": "Local", "local": {"processes": 2}},
    }
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "small"},
        "spec": {**base, **spec},
    }


def write_job(directory: Path, **spec: Any) -> Path:
    """The small job as a file."""
    path = directory / "job.yaml"
    path.write_text(yaml.safe_dump(job(**spec)))
    return path


def nitro(
    *arguments: str | Path,
    record: Path | None = None,
    kill: str | None = None,
    hang: str | None = None,
    timeout: float = 280,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a `nitro` command to its end, with these environment variables besides this process's own."""
    process = start(*arguments, record=record, kill=kill, hang=hang, variables=variables)
    try:
        out, err = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.wait(), out, err)


def start(
    *arguments: str | Path,
    record: Path | None = None,
    kill: str | None = None,
    hang: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Forked:
    """Starts a `nitro` command, with these environment variables besides this process's own."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(SUPPORT),
        **({"NITRO_TEST_RECORD": str(record)} if record else {}),
        **({"NITRO_TEST_KILL": kill} if kill else {}),
        **({"NITRO_TEST_HANG": hang} if hang else {}),
        **(variables or {}),
    }
    return Forked(_main, [str(argument) for argument in arguments], environment)


def wait_for_rows(run: Path, rows: int, process: Forked, timeout: float = 280) -> None:
    """Returns when metrics.csv has so many rounds; fails when the process ends before."""
    end = time.monotonic() + timeout
    metrics = run / "metrics.csv"
    while not metrics.exists() or metrics.read_text().count("\n") <= rows:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no progress"
        time.sleep(0.02)


def rows_of(run: Path) -> list[dict[str, str]]:
    """metrics.csv."""
    with (run / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def exact_rows(run: Path) -> list[dict[str, str]]:
    """metrics.csv without what equal runs need not have in common."""
    return [
        {name: value for name, value in row.items() if not name.startswith(_MEASURED)} for row in rows_of(run)
    ]


def learned(run: Path, number: int) -> bytes:
    """Everything in the checkpoint of that round but the run's identity and times."""
    from nitro_learner.checkpoints.store import load, pack

    state = load(run / "checkpoints" / f"round-{number:06d}.safetensors").state
    state["training"].pop("seconds")
    state.pop("run")
    return pack(number, state)


def recorded(path: Path) -> dict[int, dict[str, str]]:
    """Digests by round, of the last time that a round was done."""
    return {entry["round"]: entry for entry in map(json.loads, path.read_text().splitlines())}


def digest(tensors: Mapping[str, Any], *, meta: Mapping[str, Any] | None = None) -> str:
    """Digest of tensors by name, and of a fragment's metadata but for what may differ between equal runs."""
    result = hashlib.sha256()
    if meta is not None:
        kept = {key: value for key, value in meta.items() if key not in {"attempt", "run"}}
        result.update(json.dumps(kept, sort_keys=True).encode())
    for name in sorted(tensors):
        result.update(f"{name}{tensors[name].dtype}{tensors[name].shape}".encode() + tensors[name].tobytes())
    return result.hexdigest()


def _record(path: Path) -> None:
    from learner_support import plain
    from nitro_learner.algorithms.ppo.learning import Ppo

    original = Ppo.update

    def update(self: Any, fragments: Any, round: int) -> Any:
        result = original(self, fragments, round)
        entry = {
            "round": round,
            "fragments": [digest(plain(fragment), meta=fragment.meta) for fragment in fragments],
            "weights": digest(self.weights()["default"].tensors),
        }
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        return result

    Ppo.update = update  # type: ignore[method-assign]


def _kill(number: int, moment: str) -> None:
    from nitro_learner.checkpoints import files
    from nitro_learner.training.round_report import Listener
    from nitro_learner.training.sharing.toggles import Sharing

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def die_soon(_: Listener, *, round: int, stage: str, actors: int) -> None:  # noqa: ARG001
        if round == number and stage == moment:
            asyncio.get_running_loop().call_later(0.005, die)

    Listener.on_stage_started = die_soon  # type: ignore[method-assign]
    if moment == "decide":
        decide = Sharing.decide

        async def decide_then_die(self: Any, round: int, *arguments: Any) -> Any:
            event = await decide(self, round, *arguments)
            if round == number:
                die()
            return event

        Sharing.decide = decide_then_die  # type: ignore[method-assign]
    if moment == "regroup":
        regroup = Sharing.regroup

        def regroup_then_die(self: Any) -> Any:
            event = regroup(self)
            if event.round == number:
                die()
            return event

        Sharing.regroup = regroup_then_die  # type: ignore[method-assign]
    if moment == "checkpoint":
        fsync = os.fsync

        def sync(descriptor: int) -> None:
            if f"round-{number:06d}.partial" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
                die()
            fsync(descriptor)

        files.os.fsync = sync  # type: ignore[attr-defined]


def _hang(number: int, seconds: float) -> None:
    from nitro_learner.training.compute import Compute

    update = Compute.update

    def stand_still(function: Any, fragments: Any, round: int, *report: Any) -> Any:
        if round == number:
            print("standing still", file=sys.stderr, flush=True)
            threading.Event().wait()
        return function(fragments, round, *report)

    def hanging(self: Any, function: Any, *arguments: Any) -> Any:
        return update(self, stand_still, function, *arguments)

    Compute.update = hanging  # type: ignore[assignment, method-assign]
    Compute.__init__.__defaults__ = (seconds,)  # type: ignore[misc]


def _main() -> int:
    """`nitro`, but for what the environment asks for."""
    if os.environ.get("NITRO_TEST_RECORD"):
        _record(Path(os.environ["NITRO_TEST_RECORD"]))
    if os.environ.get("NITRO_TEST_KILL"):
        wanted, _, at = os.environ["NITRO_TEST_KILL"].partition(":")
        _kill(int(wanted), at)
    if os.environ.get("NITRO_TEST_HANG"):
        wanted, _, after = os.environ["NITRO_TEST_HANG"].partition(":")
        _hang(int(wanted), float(after))
    from nitro_learner.cli import main

    return main()
