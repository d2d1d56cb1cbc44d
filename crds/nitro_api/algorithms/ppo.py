"""PPO (Schulman et al. 2017)."""

from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
from nitro_api.algorithms.record import AlgorithmRecord, presets
from nitro_api.base import resolved


class PpoHyperparameters(ActorCriticHyperparameters):
    """Settings of PPO. What is not set comes from the preset."""

    value_clip: float = resolved(ge=0, le=1e9)
    """Upper bound of the squared value error of a sample. Unit: squared return. 0 turns it off. Default: the
    preset's."""


# fmt: off
_USUAL = (
    #                          paper         tuned
    ("learningRate",           5e-5,         5e-4),
    ("learningRateAnneal",     False,        False),
    ("adamEpsilon",            1e-8,         1e-5),
    ("gamma",                  0.99,         0.995),
    ("gaeLambda",              1.0,          0.95),
    ("clip",                   0.3,          0.2),
    ("klCoefficient",          0.2,          0.0),
    ("klTarget",               0.01,         0.01),
    ("entropyCoefficient",     0.0,          0.0),
    ("valueCoefficient",       1.0,          0.5),
    ("valueClip",              10.0,         0.0),
    ("epochs",                 30,           10),
    ("minibatchSize",          0,            64),
    ("maxGradNorm",            0.0,          0.5),
    ("standardiseAdvantages",  "batch",      "minibatch"),
    ("normaliseObservations",  False,        True),
    ("normaliseRewards",       False,        True),
    ("orthogonalInit",         False,        True),
)
_ATARI = (
    #                          paper         tuned
    ("learningRate",           5e-5,         2.5e-4),
    ("learningRateAnneal",     False,        True),
    ("gamma",                  0.99,         0.99),
    ("clip",                   0.3,          0.1),
    ("entropyCoefficient",     0.0,          0.01),
    ("epochs",                 30,           4),
    ("minibatchSize",          0,            256),
    ("normaliseRewards",       False,        False),
)
_CONV = (
    #                          paper         tuned
    ("normaliseObservations",  False,        False),
)
# fmt: on

RECORD = AlgorithmRecord(
    name="ppo",
    summary="waits for all fragments of a round",
    hyperparameters=PpoHyperparameters,
    feeding="rounds",
    presets=presets(_USUAL, atari=_ATARI, conv=_CONV),
    tensors=frozenset(["log_probs", "distribution"]),
    recurrent=True,
    own_network=True,
)
