"""PPO for several agents: IPPO (de Witt et al. 2020) and MAPPO (Yu et al. 2022).

Their settings are PPO's. `paper` has RLlib's defaults. `tuned` keeps observations as they are and its
learning rate constant. It scales rewards, so that critics begin at the level of the first round. With
critics that began at 0, two of two seeds of mpe2's simple_spread fell below agents that act at random before
they learned.
"""

from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_api.algorithms.record import ROUNDS, AlgorithmRecord, OptionalTensor, Rows, presets

# fmt: off
_PRESETS: Rows = (
    *ROUNDS,
    #                          paper         tuned
    ("learningRate",           5e-5,         5e-4),
    ("learningRateAnneal",     False,        False),
    ("adamEpsilon",            1e-8,         1e-5),
    ("gamma",                  0.99,         0.99),
    ("gaeLambda",              1.0,          0.95),
    ("clip",                   0.3,          0.2),
    ("klCoefficient",          0.2,          0.0),
    ("klTarget",               0.01,         0.01),
    ("entropyCoefficient",     0.0,          0.01),
    ("valueCoefficient",       1.0,          0.5),
    ("valueClip",              10.0,         0.0),
    ("epochs",                 30,           10),
    ("minibatchSize",          128,          500),
    ("maxGradNorm",            0.0,          0.5),
    ("standardiseAdvantages",  "batch",      "batch"),
    ("normaliseObservations",  False,        False),
    ("normaliseRewards",       False,        True),
    ("orthogonalInit",         False,        False),
)
# fmt: on


def _record(name: str, summary: str, *tensors: OptionalTensor) -> AlgorithmRecord:
    return AlgorithmRecord(
        name=name,
        summary=summary,
        hyperparameters=PpoHyperparameters,
        feeding="rounds",
        presets=presets(_PRESETS),
        tensors=frozenset(["log_probs", "distribution", *tensors]),
        agents="several",
        recurrent=True,
    )


RECORDS = (
    _record("ippo", "PPO for each of several agents, with its own critic"),
    _record(
        "mappo",
        "PPO for each of several agents, with critics that see the state of all",
        "global_state",
    ),
)
