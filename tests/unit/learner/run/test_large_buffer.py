"""The warning about a replay buffer that the learner's memory has no room for."""

from __future__ import annotations

import pytest

from learner_support import HOPPER, fragment, job
from nitro_learner.algorithms.agents.teams import make_teams
from nitro_learner.algorithms.replay.buffer import ReplayBuffer
from nitro_learner.algorithms.replay.transitions import columns_of, rows_of
from nitro_learner.run.checking.job_fit import large_buffer


def told(memory: str, algorithm: str = "sac") -> list[str]:
    settings = {} if algorithm == "ppo" else {"algorithm__hyperparameters__bufferSize": 10_000_000}
    resources = {"learner__resources": {"limits": {"memory": memory}}}
    return large_buffer(HOPPER, job(algorithm__name=algorithm, **settings, **resources).spec)


def test_the_warning_says_what_a_real_buffer_takes() -> None:
    (team,) = make_teams(job(algorithm__name="sac").spec, HOPPER)
    rows = rows_of([fragment(0)], team, columns_of(team, joint=False), state=False)
    buffer = ReplayBuffer(1000, 1, alpha=0.0, epsilon=1.0)
    buffer.append(rows.arrays, rows.drawable)
    weights = 8  # of each row in the tree of priorities
    row = sum(array.nbytes for array in buffer.arrays.values()) / 1000 + weights
    (warning,) = told("1Gi")
    assert f"of 10,000,000 transitions takes {row * 1e7 / 2**30:.1f} GiB" in warning
    assert warning.endswith("spec.learner.resources gives it 1Gi; lower bufferSize or raise the memory")


@pytest.mark.parametrize(("memory", "algorithm"), [("2Gi", "sac"), ("1Gi", "ppo")])
def test_there_is_none_where_it_fits(memory: str, algorithm: str) -> None:
    assert told(memory, algorithm) == []
