"""The presets: where values that a job leaves out come from.

`paper` has the settings of the Nitro paper (PVLDB 18(1), 2024, section 8 and table 1; PPO's are RLlib's
defaults, which it used). `tuned` has settings in the manner of CleanRL, with several environments per actor
and fewer actors. docs/algorithms.md says where PPO's differ from their sources. The values here do not depend
on the algorithm. Each algorithm's record has values of its own, which take precedence.
"""

from __future__ import annotations

from typing import Any

from nitro_api.algorithms.record import COLUMNS, Rows, path_of
from nitro_api.algorithms.registry import RECORDS


def _conv(channels: int, kernel: int, stride: int, padding: str) -> dict[str, Any]:
    return {"channels": channels, "kernel": kernel, "stride": stride, "padding": padding}


_PAPER_CONV = [_conv(16, 8, 4, "same"), _conv(32, 4, 2, "same"), _conv(256, 11, 1, "valid")]
_NATURE_CONV = [_conv(32, 8, 4, "valid"), _conv(64, 4, 2, "valid"), _conv(64, 3, 1, "valid")]

# fmt: off
_USUAL: Rows = (
    # path below spec                     paper         tuned
    ("environment.rolloutLength",         512,          512),
    ("environment.envsPerActor",          1,            8),
    ("network.hiddenSizes",               [256, 256],   [64, 64]),
    ("network.activation",                "tanh",       "tanh"),
    ("network.logStd",                    "state",      "parameter"),
    ("evaluation.everyRounds",            1,            10),
    ("stop.rounds",                       50,           150),
    ("scaling.scaler",                    "nitro",      "fixed"),
    ("scaling.minActors",                 8,            4),
    ("scaling.maxActors",                 64,           8),
    ("scaling.initialActors",             16,           4),
    ("scaling.decay",                     0.96,         0.998),
)

_ATARI: Rows = (
    # for ids that begin with ALE/        paper         tuned
    ("environment.rolloutLength",         16,           256),
    ("evaluation.everyRounds",            1,            50),
    ("stop.rounds",                       50,           1000),
    ("scaling.decay",                     0.96,         0.9997),
)

_CONV: Rows = (
    # with network.type: conv             paper         tuned
    ("network.convLayers",                _PAPER_CONV,  _NATURE_CONV),
    ("network.hiddenSizes",               [],           [512]),
    ("network.activation",                "relu",       "relu"),
)
# fmt: on
_RLLIB = path_of("", "rllib")


def preset_values(
    preset: str, *, algorithm: str = "ppo", atari: bool = False, conv: bool = False
) -> dict[str, Any]:
    """All values of a preset by their path below spec, for that algorithm and kind of environment and
    network."""
    values = _all_values(preset, algorithm, atari=atari, conv=conv)
    return {path: value for path, value in values.items() if not path.startswith(_RLLIB)}


def rllib_settings(preset: str, algorithm: str) -> dict[str, Any]:
    """The preset's spec.algorithm.rllib; empty for algorithms that are not RLlib's."""
    values = _all_values(preset, algorithm)
    return {path.removeprefix(_RLLIB): v for path, v in values.items() if path.startswith(_RLLIB)}


def _all_values(preset: str, algorithm: str, *, atari: bool = False, conv: bool = False) -> dict[str, Any]:
    own = RECORDS[algorithm].presets[preset]
    column = COLUMNS.index(own.column)
    values: dict[str, Any] = {}
    for given, common, special in (
        (True, _USUAL, {}),
        (atari, _ATARI, {}),
        (True, (), own.usual),
        (atari, (), own.atari),
        (conv, _CONV, own.conv),
    ):
        if given:
            values |= {path: columns[column] for path, *columns in common} | dict(special)
    return values
