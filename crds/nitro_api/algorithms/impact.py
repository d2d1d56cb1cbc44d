"""IMPACT (Luo et al. 2020).

Its preset `artifact` has the values of `paper`, except where the authors' released code differs: there is no
replay, a batch is one fragment, and the target network follows after each batch.
"""

from typing import Annotated

from pydantic import Field

from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
from nitro_api.algorithms.record import AlgorithmRecord, presets
from nitro_api.base import resolved


class ImpactHyperparameters(ActorCriticHyperparameters):
    """Settings of IMPACT. What is not set comes from the preset."""

    batch_size: int = resolved(ge=0, le=10_000_000)
    """Transitions of one batch of the replay buffer; it takes in whole fragments until it has as many. 0 is
    one fragment. Unit: transitions. Default: the preset's."""

    buffer_batches: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """N, batches that the replay buffer holds; a new one takes the oldest one's place. Unit: batches.
    Default: paper 4 with discrete actions and 16 with continuous ones, tuned 2, artifact 1."""

    buffer_uses: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """K, how often a batch of the replay buffer is learned from at most. 1 turns replay off. Default: paper 2
    with discrete actions and 20 with continuous ones, tuned 2, artifact 1."""

    target_update_frequency: float = resolved(gt=0, le=1e6)
    """The target network follows after so many times N * K uses of a batch. Default: the preset's."""

    max_staleness: int = resolved(ge=0, le=1000)
    """L, versions of the policy that a fragment may be behind when it arrives; an older one is dropped and
    counted. Each round publishes a version. Unit: versions. Default: the preset's."""


# fmt: off
_USUAL = (
    #                          paper         tuned
    ("learningRate",           5e-4,         5e-4),
    ("learningRateAnneal",     False,        False),
    ("adamEpsilon",            1e-8,         1e-5),
    ("gamma",                  0.99,         0.995),
    ("gaeLambda",              1.0,          0.95),
    ("clip",                   0.4,          0.2),
    ("klCoefficient",          1.0,          0.0),
    ("klTarget",               0.01,         0.01),
    ("entropyCoefficient",     0.01,         0.0),
    ("valueCoefficient",       1.0,          0.5),
    ("minibatchSize",          0,            64),
    ("maxGradNorm",            40.0,         0.5),
    ("standardiseAdvantages",  "off",        "minibatch"),
    ("normaliseObservations",  False,        True),
    ("normaliseRewards",       False,        True),
    ("orthogonalInit",         False,        True),
    ("epochs",                 1,            5),
    ("batchSize",              4096,         2048),
    ("bufferBatches",          None,         2),
    ("bufferUses",             None,         2),
    ("targetUpdateFrequency",  1.0,          0.25),
    ("maxStaleness",           4,            4),
)
_ATARI = (
    #                          paper         tuned
    ("learningRate",           5e-4,         2.5e-4),
    ("learningRateAnneal",     False,        True),
    ("gamma",                  0.99,         0.99),
    ("clip",                   0.4,          0.1),
    ("entropyCoefficient",     0.01,         0.01),
    ("epochs",                 1,            2),
    ("minibatchSize",          0,            256),
    ("normaliseRewards",       False,        False),
    ("batchSize",              256,          1024),
)
_CONV = (
    #                          paper         tuned
    ("normaliseObservations",  False,        False),
)
_ARTIFACT = (
    ("batchSize",              0),
    ("bufferBatches",          1),
    ("bufferUses",             1),
    ("targetUpdateFrequency",  1.0),
)
# fmt: on
_PRESETS = presets(_USUAL, atari=_ATARI, conv=_CONV)

RECORD = AlgorithmRecord(
    name="impact",
    summary="learns off-policy from fragments as they arrive",
    hyperparameters=ImpactHyperparameters,
    feeding="arrivals",
    presets=_PRESETS | {"artifact": _PRESETS["paper"].but(_ARTIFACT)},
    tensors=frozenset(["log_probs"]),
)
