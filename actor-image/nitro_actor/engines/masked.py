"""Action masks of a gymnasium environment of one agent, in the two forms that are in use.

- Its observation space is a Dict with an `action_mask`: `apart` takes the mask out of the observations.
- It has a method `action_masks`, as MaskablePPO of sb3-contrib wants it, or a wrapper around it has.

After `apart` both are of the second form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict
from numpy.typing import NDArray

from nitro_actor import masks
from nitro_actor.actions import ActionSpace, Continuous
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines import returned
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.engines.failures import failures
from nitro_actor.masks import MASK

METHOD = "action_masks"

AnyEnv = gymnasium.Env[Any, Any]


def apart(environment: AnyEnv) -> AnyEnv:
    """The environment without the mask in its observations, but with the method; the same one where there is
    none in them."""
    space = environment.observation_space
    return _Apart(environment) if isinstance(space, Dict) and MASK in space.spaces else environment


def method(environment: AnyEnv) -> Callable[[], Any] | None:
    """How an environment tells its mask; None where it has none."""
    if not environment.has_wrapper_attr(METHOD):
        return None
    attribute = environment.get_wrapper_attr(METHOD)
    return attribute if callable(attribute) else None


def has(environment: AnyEnv, space: ActionSpace) -> bool:
    """Whether actions are masked.

    Raises:
        EnvironmentConfigError: they are real numbers, so they cannot be.
    """
    if method(environment) is None:
        return False
    if isinstance(space, Continuous):
        raise EnvironmentConfigError(
            f"it has an {MASK} in its observations or a method {METHOD}, {masks.ONLY_WHOLE_NUMBERS}, but its "
            f"action space is {environment.action_space}. Leave the mask out, or make the actions whole "
            "numbers, for example with gymnasium.wrappers.TransformAction"
        )
    return True


class Masks:
    """The masks of E environments.

    Attributes:
        available: bool [E, C], the current ones, updated in place. Everything is allowed where an episode is
            over.
    """

    def __init__(self, environments: list[AnyEnv], space: ActionSpace) -> None:
        self._space = space
        self._methods = [method(environment) for environment in environments]
        self.available: NDArray[np.bool_] = np.ones((len(environments), masks.choices(space)), bool)

    def show(self, index: int, *, terminated: bool = False, truncated: bool = False) -> None:
        """Read what one environment allows after a reset or a step.

        Raises:
            EnvironmentCallError: it raised, or told no mask, or one that allows nothing.
        """
        row = self.available[index]
        row[:] = True
        if terminated:
            return
        get_mask = self._methods[index]
        assert get_mask is not None, "the environments are alike"
        with failures(index, METHOD):
            given = get_mask()
        if given is None and truncated:  # nobody acts any more
            return
        try:
            mask = masks.read(given, self._space)
        except ValueError as error:
            raise EnvironmentCallError(f"environment {index}: the {MASK} {error}") from None
        if not (wrong := masks.obstacle(mask, self._space)):
            row[:] = mask
        elif not truncated:
            raise EnvironmentCallError(f"environment {index}: the {MASK} {wrong}")


class _Apart(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Observations without their mask. Where only `observation` is left, it stands for itself."""

    def __init__(self, environment: AnyEnv) -> None:
        super().__init__(environment)
        space = environment.observation_space
        assert isinstance(space, Dict)
        left = {name: part for name, part in space.spaces.items() if name != MASK}
        self._alone = set(left) == {"observation"}
        self.observation_space = left["observation"] if self._alone else Dict(left)
        self._mask: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._shown(self.env.reset(seed=seed, options=options), returned.RESET, "reset")

    def step(self, action: Any) -> Any:
        return self._shown(self.env.step(action), returned.STEP, "step")

    def _shown(self, result: Any, names: Sequence[str], call: str) -> Any:
        try:
            observation, *others = returned.values(result, names, call)
        except returned.Unfit as error:
            raise EnvironmentCallError(str(error)) from None
        return self.observation(observation), *others

    def observation(self, observation: Any) -> Any:
        if not isinstance(observation, Mapping) or MASK not in observation:
            raise EnvironmentCallError(
                f"an observation has no {MASK}, but its space has one; give it with every observation"
            )
        self._mask = observation[MASK]
        if self._alone:
            return observation.get("observation")
        return {name: part for name, part in observation.items() if name != MASK}

    def action_masks(self) -> Any:
        """The mask of the newest observation."""
        return self._mask
