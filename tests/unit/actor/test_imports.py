"""What an actor loads: nothing heavy, and little beside numpy and MuJoCo."""

import os
import resource
import statistics
import subprocess
import sys

import pytest

FORBIDDEN = {"torch", "pydantic", "gymnasium", "redis", "aiohttp", "nitro_api", "nitro_learner", "glfw"}
RUNS = 5


def _run(code: str) -> float:
    """Seconds of the processor that a fresh interpreter takes: other programs run beside the tests."""
    environment = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    began = _used()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)
    return _used() - began


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_the_server_loads_nothing_heavy() -> None:
    check = f"found = {set(FORBIDDEN)} & set(sys.modules); assert not found, found"
    _run(f"import sys, nitro_actor.server; {check}")


def test_the_package_itself_loads_nothing() -> None:
    _run("import sys, nitro_actor, nitro_actor.keys; assert 'numpy' not in sys.modules")


@pytest.mark.slow
def test_import_takes_at_most_twice_numpy_and_mujoco() -> None:
    """Alternating runs, so that a busy machine slows both."""
    ours, theirs = [], []
    for _ in range(RUNS):
        ours.append(_run("import nitro_actor.server, nitro_actor.engines.mujoco"))
        theirs.append(_run("import numpy, mujoco"))
    assert statistics.median(ours) <= 2 * statistics.median(theirs), (ours, theirs)
