"""The two presets: where values that a job leaves out come from.

`paper` has the settings of the Nitro paper (PVLDB 18(1), 2024, section 8 and table 1; PPO's are RLlib's
defaults, which it used). `tuned` has settings in the manner of CleanRL and SB3's zoo, with several
environments per actor and fewer actors; for RLlib's algorithms those of RLlib's own MuJoCo benchmark (rllib/
tuned_examples/ppo/benchmark_ppo_mujoco.py, Ray 2.40), where it has any.
"""

from __future__ import annotations

from typing import Any

_PPO = "algorithm.hyperparameters."


def _conv(channels: int, kernel: int, stride: int, padding: str) -> dict[str, Any]:
    return {"channels": channels, "kernel": kernel, "stride": stride, "padding": padding}


_PAPER_CONV = [_conv(16, 8, 4, "same"), _conv(32, 4, 2, "same"), _conv(256, 11, 1, "valid")]
_NATURE_CONV = [_conv(32, 8, 4, "valid"), _conv(64, 4, 2, "valid"), _conv(64, 3, 1, "valid")]

# fmt: off
TABLE: tuple[tuple[str, Any, Any], ...] = (
    # path below spec                     paper         tuned
    ("environment.rolloutLength",         512,          512),
    ("environment.envsPerActor",          1,            8),
    ("network.hiddenSizes",               [256, 256],   [64, 64]),
    ("network.activation",                "tanh",       "tanh"),
    ("network.logStd",                    "state",      "parameter"),
    (_PPO + "learningRate",               5e-5,         5e-4),
    (_PPO + "learningRateAnneal",         False,        False),
    (_PPO + "adamEpsilon",                1e-8,         1e-5),
    (_PPO + "gamma",                      0.99,         0.995),
    (_PPO + "gaeLambda",                  1.0,          0.95),
    (_PPO + "clip",                       0.3,          0.2),
    (_PPO + "klCoefficient",              0.2,          0.0),
    (_PPO + "klTarget",                   0.01,         0.01),
    (_PPO + "entropyCoefficient",         0.0,          0.0),
    (_PPO + "valueCoefficient",           1.0,          0.5),
    (_PPO + "valueClip",                  10.0,         0.0),
    (_PPO + "epochs",                     30,           10),
    (_PPO + "minibatchSize",              0,            64),
    (_PPO + "maxGradNorm",                0.0,          0.5),
    (_PPO + "standardiseAdvantages",      "batch",      "minibatch"),
    (_PPO + "normaliseObservations",      False,        True),
    (_PPO + "normaliseRewards",           False,        True),
    (_PPO + "orthogonalInit",             False,        True),
    ("evaluation.everyRounds",            1,            10),
    ("stop.rounds",                       50,           150),
    ("scaling.minActors",                 8,            4),
    ("scaling.maxActors",                 64,           8),
    ("scaling.initialActors",             16,           4),
    ("scaling.decay",                     0.96,         0.998),
)

ATARI: tuple[tuple[str, Any, Any], ...] = (
    # for ids that begin with ALE/        paper         tuned
    ("environment.rolloutLength",         16,           256),
    (_PPO + "learningRate",               5e-5,         2.5e-4),
    (_PPO + "learningRateAnneal",         False,        True),
    (_PPO + "gamma",                      0.99,         0.99),
    (_PPO + "clip",                       0.3,          0.1),
    (_PPO + "entropyCoefficient",         0.0,          0.01),
    (_PPO + "epochs",                     30,           4),
    (_PPO + "minibatchSize",              0,            256),
    (_PPO + "normaliseRewards",           False,        False),
    ("evaluation.everyRounds",            1,            50),
    ("stop.rounds",                       50,           1000),
    ("scaling.decay",                     0.96,         0.9997),
)

CONV: tuple[tuple[str, Any, Any], ...] = (
    # with network.type: conv             paper         tuned
    ("network.convLayers",                _PAPER_CONV,  _NATURE_CONV),
    ("network.hiddenSizes",               [],           [512]),
    ("network.activation",                "relu",       "relu"),
    (_PPO + "normaliseObservations",      False,        False),
)

RLLIB: tuple[tuple[str, Any, Any], ...] = (
    # for algorithms of RLlib             paper         tuned
    ("environment.envsPerActor",          1,            1),
    ("network.logStd",                    "state",      "state"),
    ("evaluation.everyRounds",            1,            5),
    ("stop.rounds",                       50,           60),
    ("scaling.minActors",                 8,            8),
    ("scaling.maxActors",                 64,           64),
    ("scaling.initialActors",             16,           32),
    ("scaling.decay",                     0.96,         0.97),
)

_RLLIB_PPO: tuple[tuple[str, Any, Any], ...] = (
    # setting of RLlib                    paper         tuned
    ("lr",                                5e-5,         3e-4),
    ("gamma",                             0.99,         0.99),
    ("lambda_",                           1.0,          0.95),
    ("clip_param",                        0.3,          0.3),
    ("kl_coeff",                          0.2,          0.2),
    ("kl_target",                         0.01,         0.01),
    ("entropy_coeff",                     0.0,          0.0),
    ("vf_loss_coeff",                     1.0,          0.01),
    ("vf_clip_param",                     10.0,         10.0),
    ("num_epochs",                        30,           15),
    ("minibatch_size",                    0,            4096),
)
_RLLIB_IMPALA: tuple[tuple[str, Any, Any], ...] = (
    ("lr",                                5e-4,         5e-4),
    ("gamma",                             0.99,         0.99),
    ("entropy_coeff",                     0.01,         0.01),
    ("vf_loss_coeff",                     0.5,          0.5),
    ("grad_clip",                         40.0,         40.0),
)
_RLLIB_APPO: tuple[tuple[str, Any, Any], ...] = (
    *_RLLIB_IMPALA,
    ("clip_param",                        0.4,          0.4),
    ("circular_buffer_num_batches",       8,            8),
    ("circular_buffer_iterations_per_batch", 2,         2),
    ("target_network_update_freq",        2,            2),
)
# fmt: on
_RLLIB_SETTINGS = {"rllib/ppo": _RLLIB_PPO, "rllib/appo": _RLLIB_APPO, "rllib/impala": _RLLIB_IMPALA}

PRESETS = ("paper", "tuned")


def preset_values(
    preset: str, *, algorithm: str = "ppo", atari: bool = False, conv: bool = False
) -> dict[str, Any]:
    """All values of a preset by their path below spec, for that algorithm and kind of environment and
    network."""
    column = PRESETS.index(preset)
    rllib = algorithm in _RLLIB_SETTINGS
    tables = TABLE + (RLLIB if rllib else ()) + (ATARI if atari else ()) + (CONV if conv else ())
    rows = {path: columns[column] for path, *columns in tables}
    return {path: value for path, value in rows.items() if not (rllib and path.startswith(_PPO))}


def rllib_settings(preset: str, algorithm: str) -> dict[str, Any]:
    """The preset's spec.algorithm.rllib; empty for algorithms that are not RLlib's."""
    column = PRESETS.index(preset)
    return {name: columns[column] for name, *columns in _RLLIB_SETTINGS.get(algorithm, ())}
