"""Runs of an experiment as forks of one process: what each learns, and how one ends, is its own."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from experiment_support import write_spec
from local_support import alive, until
from nitro_experiments.planning.plan import PlannedRun, plan
from nitro_experiments.planning.spec import load
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.local_runs import LocalRuns
from nitro_experiments.running.places import Ending
from train_support import SUPPORT, exact_rows, learned

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="each run is a fresh process there")


@contextlib.contextmanager
def planned(directory: Path, rounds: int) -> Iterator[tuple[ExperimentDir, list[PlannedRun]]]:
    """The prepared runs of an experiment: two variants over two seeds."""
    experiment = load(write_spec(directory, budget={"rounds": rounds}))
    folder, runs = ExperimentDir(directory / "results"), plan(experiment)
    folder.open(experiment)
    for run in runs:
        folder.prepare(run)
    yield folder, runs


@contextlib.asynccontextmanager
async def place(folder: ExperimentDir, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalRuns]:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    async with LocalRuns(folder) as runs:
        yield runs


def children_of(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def forking() -> list[int]:
    """The process that starts runs."""
    children = [(pid, Path(f"/proc/{pid}/cmdline").read_bytes()) for pid in children_of(os.getpid())]
    return [pid for pid, command in children if b"nitro_experiments.running.forks" in command]


async def test_a_fork_learns_what_a_fresh_process_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes after others, to the bit."""
    with planned(tmp_path, 3) as (folder, runs):
        async with place(folder, monkeypatch) as forks:
            for run in runs[:3]:
                assert (await forks.train(run, lambda: None)).status == "done"
        run = folder.run(runs[2]).path
        fresh = tmp_path / "fresh"
        command = (sys.executable, "-m", "nitro_learner", "train", run / "job.yaml", "--run-dir", fresh)
        variables = {**os.environ, "OMP_NUM_THREADS": "1"}
        alone = await asyncio.create_subprocess_exec(*command, "--no-check", env=variables)
        assert await alone.wait() == 0
        assert exact_rows(run) == exact_rows(fresh)
        assert learned(run, 3) == learned(fresh, 3)


async def test_what_ends_one_run_or_all_of_them_ends_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is killed, as the kernel kills what takes too much memory; then the process that forks."""
    with planned(tmp_path, 5000) as (folder, runs):
        async with place(folder, monkeypatch) as forks:
            rounds, stops = [asyncio.Event() for _ in range(3)], [asyncio.Event() for _ in range(3)]

            def begin(index: int) -> asyncio.Task[Ending]:
                return asyncio.create_task(forks.train(runs[index], rounds[index].set, stops[index]))

            first = begin(0)
            await rounds[0].wait()
            (server,) = forking()
            (fork,) = children_of(server)
            second = begin(1)
            await rounds[1].wait()
            (other,) = {*children_of(server)} - {fork}
            os.kill(fork, signal.SIGKILL)
            assert (await first).message.startswith("exit code -9")
            rounds[1].clear()
            await rounds[1].wait()
            os.kill(server, signal.SIGKILL)
            lost = await second
            assert (lost.status, lost.again) == ("failed", True)
            assert "the process that starts runs has ended" in lost.message
            until(lambda: not alive(other))
            third = begin(2)
            await rounds[2].wait()
            stops[2].set()
            assert (await third).status == "stopped", "after a checkpoint"
            assert list(folder.run(runs[2]).checkpoints.iterdir())
