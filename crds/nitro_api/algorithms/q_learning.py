"""Q-learning: DQN (Mnih et al. 2015) for one agent; IQL (Tan 1993), VDN (Sunehag et al. 2018) and QMIX
(Rashid et al. 2018) for several.

They have prioritised replay (Schaul et al. 2016), double Q-learning (van Hasselt et al. 2016) and dueling
networks (Wang et al. 2016).

`paper` has the defaults of RLlib's DQN. `tuned` has larger networks of ReLUs and larger batches, a falling
learning rate, a shorter horizon, longer exploration and standardised rewards. `tuned` of `dqn` is like RL
Baselines3 Zoo's settings for CartPole, with double Q-learning and a lower learning rate, which falls.
"""

from nitro_api.algorithms.record import (
    ROUNDS,
    AlgorithmRecord,
    Hyperparameters,
    OptionalTensor,
    Rows,
    presets,
)
from nitro_api.base import Rule, resolved


class QLearningHyperparameters(Hyperparameters):
    """Settings of a Q-learner. What is not set comes from the preset."""

    learning_rate: float = resolved(gt=0, le=1)
    """Adam's step size. Default: the preset's."""

    learning_rate_anneal: bool = resolved()
    """Whether the learning rate falls linearly to zero over spec.stop.rounds. Default: the preset's."""

    adam_epsilon: float = resolved(gt=0, le=1)
    """Adam's epsilon. Default: the preset's."""

    gamma: float = resolved(ge=0, le=1)
    """Discount per step. Default: the preset's."""

    batch_size: int = resolved(ge=0, le=10_000_000)
    """Transitions of one gradient step. With network.recurrent it has as many whole sequences of
    rolloutLength / envsPerActor transitions as come to this number, at least one. Unit: transitions. Default:
    the preset's."""

    replay_ratio: float = resolved(gt=0, le=1000)
    """How many transitions are trained on for each one that is sampled. With the batch size it gives the
    gradient steps of a round. Default: the preset's."""

    buffer_size: int = resolved(ge=1, le=100_000_000)
    """Transitions that the replay buffer holds. It holds whole rounds, and the observation at the end of a
    rollout or a truncated episode takes a place too. With network.recurrent one fragment must fit at least.
    Unit: transitions. Default: the preset's."""

    priority_alpha: float = resolved(ge=0, le=1)
    """How much a transition's temporal-difference error decides how often it is drawn. 0 draws uniformly.
    Default: the preset's."""

    priority_beta: float = resolved(ge=0, le=1)
    """How much the loss corrects for the transitions that are drawn more often. 1 corrects for all of it.
    Default: the preset's."""

    priority_epsilon: float = resolved(gt=0, le=1e6)
    """What is added to a transition's error, so that each can be drawn. Default: the preset's."""

    target_update_steps: int = resolved(ge=1, le=10_000_000)
    """The target networks are made equal to the learned ones after so many gradient steps. Unit: gradient
    steps. Default: the preset's."""

    epsilon_initial: float = resolved(ge=0, le=1)
    """Probability of a random action as a run begins. It falls linearly. Default: the preset's."""

    epsilon_final: float = resolved(ge=0, le=1)
    """Probability of a random action after epsilonSteps. Default: the preset's."""

    epsilon_steps: int = resolved(ge=1, le=1_000_000_000)
    """Environment steps in which the probability of a random action falls. Unit: environment steps. Default:
    the preset's."""

    double_q: bool = resolved()
    """Whether the learned network chooses the next action and the target network rates it, or the target
    network does both. Default: the preset's."""

    dueling: bool = resolved()
    """Whether a network gives a value and advantages, or the actions' values at once. Default: the
    preset's."""

    max_grad_norm: float = resolved(ge=0, le=1e9)
    """Gradients are scaled down to this global norm. 0 turns it off. Default: the preset's."""

    normalise_rewards: bool = resolved()
    """Whether rewards are scaled. Actor-critics divide them by the running deviation of the discounted
    return, and with several agents critics begin at the level of the first round. Q-learners learn values in
    a unit in which rewards have the mean 0 and the deviation 1. Default: the preset's."""

    @property
    def anneals(self) -> bool:
        return self.learning_rate_anneal

    @property
    def return_steps(self) -> int:
        """How many rewards a target sums."""
        return 1


class DqnHyperparameters(QLearningHyperparameters):
    """Settings of DQN. What is not set comes from the preset."""

    max_staleness: int = resolved(ge=0, le=1000)
    """L, versions of the policy that a fragment may be behind when it arrives; an older one is dropped and
    counted. Each round publishes a version. Unit: versions. Default: the preset's."""

    n_step: int = resolved(ge=1, le=1000)
    """How many rewards a target sums before the value of what follows; fewer where an episode or a rollout
    ends. Unit: steps. Default: the preset's."""

    @property
    def return_steps(self) -> int:
        return self.n_step


class QmixHyperparameters(QLearningHyperparameters):
    """Settings of QMIX. What is not set comes from the preset."""

    mixer_units: int = resolved(ge=1, le=4096)
    """Hidden units of the mixing network. Default: the preset's."""

    hypernetwork_units: int = resolved(ge=1, le=4096)
    """Hidden units of the networks that give the mixing network's weights. Default: the preset's."""


# fmt: off
_USUAL: Rows = (
    *ROUNDS,
    #                        paper      tuned
    ("network.hiddenSizes",  [64, 64],  [128, 128]),
    ("network.activation",   "tanh",    "relu"),
    ("learningRate",         5e-4,      5e-4),
    ("learningRateAnneal",   False,     True),
    ("adamEpsilon",          1e-8,      1e-5),
    ("gamma",                0.99,      0.95),
    ("batchSize",            32,        128),
    ("replayRatio",          8.0,       8.0),
    ("bufferSize",           50_000,    50_000),
    ("priorityAlpha",        0.6,       0.6),
    ("priorityBeta",         0.4,       0.4),
    ("priorityEpsilon",      1e-6,      1e-6),
    ("targetUpdateSteps",    125,       200),
    ("epsilonInitial",       1.0,       1.0),
    ("epsilonFinal",         0.02,      0.05),
    ("epsilonSteps",         10_000,    50_000),
    ("doubleQ",              True,      True),
    ("dueling",              True,      True),
    ("maxGradNorm",          40.0,      10.0),
    ("normaliseRewards",     False,     True),
)
_MIXER: Rows = (
    ("mixerUnits",           32,        32),
    ("hypernetworkUnits",    64,        64),
)
_DQN: Rows = (
    #                             paper      tuned
    ("environment.rolloutLength", 64,        128),
    ("environment.envsPerActor",  1,         4),
    ("network.hiddenSizes",       [64, 64],  [256, 256]),
    ("network.activation",        "tanh",    "relu"),
    ("learningRate",              5e-4,      1e-3),
    ("learningRateAnneal",        False,     True),
    ("adamEpsilon",               1e-8,      1e-5),
    ("gamma",                     0.99,      0.99),
    ("batchSize",                 32,        64),
    ("replayRatio",               8.0,       32.0),
    ("bufferSize",                50_000,    100_000),
    ("priorityAlpha",             0.6,       0.0),
    ("priorityBeta",              0.4,       0.4),
    ("priorityEpsilon",           1e-6,      1e-6),
    ("targetUpdateSteps",         125,       128),
    ("epsilonInitial",            1.0,       1.0),
    ("epsilonFinal",              0.02,      0.04),
    ("epsilonSteps",              10_000,    8_000),
    ("doubleQ",                   True,      True),
    ("dueling",                   True,      False),
    ("maxGradNorm",               40.0,      10.0),
    ("normaliseRewards",          False,     False),
    ("maxStaleness",              4,         4),
    ("nStep",                     1,         1),
    ("scaling.minActors",         2,         2),
    ("scaling.maxActors",         8,         8),
    ("scaling.initialActors",     2,         2),
)
# fmt: on
"""RLlib's DQN learns from 32 transitions for 4 sampled ones, and copies its target network every 500 steps,
which are 125 gradient steps."""


SOME_TRANSITIONS = Rule(
    path="hyperparameters.batchSize",
    cel="!has(self.hyperparameters) || !has(self.hyperparameters.batchSize) "
    "|| self.hyperparameters.batchSize > 0",
    sentence="must be above zero (0, for one fragment, is only for impact); raise or remove it",
)


def _record(
    name: str,
    summary: str,
    hyperparameters: type[Hyperparameters],
    rows: Rows,
    tensors: frozenset[OptionalTensor] = frozenset(),
    *,
    common_reward: bool = True,
) -> AlgorithmRecord:
    return AlgorithmRecord(
        name=name,
        summary=summary,
        hyperparameters=hyperparameters,
        feeding="rounds",
        presets=presets(rows),
        tensors=tensors,
        curvature="td-loss",
        agents="several",
        common_reward=common_reward,
        recurrent=True,
        rules=(SOME_TRANSITIONS,),
    )


RECORDS = (
    AlgorithmRecord(
        name="dqn",
        summary="Q-learning of one agent, from fragments as they arrive",
        hyperparameters=DqnHyperparameters,
        feeding="arrivals",
        presets=presets(_DQN),
        curvature="td-loss",
        rules=(SOME_TRANSITIONS,),
    ),
    _record(
        "iql",
        "Q-learning for each of several agents",
        QLearningHyperparameters,
        _USUAL,
        common_reward=False,
    ),
    _record(
        "vdn",
        "Q-learning of a team with one reward, by the sum of its agents' values",
        QLearningHyperparameters,
        _USUAL,
    ),
    _record(
        "qmix",
        "Q-learning of a team with one reward, by a monotonic mix of its agents' values",
        QmixHyperparameters,
        (*_USUAL, *_MIXER),
        frozenset(["global_state"]),
    ),
)
