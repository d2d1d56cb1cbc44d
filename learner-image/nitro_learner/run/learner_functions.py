"""A model of what the updates of several agents would cost as serverless functions. They run in the learner.

MARLess runs a function for each policy, and for actor-critic algorithms another one for its critic; VDN and
QMIX have a joint loss, so they run one in all. Each is billed for its time and memory. Here a function takes
as long as the round's update does: policies of equal shape are updated in one batched pass, which takes about
as long as one of them alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from nitro_api.algorithms.registry import RECORDS
from nitro_api.spec.pricing import GivenPricing
from nitro_learner.run.metrics_file import read_metrics
from nitro_learner.run.policy_files import read_groups
from nitro_learner.run.rundir import RunDir

MEMORY_GB = 2.0
"""Memory of a function. With it the model agrees with what MARLess published for IPPO without sharing: 12
functions of 3.75 s in 100 rounds cost 0.15 dollars here, and 0.17 in the paper."""


@dataclass(frozen=True)
class FunctionCost:
    """The modelled cost of a run's updates.

    Attributes:
        functions: number of functions that would have run, in all rounds.
        dollars: cost of these functions.
        apart: dollars if every agent had had a policy of its own in every round.
    """

    functions: int
    dollars: float
    apart: float

    def to_dict(self) -> dict[str, Any]:
        """The cost as summary.json has it."""
        return {"functions": self.functions, "dollars": self.dollars, "withoutSharing": self.apart}


def function_cost(folder: RunDir) -> FunctionCost | None:
    """The modelled cost of the run in a folder; None for a run of one agent, or without a round.

    Raises:
        RunDirError: the folder is damaged.
    """
    rows = read_groups(folder)
    if not rows:
        return None
    job = folder.read_job()
    price = job["spec"].get("pricing", {}).get("lambdaGBSecond", GivenPricing().lambda_gb_second) * MEMORY_GB
    seconds = {int(row["round"] or 0): row["seconds_update"] or 0.0 for row in read_metrics(folder.metrics)}
    by_round: dict[int, list[tuple[str, ...]]] = {}
    for round, _, agents in rows:
        by_round.setdefault(round, []).append(agents)
    total, dollars, apart = 0, 0.0, 0.0
    for round, groups in by_round.items():
        functions = _functions(job["spec"]["algorithm"], groups)
        total += functions
        dollars += functions * seconds.get(round, 0.0) * price
        alone = _functions(job["spec"]["algorithm"], [(agent,) for group in groups for agent in group])
        apart += alone * seconds.get(round, 0.0) * price
    return FunctionCost(total, dollars, apart)


def _functions(algorithm: Mapping[str, Any], groups: Sequence[tuple[str, ...]]) -> int:
    """The number of functions in a round with one policy for each group of agents."""
    entries = algorithm.get("policies") or []
    per_policy, joint = 0, set()
    for agents in groups:
        chosen = next((entry for entry in entries if fnmatchcase(agents[0], entry["agents"])), algorithm)
        record = RECORDS[chosen["name"]]
        if record.common_reward:
            joint.add(chosen.get("agents", ""))
        else:
            per_policy += 1 if record.curvature == "td-loss" else 2
    return per_policy + len(joint)
