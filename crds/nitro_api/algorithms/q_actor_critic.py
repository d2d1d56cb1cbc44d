"""Actor-critics whose critics are Q-functions, for one agent with continuous actions: SAC (Haarnoja et al.
2018b), TD3 (Fujimoto et al. 2018) and DDPG (Lillicrap et al. 2016).

`paper` has the settings of the papers; that of `ddpg` has those of "Our DDPG" in Fujimoto et al. (2018),
which are TD3's. `tuned` has critics with layer normalisation.
"""

from typing import Annotated

from pydantic import Field

from nitro_api.algorithms.q_learning import SOME_TRANSITIONS
from nitro_api.algorithms.record import AlgorithmRecord, Hyperparameters, Rows, presets
from nitro_api.base import resolved


class QActorCriticHyperparameters(Hyperparameters):
    """Settings of SAC, TD3 and DDPG. What is not set comes from the preset."""

    learning_rate: float = resolved(gt=0, le=1)
    """Adam's step size. Default: the preset's."""

    adam_epsilon: float = resolved(gt=0, le=1)
    """Adam's epsilon. Default: the preset's."""

    gamma: float = resolved(ge=0, le=1)
    """Discount per step. Default: the preset's."""

    batch_size: int = resolved(ge=0, le=10_000_000)
    """Transitions of one gradient step. Unit: transitions. Default: the preset's."""

    updates_per_step: float = resolved(gt=0, le=1000)
    """Gradient steps for each environment step after the first warmUpSteps. Unit: gradient steps per
    environment step. Default: the preset's."""

    buffer_size: int = resolved(ge=1, le=100_000_000)
    """Transitions that the replay buffer holds. Unit: transitions. Default: the preset's."""

    tau: float = resolved(gt=0, le=1)
    """How far the target networks go towards the learned ones after a gradient step. Default: the
    preset's."""

    warm_up_steps: int = resolved(ge=0, le=1_000_000_000)
    """Environment steps with uniform actions as a run begins, in which nothing is learned. It ends with the
    round in which it is reached. Unit: environment steps. Default: the preset's."""

    layer_norm: bool = resolved()
    """Whether critics normalise each hidden layer before its activation. Default: the preset's."""

    max_staleness: int = resolved(ge=0, le=1000)
    """L, versions of the policy that a fragment may be behind when it arrives; an older one is dropped and
    counted. Each round publishes a version. Unit: versions. Default: the preset's."""


class SacHyperparameters(QActorCriticHyperparameters):
    """Settings of SAC. What is not set comes from the preset."""

    target_entropy: Annotated[float, Field(ge=-1e6, le=1e6)] | None = None
    """The entropy to which the temperature is tuned, of actions from -1 to 1. Unit: nats. Default: minus the
    number of numbers in an action."""


class DdpgHyperparameters(QActorCriticHyperparameters):
    """Settings of DDPG. What is not set comes from the preset."""

    exploration_noise: float = resolved(ge=0, le=10)
    """Standard deviation of the noise on sampled actions, which are from -1 to 1. Default: the preset's."""


class Td3Hyperparameters(DdpgHyperparameters):
    """Settings of TD3. What is not set comes from the preset."""

    policy_delay: int = resolved(ge=1, le=1000)
    """The policy and the target networks change in every so many-th gradient step. Unit: gradient steps.
    Default: the preset's."""

    target_noise: float = resolved(ge=0, le=10)
    """Standard deviation of the noise on the target policy's actions. Default: the preset's."""

    target_noise_clip: float = resolved(ge=0, le=10)
    """The noise on the target policy's actions is clipped to this size. Default: the preset's."""


# fmt: off
_USUAL: Rows = (
    #                             paper         tuned
    ("environment.rolloutLength", 64,           64),
    ("environment.envsPerActor",  1,            1),
    ("network.hiddenSizes",       [256, 256],   [256, 256]),
    ("network.activation",        "relu",       "relu"),
    ("learningRate",              3e-4,         3e-4),
    ("adamEpsilon",               1e-8,         1e-8),
    ("gamma",                     0.99,         0.99),
    ("batchSize",                 256,          256),
    ("updatesPerStep",            1.0,          1.0),
    ("bufferSize",                1_000_000,    1_000_000),
    ("tau",                       0.005,        0.005),
    ("warmUpSteps",               10_000,       1_000),
    ("layerNorm",                 False,        True),
    ("maxStaleness",              4,            4),
    ("scaling.minActors",         2,            2),
    ("scaling.maxActors",         8,            8),
    ("scaling.initialActors",     2,            2),
)
_SAC: Rows = (
    ("targetEntropy",             None,         None),
)
_DETERMINISTIC: Rows = (
    ("network.hiddenSizes",       [400, 300],   [256, 256]),
    ("learningRate",              1e-3,         1e-3),
    ("batchSize",                 100,          256),
    ("warmUpSteps",               1_000,        1_000),
    ("explorationNoise",          0.1,          0.1),
)
_TD3: Rows = (
    ("policyDelay",               2,            2),
    ("targetNoise",               0.2,          0.2),
    ("targetNoiseClip",           0.5,          0.5),
)
# fmt: on


def _record(
    name: str, summary: str, hyperparameters: type[QActorCriticHyperparameters], *rows: Rows
) -> AlgorithmRecord:
    return AlgorithmRecord(
        name=name,
        summary=summary,
        hyperparameters=hyperparameters,
        feeding="arrivals",
        presets=presets([row for table in (_USUAL, *rows) for row in table]),
        curvature="q-value",
        rules=(SOME_TRANSITIONS,),
    )


RECORDS = (
    _record(
        "sac",
        "soft actor-critic of one agent with continuous actions, from fragments as they arrive",
        SacHyperparameters,
        _SAC,
    ),
    _record(
        "td3",
        "deterministic actor with twin critics, of one agent with continuous actions, from fragments as they "
        "arrive",
        Td3Hyperparameters,
        _DETERMINISTIC,
        _TD3,
    ),
    _record(
        "ddpg",
        "deterministic actor with one critic, of one agent with continuous actions, from fragments as they "
        "arrive",
        DdpgHyperparameters,
        _DETERMINISTIC,
    ),
)
