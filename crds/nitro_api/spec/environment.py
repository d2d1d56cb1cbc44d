"""spec.environment: what the actors play."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from nitro_api.base import Model
from nitro_api.spec.free_json import FreeJson, with_floats

InfoName = Annotated[str, Field(min_length=1, max_length=63, pattern="^[A-Za-z0-9_][A-Za-z0-9_./-]*$")]
"""Name of an entry of an environment's info."""


EnvironmentId = Annotated[str, Field(min_length=1, max_length=253)]
Steps = Annotated[int, Field(ge=1, le=1_000_000)]
Copies = Annotated[int, Field(ge=1, le=1024)]
Frames = Annotated[int, Field(ge=1, le=16)]


class Atari(Model):
    """How the screens of an Atari game become observations (Mnih et al. 2015), and how chance comes into the
    game (Machado et al. 2018)."""

    frame_size: Annotated[int, Field(ge=16, le=160)] = 84
    """Height and width of a frame: the screen in greys, each pixel the mean of the area it covers. Unit:
    pixels. Default: 84."""

    frame_skip: Annotated[int, Field(ge=1, le=60)] = 4
    """Screens that one action lasts. A frame shows the brighter of the last two at each pixel, because some
    games draw objects on every other screen only. Unit: screens, 60 per second of play. Default: 4."""

    sticky_actions: Annotated[float, Field(ge=0, lt=1)] = 0.25
    """Probability, at each screen, that the game still sees the action of the screen before. Default: 0.25,
    what the ids of version v5 stand for; the Nitro paper's games had 0."""

    noop_max: Annotated[int, Field(ge=0, le=1000)] = 30
    """An episode begins with a random number of idle screens, from 1 to this one. 0 turns it off. Unit:
    screens. Default: 30."""


class GivenEnvironment(Model):
    """The environment, and how much of it one actor samples in a round."""

    id: EnvironmentId | None = None
    """Name in gymnasium's registry, such as Hopper-v5 or ALE/SpaceInvaders-v5; `module:Name-v0` imports the
    module first. With entryPoint only a label. Default: entryPoint's text."""

    kwargs: Annotated[dict[str, Any], Field(max_length=64), FreeJson(), AfterValidator(with_floats)] = Field(
        default_factory=dict
    )
    """Keyword arguments of the environment's constructor: any JSON of at most 8 levels of mappings and lists,
    kwargs itself the first, and of at most 124 KiB. The API server stores 1.0 as 1; {$float: 1} arrives as
    1.0 everywhere. Default: none."""

    entry_point: Annotated[str, Field(min_length=3, max_length=253)] | None = None
    """Constructor of an environment of your own as `module:attribute`, instead of the registry's entry for
    `id`, which may then be left out. The module must be importable in the actor image. Default: the
    registry's."""

    rollout_length: Steps | None = None
    """T, transitions that one actor samples per round, over all its environments. Unit: environment steps.
    Default: the preset's, rounded up to a multiple of envsPerActor, or up to four times the preset's where
    episodes are longer and cannot be resumed."""

    envs_per_actor: Copies | None = None
    """E, environments that one actor steps together; must divide rolloutLength. Default: the preset's, or the
    largest divisor of rolloutLength below it; fewer, down to 1, where it is not known that episodes can be
    resumed, so that an episode fits into an environment's share of the rollout."""

    frame_stack: Frames | None = None
    """Observations that the policy sees at once, the newest and those before it. Images of shape [height,
    width] are stacked to [height, width, frameStack], others joined along their last axis; at the begin of an
    episode the first one is repeated. Actors send each only once. Default: 4 for Atari games (ids that begin
    with ALE/), otherwise 1."""

    clip_rewards: bool | None = None
    """Whether training sees only a reward's sign, -1, 0 or 1. Returns are always reported, and policies
    evaluated, with the rewards as they are. Default: true for Atari games, otherwise false."""

    rescale_actions: bool | None = None
    """Whether -1 to 1 of the policy stand for the bounds of the environment's actions, as gymnasium's
    RescaleAction has it. A policy begins with actions around 0, of standard deviation 1, so it hardly reaches
    bounds that are far from -1 and 1. Only for actions that are a Box with finite bounds; of several agents
    it holds for those that have such actions. Default: false."""

    atari: Atari | None = None
    """Preprocessing of Atari games. Only with ids that begin with ALE/."""

    resume_episodes: bool = True
    """Whether an actor's next rollout goes on with the episodes that its last one left, where the environment
    can restore its state. False starts every rollout with a reset, as the paper does. Default: true."""

    reset_idle_slots: bool | None = None
    """Whether a slot that the round before did not use starts with a reset. The episodes that it had left are
    given up. Otherwise it goes on with them, however old they are. It matters where the number of actors
    changes. Default: false."""

    info_metrics: Annotated[list[InfoName], Field(min_length=1, max_length=16)] | None = None
    """Entries of the info that steps return, each a number or a bool: the mean over a round's steps that have
    it (of several agents, over all of them) becomes the column info_NAME of metrics.csv. Not for Atari games
    and SMAX. Default: none."""

    @property
    def is_atari(self) -> bool:
        """Whether it is a game of the Arcade Learning Environment."""
        return self.entry_point is None and self.id is not None and self.id.startswith("ALE/")


class Environment(GivenEnvironment):
    """The environment of a resolved job."""

    id: EnvironmentId
    rollout_length: Steps
    envs_per_actor: Copies
    frame_stack: Frames
    clip_rewards: bool

    def to_actor(self) -> dict[str, Any]:
        """The actor's configuration: the JSON of its variable NITRO_ENVIRONMENT."""
        known = {name: value for name, value in self.to_dict().items() if name not in _LEARNERS}
        return {("envs" if name == "envsPerActor" else name): value for name, value in known.items()}


_LEARNERS = ("rolloutLength", "resumeEpisodes", "resetIdleSlots")
"""Fields that only the learner reads: they come with each request."""
