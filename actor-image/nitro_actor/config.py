"""The actor's configuration of its environment, from the variable NITRO_ENVIRONMENT."""

import json
from dataclasses import dataclass, field, fields
from typing import Any


class EnvironmentConfigError(ValueError):
    """The environment cannot be used. The text says why and what to do."""


class NotInstalled(EnvironmentConfigError):  # noqa: N818 - a state, not a mistake
    """The environment needs a package that is not installed on this machine; it may be on another."""


@dataclass(frozen=True)
class AtariConfig:
    """How a game's screens become frames; see `nitro explain spec.environment.atari`.

    Attributes:
        frame_size: height and width of a frame.
        frame_skip: number of screens that one action lasts.
        sticky_actions: probability, at each screen, that the game still gets the previous action.
        noop_max: largest number of idle screens at the start of an episode.
    """

    frame_size: int = 84
    frame_skip: int = 4
    sticky_actions: float = 0.25
    noop_max: int = 30


@dataclass(frozen=True)
class EnvironmentConfig:
    """What to build: a gymnasium id, or an entry point `module:attribute` (a class or a factory).

    Attributes:
        count: E, copies that are stepped together.
        frame_stack: observations that the policy sees at once.
        clip_rewards: whether fragments carry only the rewards' signs.
        rescale_actions: whether a policy's -1 to 1 stand for the bounds of the environment's actions.
        atari: settings for a game of the Arcade Learning Environment.
        info_metrics: entries of the steps' info whose numbers fragments carry.
    """

    id: str
    count: int
    kwargs: dict[str, Any] = field(default_factory=dict)
    entry_point: str | None = None
    frame_stack: int = 1
    clip_rewards: bool = False
    rescale_actions: bool = False
    atari: AtariConfig | None = None
    info_metrics: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> "EnvironmentConfig":
        """Read {"id", "kwargs", "entryPoint", "envs", "frameStack", "clipRewards", "rescaleActions",
        "atari", "infoMetrics"}.

        Raises:
            EnvironmentConfigError: the text is not such an object.
        """
        try:
            value = dict(json.loads(text))
            config = cls(
                id=str(value.pop("id")),
                count=_integer("envs", value.pop("envs", 1)),
                kwargs=dict(value.pop("kwargs", None) or {}),
                entry_point=value.pop("entryPoint", None),
                frame_stack=_integer("frameStack", value.pop("frameStack", 1)),
                clip_rewards=bool(value.pop("clipRewards", False)),
                rescale_actions=bool(value.pop("rescaleActions", False)),
                atari=_atari(value.pop("atari", None)),
                info_metrics=_names(value.pop("infoMetrics", None)),
            )
            _require_empty(value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise EnvironmentConfigError(f"NITRO_ENVIRONMENT is wrong: {error!r}") from error
        return config


def _names(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"infoMetrics is {value!r}, it must be a list of names")
    return tuple(dict.fromkeys(value))


def _atari(value: dict[str, Any] | None) -> AtariConfig | None:
    if value is None:
        return None
    left = dict(value)
    names = {field.name: _camel(field.name) for field in fields(AtariConfig)}
    config = AtariConfig(**{name: left.pop(alias) for name, alias in names.items() if alias in left})
    _require_empty(left)
    return config


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _integer(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} is {value!r}, it must be a whole number of at least 1")
    return value


def _require_empty(left: dict[str, Any]) -> None:
    if left:
        raise ValueError(f"unknown fields {sorted(left)}")
