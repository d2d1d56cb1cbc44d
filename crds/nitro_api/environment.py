"""spec.environment: what the actors play."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from nitro_api.base import Model, resolved


class Environment(Model):
    """The environment, and how much of it one actor samples in a round."""

    id: Annotated[str, Field(min_length=1, max_length=128)]
    """Name in gymnasium's registry, such as Hopper-v5; `module:Name-v0` imports the module first."""

    kwargs: Annotated[dict[str, Any], Field(max_length=64)] = Field(default_factory=dict)
    """Keyword arguments of the environment's constructor, any JSON. Default: none."""

    entry_point: Annotated[str, Field(min_length=3, max_length=253)] | None = None
    """Constructor of an environment of your own as `module:attribute`, instead of the registry's entry for
    `id`. The module must be importable in the actor image. Default: the registry's."""

    rollout_length: int = resolved(ge=1, le=1_000_000)
    """T, transitions that one actor samples per round, over all its environments. Unit: environment steps.
    Default: the preset's, rounded up to a multiple of envsPerActor."""

    envs_per_actor: int = resolved(ge=1, le=1024)
    """E, environments that one actor steps together; must divide rolloutLength. Default: the preset's, or the
    largest divisor of rolloutLength below it."""

    resume_episodes: bool = True
    """Whether an actor's next rollout goes on with the episodes that its last one left, where the environment
    can restore its state. False starts every rollout with a reset, as the paper does. Default: true."""
