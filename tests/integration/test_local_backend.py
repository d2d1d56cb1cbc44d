"""Actor processes of this machine: they sample the same bits however many they are, and never stay behind."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
import redis.asyncio

from local_support import (
    alive,
    assert_same,
    children_of_group,
    command_line,
    local_round,
    private_folder,
    sample,
    spec,
    until,
)
from nitro_learner.backends import guard
from nitro_learner.backends.base import BackendError
from nitro_learner.backends.local import LocalBackend
from nitro_learner.backends.processes import ProcessGroup
from nitro_learner.backends.redis_server import RedisServer
from nitro_learner.sampling import fragments
from nitro_learner.sampling.plans import EvaluationPlan, RoundResult


async def two_rounds(processes: int) -> list[RoundResult]:
    """A round, and one that goes on from its end states."""
    async with local_round(spec(processes)) as (_, _, work):
        first = await sample(work, 5, round=1)
        states = {fragment.slot: fragments.end_state(fragment) for fragment in first.fragments}
        second = await sample(work, 5, round=2, states=states)
        assert all(fragment.resumed for fragment in second.fragments)
        return [first, second]


async def test_one_or_three_processes_give_the_same_bits() -> None:
    for one, three in zip(await two_rounds(1), await two_rounds(3), strict=True):
        assert one.stats.retries == three.stats.retries == {}
        assert_same(one, three)


async def test_evaluation_repeats_to_the_bit() -> None:
    async with local_round(spec(2)) as (_, _, work):
        plan = EvaluationPlan("run-1", 5, 0, 5, 50, 2)
        one, other = await asyncio.gather(work.evaluate(plan), work.evaluate(plan))
        assert one.returns.tolist() == other.returns.tolist()
        assert one.lengths.max() <= 50


async def test_close_leaves_no_process_and_no_file() -> None:
    async with local_round(spec(2)) as (backend, _, work):
        await sample(work, 2)
        pids = [*backend.actor_pids, backend.redis_pid or 0]
        directory = private_folder(backend)
        assert directory.stat().st_mode & 0o077 == 0
        assert all(alive(pid) for pid in pids)
    assert not any(alive(pid) for pid in pids)
    assert not directory.exists()
    await backend.close()


async def test_no_other_user_of_the_machine_can_connect_to_the_redis() -> None:
    async with local_round(spec(1)) as (backend, _, _):
        pid = backend.redis_pid or 0
        password = urlsplit(backend.redis_url).password or ""
        assert len(password) > 20
        assert password not in command_line(pid)
        client = redis.asyncio.from_url(backend.redis_url)
        assert (await client.config_get("port"))["port"] == "0", "on a Unix socket alone"
        assert stat.S_IMODE(private_folder(backend).stat().st_mode) == 0o700
        with pytest.raises(redis.ConnectionError, match="invalid username-password"):
            await redis.asyncio.from_url(backend.redis_url.replace(password, "x")).ping()
        await client.aclose()


@pytest.mark.parametrize("name", ['of "Zoë \\ Z"', "long" * 50])
async def test_the_redis_starts_wherever_temporary_files_lie(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    group = ProcessGroup()
    await group.start()
    try:
        await RedisServer(group).start()
    finally:
        await group.close()


async def test_an_environment_that_raises_at_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_environment.py").write_text(
        "def make():\n    raise RuntimeError('no licence file')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    environment = {"id": "Mine-v0", "entryPoint": "broken_environment:make", "rolloutLength": 64}
    backend = LocalBackend(spec(2, environment), "run-1")
    with pytest.raises(BackendError, match="no licence file") as caught:
        await backend.start()
    assert "actor process" in str(caught.value)
    assert not private_folder(backend).exists()


async def test_a_program_that_is_no_actor_is_reported() -> None:
    backend = LocalBackend(
        spec(1), "run-1", command=(sys.executable, "-c", "raise SystemExit('wrong image')")
    )
    with pytest.raises(BackendError, match=r"ended at its start with code 1.*\n.*wrong image"):
        await backend.start()


STARTS_ANOTHER = "import subprocess, sys, time; subprocess.Popen(['sleep', '300'])"


async def test_an_actor_that_ends_at_its_start_is_noticed_although_its_output_stays_open() -> None:
    """A process that its environment started has inherited it."""
    program = f"{STARTS_ANOTHER}; sys.exit('no such robot')"
    backend = LocalBackend(spec(1), "run-1", command=(sys.executable, "-c", program))
    async with asyncio.timeout(60):
        with pytest.raises(BackendError, match=r"ended at its start with code 1.*\n.*no such robot"):
            await backend.start()


async def test_a_child_is_stopped_although_its_output_stays_open() -> None:
    program = f"{STARTS_ANOTHER}; print('begun', flush=True); time.sleep(300)"
    begun = asyncio.Event()
    group = ProcessGroup()
    await group.start()
    try:
        child = await group.spawn("parent", [sys.executable, "-c", program], {}, lambda _: begun.set())
        async with asyncio.timeout(60):
            await begun.wait()
            await child.stop()
            assert await child.ended(0.0) == -signal.SIGKILL
    finally:
        await group.close()


async def test_stopping_a_child_leaves_its_exit_code_to_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Popen polls before it signals; a child that has just died would then have two who wait for it."""

    def poll(_popen: object) -> None:
        raise AssertionError("only asyncio's watcher may wait for a child")

    group = ProcessGroup()
    await group.start()
    try:
        monkeypatch.setattr(subprocess.Popen, "poll", poll)
        for grace, code in ((0.0, -signal.SIGKILL), (20.0, -signal.SIGTERM)):
            child = await group.spawn("sleep", ["sleep", "60"], {})
            await child.stop(grace)
            assert await child.wait() == code
            await child.stop()
    finally:
        monkeypatch.undo()
        await group.close()


LEARNER = """
import asyncio, faulthandler, signal, sys
faulthandler.enable()
# A shell's background jobs ignore SIGINT, and so would all that they start, this program included.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
from local_support import local_round, private_folder, sample, spec

async def main():
    async with local_round(spec(2)) as (backend, _, work):
        print(private_folder(backend), flush=True)
        while True:
            await sample(work, 4, steps=2048)

asyncio.run(main())
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_no_process_outlives_the_learner(end: signal.Signals | None) -> None:
    """In mid-round: killed, terminated, interrupted, or ended by an exception that nobody catches."""
    script = LEARNER.format(tests=str(Path(__file__).parents[1] / "support"))
    if end is None:
        script = script.replace("        while True:", "        raise ValueError\n        while True:")
    learner = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert learner.stdout is not None
    try:
        said = learner.stdout.readline().strip()
        assert said, learner.communicate(timeout=120)[1]
        if end is not None:
            children = children_of_group(learner.pid)
            assert len(children) == 4, "the guard, Redis and two actors"
            learner.send_signal(end)
        try:
            learner.wait(280)
        except subprocess.TimeoutExpired:
            learner.send_signal(signal.SIGABRT)  # it writes its threads' stacks to standard error, and ends
            pytest.fail(f"the learner does not end:\n{learner.communicate(timeout=120)[1]}")
        if end is not None:
            until(lambda: not any(alive(pid) for pid in children))
        until(lambda: not Path(said).exists())
    finally:
        learner.kill()  # its guard ends the others
        learner.communicate(timeout=120)


def test_a_guard_whose_learner_ended_before_it_was_ready_cleans_up_without_a_word(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, guard.__file__, tmp_path / "private"],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        process_group=0,
        timeout=60,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (-signal.SIGKILL, b"")
    assert not (tmp_path / "private").exists()
