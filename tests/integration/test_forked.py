"""A forked program is like one that was started by itself."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forked import Forked


def tells() -> None:
    print(*sys.argv[1:], os.environ["SAID"], Path.cwd(), "HOME" in os.environ)
    print("gone wrong", file=sys.stderr)
    subprocess.run(["echo", "and its child"], check=True)
    sys.exit("no more")


def sleeps() -> None:
    print("asleep", flush=True)
    while True:
        time.sleep(60)


def returns() -> int:
    return 3


def test_it_has_its_own_arguments_environment_folder_and_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    process = Forked(tells, ["one", "two words"], {"SAID": "three", "PATH": os.environ["PATH"]})
    out, err = process.communicate(60)
    assert sorted(out.splitlines()) == ["and its child", f"one two words three {tmp_path} False"]
    assert err == "gone wrong\nno more\n"
    assert process.returncode == 1
    assert Forked(returns, [], os.environ).wait(60) == 3


def test_it_runs_until_a_signal_ends_it() -> None:
    process = Forked(sleeps, [], os.environ)
    assert process.stdout.readline() == "asleep\n"
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()
    assert process.communicate(60) == ("", "")
    assert process.returncode == -9
    process.terminate()  # too late, and harmless
