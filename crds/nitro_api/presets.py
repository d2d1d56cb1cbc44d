"""The presets: where values that a job leaves out come from.

`paper` has the settings of the Nitro paper (PVLDB 18(1), 2024, section 8 and table 1; PPO's are RLlib's
defaults, which it used). `tuned` has settings in the manner of CleanRL and SB3's zoo, with several
environments per actor and fewer actors; for RLlib's algorithms those of RLlib's own MuJoCo benchmark (rllib/
tuned_examples/ppo/benchmark_ppo_mujoco.py, Ray 2.40), where it has any. `artifact`, for IMPACT alone, has the
paper's but where the authors' released code differs: no replay, a batch is one fragment, and the target
network follows after each.
"""

from __future__ import annotations

from typing import Any

from nitro_api.algorithm import ONLY

_HYPER = "algorithm.hyperparameters."


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
    (_HYPER + "learningRate",               5e-5,         5e-4),
    (_HYPER + "learningRateAnneal",         False,        False),
    (_HYPER + "adamEpsilon",                1e-8,         1e-5),
    (_HYPER + "gamma",                      0.99,         0.995),
    (_HYPER + "gaeLambda",                  1.0,          0.95),
    (_HYPER + "clip",                       0.3,          0.2),
    (_HYPER + "klCoefficient",              0.2,          0.0),
    (_HYPER + "klTarget",                   0.01,         0.01),
    (_HYPER + "entropyCoefficient",         0.0,          0.0),
    (_HYPER + "valueCoefficient",           1.0,          0.5),
    (_HYPER + "valueClip",                  10.0,         0.0),
    (_HYPER + "epochs",                     30,           10),
    (_HYPER + "minibatchSize",              0,            64),
    (_HYPER + "maxGradNorm",                0.0,          0.5),
    (_HYPER + "standardiseAdvantages",      "batch",      "minibatch"),
    (_HYPER + "normaliseObservations",      False,        True),
    (_HYPER + "normaliseRewards",           False,        True),
    (_HYPER + "orthogonalInit",             False,        True),
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
    (_HYPER + "learningRate",               5e-5,         2.5e-4),
    (_HYPER + "learningRateAnneal",         False,        True),
    (_HYPER + "gamma",                      0.99,         0.99),
    (_HYPER + "clip",                       0.3,          0.1),
    (_HYPER + "entropyCoefficient",         0.0,          0.01),
    (_HYPER + "epochs",                     30,           4),
    (_HYPER + "minibatchSize",              0,            256),
    (_HYPER + "normaliseRewards",           False,        False),
    ("evaluation.everyRounds",            1,            50),
    ("stop.rounds",                       50,           1000),
    ("scaling.decay",                     0.96,         0.9997),
)

CONV: tuple[tuple[str, Any, Any], ...] = (
    # with network.type: conv             paper         tuned
    ("network.convLayers",                _PAPER_CONV,  _NATURE_CONV),
    ("network.hiddenSizes",               [],           [512]),
    ("network.activation",                "relu",       "relu"),
    (_HYPER + "normaliseObservations",      False,        False),
)

IMPACT: tuple[tuple[str, Any, Any], ...] = (
    # with name: impact                   paper         tuned
    (_HYPER + "learningRate",               5e-4,         5e-4),
    (_HYPER + "learningRateAnneal",         False,        False),
    (_HYPER + "adamEpsilon",                1e-8,         1e-5),
    (_HYPER + "gamma",                      0.99,         0.995),
    (_HYPER + "gaeLambda",                  1.0,          0.95),
    (_HYPER + "clip",                       0.4,          0.2),
    (_HYPER + "klCoefficient",              1.0,          0.0),
    (_HYPER + "klTarget",                   0.01,         0.01),
    (_HYPER + "entropyCoefficient",         0.01,         0.0),
    (_HYPER + "valueCoefficient",           1.0,          0.5),
    (_HYPER + "minibatchSize",              0,            64),
    (_HYPER + "maxGradNorm",                40.0,         0.5),
    (_HYPER + "standardiseAdvantages",      "off",        "minibatch"),
    (_HYPER + "normaliseObservations",      False,        True),
    (_HYPER + "normaliseRewards",           False,        True),
    (_HYPER + "orthogonalInit",             False,        True),
    (_HYPER + "epochs",                     1,            5),
    (_HYPER + "batchSize",                  4096,         2048),
    (_HYPER + "bufferBatches",              None,         2),
    (_HYPER + "bufferUses",                 None,         2),
    (_HYPER + "targetUpdateFrequency",      1.0,          0.25),
    (_HYPER + "maxStaleness",               4,            4),
)

IMPACT_ATARI: tuple[tuple[str, Any, Any], ...] = (
    # with name: impact, for Atari        paper         tuned
    (_HYPER + "learningRate",               5e-4,         2.5e-4),
    (_HYPER + "learningRateAnneal",         False,        True),
    (_HYPER + "gamma",                      0.99,         0.99),
    (_HYPER + "clip",                       0.4,          0.1),
    (_HYPER + "entropyCoefficient",         0.01,         0.01),
    (_HYPER + "epochs",                     1,            2),
    (_HYPER + "minibatchSize",              0,            256),
    (_HYPER + "normaliseRewards",           False,        False),
    (_HYPER + "batchSize",                  256,          1024),
)

IMPACT_ARTIFACT: tuple[tuple[str, Any], ...] = (
    # with name: impact                   artifact, otherwise as paper
    (_HYPER + "batchSize",                  0),
    (_HYPER + "bufferBatches",              1),
    (_HYPER + "bufferUses",                 1),
    (_HYPER + "targetUpdateFrequency",      1.0),
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
    column = PRESETS.index("paper" if preset == "artifact" else preset)
    tables = TABLE + (ATARI if atari else ())
    if algorithm == "impact":
        tables += IMPACT + (IMPACT_ATARI if atari else ())
    elif algorithm in _RLLIB_SETTINGS:
        tables += RLLIB
    rows = {path: columns[column] for path, *columns in tables + (CONV if conv else ())}
    if preset == "artifact":
        rows |= dict(IMPACT_ARTIFACT)
    return {path: value for path, value in rows.items() if _has(algorithm, path)}


def _has(algorithm: str, path: str) -> bool:
    """Whether the algorithm has the field."""
    if not path.startswith(_HYPER):
        return True
    others = [field for owner, fields in ONLY.items() if owner != algorithm for field in fields]
    return algorithm not in _RLLIB_SETTINGS and path.removeprefix(_HYPER) not in others


def rllib_settings(preset: str, algorithm: str) -> dict[str, Any]:
    """The preset's spec.algorithm.rllib; empty for algorithms that are not RLlib's."""
    column = PRESETS.index(preset) if algorithm in _RLLIB_SETTINGS else 0
    return {name: columns[column] for name, *columns in _RLLIB_SETTINGS.get(algorithm, ())}
