"""Which environments the fast engine for MuJoCo computes."""

from collections.abc import Mapping

from nitro_actor.engines.task import Task
from nitro_actor.engines.task_contact import Ant, Humanoid
from nitro_actor.engines.task_planar import HalfCheetah, Hopper, Swimmer, Walker2d

TASKS: dict[str, type[Task]] = {
    "Hopper-v5": Hopper,
    "Walker2d-v5": Walker2d,
    "HalfCheetah-v5": HalfCheetah,
    "Swimmer-v5": Swimmer,
    "Ant-v5": Ant,
    "Humanoid-v5": Humanoid,
}

MAX_EPISODE_STEPS = 1000
"""Time limit of all of them in gymnasium's registry."""


def supports(environment: str, options: Mapping[str, object]) -> bool:
    """Whether the fast engine computes this environment with these keyword arguments."""
    task = TASKS.get(environment)
    return task is not None and set(options) <= set(task.defaults)
