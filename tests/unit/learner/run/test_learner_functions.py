"""The modelled cost of learner functions, by hand."""

from pathlib import Path
from typing import Any

import pytest

from nitro_learner.run.learner_functions import function_cost
from nitro_learner.run.rundir import RunDir
from shared_runs import shared_run

PRICE = 1.66667e-5 * 2.0
"""Dollars per second of a function."""


@pytest.mark.parametrize(
    ("algorithm", "functions", "apart"),
    [
        # Policies in rounds 1 to 5: 3, 3, 2, 2, 3.
        ({"name": "ippo"}, 26, 30),
        ({"name": "mappo"}, 26, 30),
        ({"name": "iql"}, 13, 15),
        ({"name": "vdn"}, 5, 5),
        # agent_0 by an actor-critic algorithm, the others by a joint loss.
        ({"name": "ippo", "policies": [{"agents": "agent_[12]", "name": "vdn"}]}, 15, 15),
    ],
)
def test_functions_are_billed_for_the_updates_time(
    tmp_path: Path, algorithm: dict[str, Any], functions: int, apart: int
) -> None:
    found = function_cost(shared_run(tmp_path, algorithm))
    assert found
    assert found.functions == functions
    assert found.dollars == pytest.approx(functions * 0.5 * PRICE)
    assert found.apart == pytest.approx(apart * 0.5 * PRICE)


def test_the_model_meets_the_published_cost_of_ippo_without_sharing() -> None:
    published = 0.15
    assert pytest.approx(published, abs=0.001) == 12 * 3.75 * 100 * PRICE


def test_a_run_of_one_agent_has_none(tmp_path: Path) -> None:
    assert function_cost(RunDir(tmp_path)) is None
