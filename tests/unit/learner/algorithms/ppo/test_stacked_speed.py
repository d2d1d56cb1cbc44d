"""Policies that train stacked cost little more than one policy of as many samples."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from agents_support import agent_class, agents_fragment, team
from nitro_learner.algorithms.ppo.learning import Ppo

AGENTS = 6


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_six_policies_cost_at_most_one_and_a_half_times_one_policy_of_the_same_batch(algorithm: str) -> None:
    """Measured about once (bench_agents.py); processor time, because other programs run beside the tests."""
    one = agent_class(agents=AGENTS, size=36)
    fragments = [agents_fragment(one, slot=slot, length=25, envs=4) for slot in range(10)]
    shared = {"minibatchSize": AGENTS * 500, "epochs": 3}
    alone = Ppo(team(one, algorithm=algorithm, hidden=(64, 64), settings=shared, group_batch="all"))
    alone.regroup({"agent_0": one.agents})
    stacked = Ppo(
        team(one, algorithm=algorithm, hidden=(64, 64), settings={"minibatchSize": 500, "epochs": 3})
    )

    def seconds(update: Callable[[], object]) -> float:
        begin = time.process_time()
        update()
        return time.process_time() - begin

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        pairs = [
            (seconds(lambda: stacked.update(fragments, 1)), seconds(lambda: alone.update(fragments, 1)))
            for _ in range(16)
        ][1:]
    finally:
        torch.set_num_threads(threads)
    assert min(s for s, _ in pairs) <= 1.5 * min(a for _, a in pairs)
