"""The ledger of costs against crashes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from nitro_api import Ledger, RoundCost
from nitro_api.costs.ledger import LedgerCorrupt
from nitro_api.costs.prices import serverless_cost
from nitro_api.spec.pricing import GivenPricing

PRICING = GivenPricing(pod_gb_second=1.66667e-5, actor_memory_gb=1.0, vm_count=1)


def test_the_ledger_sums_costs_and_survives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        for number in range(1, 51):
            ledger.append(number, serverless_cost(PRICING, 20.0, [2.5] * 16), actors=16, seconds=20.0)
        total = ledger.total
    expected = 50 * (20 * 3.06 / 3600 + 16 * (2.5 * 1.66667e-5 + 2e-7))
    assert total.total == pytest.approx(expected, rel=1e-3)
    with Ledger(path) as again:
        assert again.total == total
        assert again.repeated_cost == RoundCost(0.0, 0.0)
        assert again.entries[0].details == {"actors": 16, "seconds": 20.0}


def test_repeated_rounds_are_paid_twice_and_marked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.append(1, RoundCost(1.0, 0.5))
        ledger.append(2, RoundCost(1.0, 0.25))
    with Ledger(path) as ledger:
        assert not ledger.append(3, RoundCost(1.0, 0.0)).repeated
        assert ledger.append(2, RoundCost(2.0, 0.25)).repeated
        # Every sitting that ends has an evaluation at its end, which is no round done again.
        assert not any(ledger.append(0, RoundCost(0.0, 0.0)).repeated for _ in range(2))
    with Ledger(path) as ledger:
        assert ledger.total == RoundCost(5.0, 1.0)
        assert ledger.repeated_cost == RoundCost(2.0, 0.25)
        assert [entry.round for entry in ledger.entries if entry.repeated] == [2]


def test_only_a_truncated_last_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.append(1, RoundCost(1.0, 0.5))
        ledger.append(2, RoundCost(1.0, 0.5))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with Ledger(path) as ledger:
            assert len(ledger.entries) == (1 if length >= first else 0)
            ledger.append(9, RoundCost(1.0, 0.0))
        with Ledger(path) as ledger:
            assert ledger.entries[-1].round == 9


@pytest.mark.parametrize(
    "line", ["garbage", "[]", '{"round": 1}', '{"round":1,"learner":-1,"actors":0,"details":{}}']
)
def test_a_spoilt_line_in_the_middle_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "ledger.jsonl"
    good = json.dumps({"round": 1, "learner": 1.0, "actors": 0.0, "details": {}})
    path.write_text(f"{good}\n{line}\n{good}\n")
    with pytest.raises(LedgerCorrupt, match="line 2 is not a ledger entry"):
        Ledger(path)


@pytest.mark.parametrize(
    "cost", [RoundCost(-1.0, 0.0), RoundCost(float("nan"), 0.0), RoundCost(1.0, float("inf"))]
)
def test_an_impossible_cost_is_not_written(tmp_path: Path, cost: RoundCost) -> None:
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        with pytest.raises(ValueError, match="must be finite and not negative"):
            ledger.append(1, cost)
        assert ledger.total == RoundCost(0.0, 0.0)
    assert (tmp_path / "ledger.jsonl").read_bytes() == b""


def _append_on_a_full_disk(path: Path) -> None:
    """Run in a process of its own: a limit on the file's size makes a real write fail half-way."""
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Ledger(path) as ledger:
        ledger.append(1, RoundCost(1.0, 0.5))
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))
        with pytest.raises(OSError, match="File too large"):
            ledger.append(2, RoundCost(1.0, 0.5))
        assert path.stat().st_size == size
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ledger.append(2, RoundCost(1.0, 0.5))
    with Ledger(path) as ledger:
        assert [entry.round for entry in ledger.entries] == [1, 2]


def test_a_full_disk_leaves_the_ledger_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path / "ledger.jsonl")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    _append_on_a_full_disk(Path(sys.argv[1]))
