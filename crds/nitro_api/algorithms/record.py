"""The record of a learning algorithm: what the job's API, its documentation and the training loop know of it.

The CRD's schema, the rules, the presets, `nitro explain` and the training loop derive from the records in
`registry.py`. The code that learns is in nitro_learner/algorithms.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from nitro_api.base import Model, Rule

Feeding = Literal["rounds", "arrivals"]
"""`rounds`: all fragments of a round at once, sampled with the newest weights. `arrivals`: fragments as they
arrive, also of earlier rounds."""

OptionalTensor = Literal["log_probs", "distribution", "global_state"]
"""A tensor of a fragment that not every algorithm learns from: the log-probabilities of the actions, the
parameters of the distribution that they were drawn from, and the global state of an environment of several
agents."""

Agents = Literal["one", "several"]
"""How many agents the environments of an algorithm have."""

Curvature = Literal["surrogate", "td-loss", "q-value"]
"""What the boosting detector differentiates. `surrogate`: the policy's objective, in the form that
spec.scaling.surrogate names. `td-loss`: the negative temporal-difference loss with its targets fixed.
`q-value`: the mean value of the policy's actions, with the critics fixed."""

Settings = Literal["hyperparameters", "rllib"]
"""The block of spec.algorithm in which a job writes an algorithm's settings."""

COLUMNS = ("paper", "tuned")
"""The presets that every algorithm has."""

Rows = Iterable[tuple[str, Any, Any]]
"""A table of presets: a setting and its values in `paper` and in `tuned`. The setting is a name in the
algorithm's block, or a path below spec."""


class Hyperparameters(Model):
    """Base of every algorithm's settings."""

    @property
    def anneals(self) -> bool:
        """Whether a setting changes over spec.stop.rounds, so that a run of fewer rounds is another run."""
        return False


@dataclass(frozen=True)
class Preset:
    """Values for what a job leaves out, by path below spec.

    Attributes:
        column: the one of COLUMNS that gives the values which do not depend on the algorithm.
        usual: values of the algorithm.
        atari: values that differ for Atari games.
        conv: values that differ with a convolutional network.
    """

    column: str
    usual: Mapping[str, Any]
    atari: Mapping[str, Any] = field(default_factory=dict)
    conv: Mapping[str, Any] = field(default_factory=dict)

    def but(self, rows: Iterable[tuple[str, Any]], settings: Settings = "hyperparameters") -> Self:
        """A copy with other values of some settings, for every environment and every network."""
        changed = {path_of(name, settings): value for name, value in rows}
        return replace(self, usual={**self.usual, **changed}, atari={**self.atari, **changed})


def presets(
    usual: Rows, *, atari: Rows = (), conv: Rows = (), settings: Settings = "hyperparameters"
) -> dict[str, Preset]:
    """The presets `paper` and `tuned` of an algorithm, from tables."""

    def values(rows: Rows, column: int) -> dict[str, Any]:
        return {path_of(name, settings): choices[column] for name, *choices in rows}

    return {
        name: Preset(name, values(usual, column), values(atari, column), values(conv, column))
        for column, name in enumerate(COLUMNS)
    }


def path_of(name: str, settings: Settings) -> str:
    """The path below spec of a setting in a table of presets."""
    return name if "." in name else f"algorithm.{settings}.{name}"


@dataclass(frozen=True)
class AlgorithmRecord:
    """A learning algorithm.

    Attributes:
        name: spec.algorithm.name.
        summary: what it does; `nitro explain` shows it behind the name.
        hyperparameters: model of its settings. A setting that several algorithms have must be declared
            equally in all of them; narrower bounds of one algorithm go into its rules.
        feeding: how the training loop feeds it.
        presets: by name; `paper` and `tuned` at least.
        tensors: the optional tensors that it needs in a fragment.
        curvature: what the boosting detector measures.
        settings: the block in which a job writes its settings. The other block is refused.
        agents: whether its environments have one agent or several.
        common_reward: whether it needs one reward that all of its agents get.
        recurrent: whether its policies may have a recurrent layer.
        own_network: whether its policies may be modules of the user's own.
        rules: its further rules on spec.algorithm.
    """

    name: str
    summary: str
    hyperparameters: type[Hyperparameters]
    feeding: Feeding
    presets: Mapping[str, Preset]
    tensors: frozenset[OptionalTensor] = frozenset()
    curvature: Curvature = "surrogate"
    settings: Settings = "hyperparameters"
    agents: Agents = "one"
    common_reward: bool = False
    recurrent: bool = False
    own_network: bool = False
    rules: tuple[Rule, ...] = ()


# fmt: off
ROUNDS: Rows = (
    # path below spec                  paper         tuned
    ("environment.rolloutLength",      100,          100),
    ("environment.envsPerActor",       4,            4),
    ("network.hiddenSizes",            [64, 64],     [64, 64]),
    ("network.logStd",                 "state",      "parameter"),
    ("evaluation.everyRounds",         10,           10),
    ("stop.rounds",                    100,          100),
    ("scaling.minActors",              10,           10),
    ("scaling.maxActors",              50,           40),
    ("scaling.initialActors",          50,           40),
)
# fmt: on
"""The size of a round, for all algorithms of several agents. `paper` has the MARLess paper's numbers of
actors; `tuned` 4,000 steps a round at most."""
