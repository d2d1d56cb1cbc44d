"""MinionsRL's scaling agent: a small PPO policy that chooses the number of actors (Yu et al., AAAI 2024;
Nitro, section 8.3).

Its environment is a training run, its step a round, its episode the whole run. It learns with the platform's
own PPO. Its file is a checkpoint like a run's: safetensors, written atomically, with a digest.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import FieldError, JobInvalid, JobSpec, load_job, resolve
from nitro_api.errors import ABSENT
from nitro_learner.algorithms.agents.teams import make_teams
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.checkpoints import store
from nitro_learner.data.batch import Fragment
from nitro_learner.scalers.base import RoundOutcome

FEATURES = 8

_SETTINGS = {
    "learningRate": 0.003,
    "gamma": 0.99,
    "clip": 0.2,
    "valueCoefficient": 0.5,
    "entropyCoefficient": 0.01,
    "normaliseObservations": True,
    "normaliseRewards": True,
}


class AgentError(JobInvalid):
    """The file that spec.scaling.agent names cannot be used; the message has the remedy."""

    def __init__(self, path: Path, message: str) -> None:
        # The path is part of the sentence: as the field's value, a long path would be cut.
        super().__init__([FieldError("spec.scaling.agent", ABSENT, f"{path} {message}")])


@dataclass(frozen=True)
class Spent:
    """The cost of an agent's pre-training so far, including episodes that were broken off.

    Attributes:
        episodes: training runs that it learned from.
        rounds: number of rounds of those runs.
        env_steps: environment steps that those runs learned from.
        seconds: wall time.
        learner, actors: US dollars.
    """

    episodes: int = 0
    rounds: int = 0
    env_steps: int = 0
    seconds: float = 0.0
    learner: float = 0.0
    actors: float = 0.0

    def __add__(self, other: Self) -> Self:
        sums = (a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True))
        return type(self)(*sums)

    @property
    def dollars(self) -> float:
        return self.learner + self.actors


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision: what the agent saw (f32 [8]), what it chose, and the policy that it chose by (log
    probability of the choice and logits f32 [choices])."""

    features: NDArray[np.float32]
    index: int
    log_prob: float
    logits: NDArray[np.float32]


def features(outcome: RoundOutcome, budget: float) -> NDArray[np.float32]:
    """The agent's observation after round k - 1, f32 [8].

    k; of round k - 1 the policy's loss, the mean return of the episodes that ended in it (where none did, of
    the last 20), the update's KL divergence, and the seconds of the update, of an actor and of the whole
    round; and the share of the budget that is left. A value that was not measured is 0.
    """
    statistics = outcome.statistics
    return np.array(
        [
            outcome.round + 1,
            statistics.get("policy_loss", 0.0),
            (outcome.reward_mean if outcome.reward_round is None else outcome.reward_round) or 0.0,
            statistics.get("kl", 0.0),
            outcome.learner_seconds,
            outcome.actor_seconds,
            outcome.seconds,
            max(0.0, 1 - outcome.cost / budget),
        ],
        np.float32,
    )


class ScalingAgent:
    """Choose among `fewest` to `most` actors.

        agent = ScalingAgent(8, 64, task={"environment": "Hopper-v5"}, seed=0)
        choice = agent.sample(features(outcome, budget), generator)     # actors: agent.actors(choice.index)
        agent.learn(choices, rewards)                                   # of one episode
        agent.save(path); ScalingAgent.load(path)

    Attributes:
        task: what it was trained on; names and values that JSON has.
        spent: the cost of its training; the code that plays the episodes updates it.
    """

    def __init__(self, fewest: int, most: int, *, task: dict[str, Any], seed: int) -> None:
        self.fewest, self.most, self.task, self.seed = fewest, most, task, seed
        self.spent = Spent()
        self.episodes = 0
        observation = {"shape": [FEATURES], "dtype": "float32"}
        action = {"kind": "discrete", "n": most - fewest + 1}
        place = DescribedEnvironment.from_json({"observation": observation, "action": action})
        (team,) = make_teams(_spec(seed), place)
        self._ppo = Ppo(team)

    def actors(self, index: int) -> int:
        """The number of actors that a choice stands for."""
        return self.fewest + index

    def logits(self, seen: NDArray[np.float32]) -> NDArray[np.float32]:
        """The logits of all choices, f32 [choices]."""
        result: NDArray[np.float32] = self._ppo.distributions(AGENT, seen[None], None)[0].numpy()
        return result

    def best(self, seen: NDArray[np.float32]) -> int:
        """The most probable number of actors."""
        return self.actors(int(np.argmax(self.logits(seen))))

    def sample(self, seen: NDArray[np.float32], generator: np.random.Generator) -> Choice:
        """A choice by the policy's probabilities."""
        logits = self.logits(seen)
        index = int(np.argmax(logits + generator.gumbel(size=len(logits))))
        shifted = logits - logits.max()
        log_prob = float(shifted[index] - np.log(np.exp(shifted).sum()))
        return Choice(seen, index, log_prob, logits)

    def learn(self, choices: Sequence[Choice], rewards: Sequence[float]) -> None:
        """Learn from an episode: its decisions and their rewards. Without decisions it is only counted."""
        assert len(choices) == len(rewards)
        self.episodes += 1
        if choices:
            self._ppo.update([_fragment(choices, rewards)], self.episodes)

    def save(self, path: Path) -> None:
        """Write the file, atomically.

        Raises:
            CheckpointError: the disk is full or the folder cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "actors": [self.fewest, self.most],
            "task": self.task,
            "seed": self.seed,
            "spent": asdict(self.spent),
            "policy": self.state_dict(),
        }
        store.write(path, self.episodes, state)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote.

        Raises:
            AgentError: it is missing, damaged, or of another kind.
        """
        if not path.exists():
            raise AgentError(
                path, "does not exist; make it with `nitro pretrain-scaler`, or correct the path"
            )
        try:
            saved = store.load(path)
            fewest, most = saved.state["actors"]
            agent = cls(fewest, most, task=saved.state["task"], seed=saved.state["seed"])
            agent.load_state_dict(saved.state["policy"])
            agent.spent, agent.episodes = Spent(**saved.state["spent"]), saved.round
        except (store.CheckpointError, LookupError, TypeError, ValueError) as error:
            raise AgentError(
                path, f"is no scaling agent ({error}); make one with `nitro pretrain-scaler`"
            ) from error
        return agent

    def state_dict(self) -> dict[str, Any]:
        """The policy, and everything that its training needs to continue with equal bits."""
        return self._ppo.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()` of an agent with as many choices."""
        self._ppo.load_state_dict(state)


def _spec(seed: int) -> JobSpec:
    """The job that the agent's own PPO is set up by: two layers of 64 tanh units, section 7's settings."""
    job = load_job(
        {
            "apiVersion": "nitro.dev/v1alpha1",
            "kind": "NitroTrainingJob",
            "metadata": {"name": "scaling-agent"},
            "spec": {
                "environment": {"id": "scaling-agent"},
                "algorithm": {"name": "ppo", "preset": "tuned", "hyperparameters": _SETTINGS},
                "network": {"hiddenSizes": [64, 64], "activation": "tanh"},
                "seed": seed,
            },
        }
    )
    return resolve(job).spec


def _fragment(choices: Sequence[Choice], rewards: Sequence[float]) -> Fragment:
    """An episode as the algorithm knows fragments: one environment, ended by its last step."""
    steps = len(choices)
    terminated = np.zeros((steps, 1), np.bool_)
    terminated[-1] = True
    return Fragment(
        {"slot": 0, "resumed": False, "steps": steps, "envs": 1},
        {
            "terminated": terminated,
            "truncated": np.zeros((steps, 1), np.bool_),
            "episode_returns": np.array([[sum(rewards)]]),
            "episode_lengths": np.array([steps], np.int64),
        },
        {
            AGENT: {
                "observations": np.stack([choice.features for choice in choices])[:, None, None],
                "actions": np.array([[[choice.index]] for choice in choices], np.int64),
                "log_probs": np.array([[[choice.log_prob]] for choice in choices], np.float32),
                "distribution": np.stack([choice.logits for choice in choices])[:, None, None],
                "rewards": np.array(rewards, np.float32)[:, None, None],
                "last_observations": choices[-1].features[None, None],
                "final_observations": np.zeros((0, 1, FEATURES), np.float32),
            }
        },
    )
