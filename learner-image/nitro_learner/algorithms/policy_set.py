"""The policies of a run: the learner of each, the agents that play it, and one version for all of them.

A single-agent run is a set of one policy. Both go through the same code:

    policies = registry.make_policies(job.spec, environment_spec)
    policies.begin_round(k, rounds)
    payload = policies.encode(run)                      # publish as version `policies.version`
    updates = policies.update(fragments, k)             # on-policy; the version has grown by one
    policies.take(fragments); policies.replay(); updates = policies.end_round(k)        # off-policy
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_api.algorithms.record import Feeding
from nitro_learner.algorithms.agents.team import SharingLearner
from nitro_learner.algorithms.base import (
    SINGLE_AGENT,
    Learner,
    OffPolicyLearner,
    OnPolicyLearner,
    UpdateResult,
)
from nitro_learner.algorithms.epochs import part
from nitro_learner.data.batch import Fragment


class PolicySet:
    """Policies that are published, sampled with and learned together.

    Attributes:
        learners: each learns one policy, or several jointly.
        feeding: how all of them get fragments.
        agents: the policy of each agent, in the order of the wire: by class in the order of the classes'
            names, then as a class lists them.
        version: of the set's weights. It counts changes of the weights that actors may see, from 0 for the
            initial ones.
    """

    def __init__(self, learners: Sequence[Learner], agents: Mapping[str, str], feeding: Feeding) -> None:
        """
        Raises:
            TypeError: a learner lacks the methods of the feeding.
            ValueError: nobody learns an agent's policy, or two learn one policy.
        """
        self.learners = tuple(learners)
        self._on_policy = [learner for learner in learners if isinstance(learner, OnPolicyLearner)]
        self._off_policy = [learner for learner in learners if isinstance(learner, OffPolicyLearner)]
        fed = self._on_policy if feeding == "rounds" else self._off_policy
        if misfits := [type(learner).__name__ for learner in learners if learner not in fed]:
            raise TypeError(f"{', '.join(misfits)} cannot be fed by {feeding}")
        self.feeding = feeding
        self.agents = dict(agents)
        self.version = 0
        names = self.names
        if len(set(names)) < len(names):
            raise ValueError(f"a policy has several learners: {sorted(names)}")
        unknown = {agent: policy for agent, policy in self.agents.items() if policy not in names}
        if unknown:
            raise ValueError(
                f"agents of policies that nobody learns: {unknown}; the policies are {list(names)}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the policies, learner by learner."""
        return tuple(name for learner in self.learners for name in learner.policies)

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The agents that play each policy, in the order of the wire."""
        return {
            name: tuple(agent for agent, policy in self.agents.items() if policy == name)
            for name in self.names
        }

    def teams(self) -> tuple[SharingLearner, ...]:
        """The learners whose agents may share policies; none in a single-agent run."""
        if self.agents == SINGLE_AGENT:
            return ()
        return tuple(learner for learner in self.learners if isinstance(learner, SharingLearner))

    def regroup(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Let policies be played by other agents, which is a new version.

        Args:
            groups: the agents of every policy, all teams together. See `SharingLearner.regroup`.

        Raises:
            ValueError: agents of several teams, or of several classes, in one group; an agent that is missing
                or occurs twice.
        """
        self._regroup(groups)
        self.version += 1

    def _regroup(self, groups: Mapping[str, Sequence[str]]) -> None:
        policy_of = {agent: policy for policy, members in groups.items() for agent in members}
        left = dict(groups)
        for team in self.teams():
            own = {agent for agent, policy in self.agents.items() if policy in team.policies}
            theirs = {policy: members for policy, members in left.items() if own & set(members)}
            team.regroup(theirs)
            left = {policy: members for policy, members in left.items() if policy not in theirs}
        if left or policy_of.keys() != self.agents.keys():
            raise ValueError(f"the groups {dict(groups)} are not those of the agents {list(self.agents)}")
        self.agents = {agent: policy_of[agent] for agent in self.agents}

    @property
    def ended(self) -> bool:
        """Whether a learner is a training loop of the user's own that has returned: the run shall end."""
        return any(getattr(learner, "ended", False) for learner in self.learners)

    def close(self) -> None:
        """End the threads of training loops of the user's own."""
        for learner in self.learners:
            if (close := getattr(learner, "close", None)) is not None:
                close()

    @property
    def max_staleness(self) -> int:
        """How many versions behind a fragment may be for all of the learners; see `OffPolicyLearner`."""
        return min(learner.max_staleness for learner in self._off_policy)

    def weights(self) -> dict[str, PolicyWeights]:
        """Every policy's network and tensors, as copies."""
        return {name: weights for learner in self.learners for name, weights in learner.weights().items()}

    def encode(self, run: str) -> bytes:
        """The weights container of the present version."""
        return WeightsContainer(run, self.version, self.weights(), self.agents).encode()

    def played(self, environment: DescribedEnvironment) -> dict[str, Any]:
        """What a checkpoint needs for others to play the policies: NumPy arrays, and no learner.

        Args:
            environment: of the actors.
        """
        return {
            "environment": environment.json,
            "version": self.version,
            "agents": self.agents,
            "policies": {
                name: {"meta": weights.meta, "tensors": weights.tensors}
                for name, weights in self.weights().items()
            },
        }

    def begin_round(self, round: int, rounds: int) -> None:
        """Tell every learner of the round that comes next; see `Learner`."""
        for learner in self.learners:
            learner.begin_round(round, rounds)

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        """Learn from a whole round; see `OnPolicyLearner`. Returns what each policy learned."""
        results: dict[str, UpdateResult] = {}
        for index, learner in enumerate(self._on_policy):
            with part(index, len(self.learners)):
                results |= learner.update(fragments, round)
        self.version += 1
        return results

    def take(self, fragments: list[Fragment]) -> None:
        """Learn from fragments that just arrived; see `OffPolicyLearner`."""
        for learner in self._off_policy:
            learner.take(fragments)

    def replay(self) -> bool:
        """Learn once more from earlier fragments; see `OffPolicyLearner`. False when no learner can."""
        # A list, so that every learner gets its turn, even if an earlier one has replayed.
        replayed = [learner.replay() for learner in self._off_policy]
        return any(replayed)

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        """End an off-policy round; see `OffPolicyLearner`. Returns what each policy learned."""
        results: dict[str, UpdateResult] = {}
        for learner in self._off_policy:
            results |= learner.end_round(round)
        self.version += 1
        return results

    def state_dict(self) -> dict[str, Any]:
        """The policies' part of a checkpoint."""
        return {
            "version": self.version,
            "agents": self.agents,
            "learners": [
                {"policies": list(learner.policies), "state": learner.state_dict()}
                for learner in self.learners
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`.

        Raises:
            ValueError: the state is of other agents, policies, networks or algorithms.
        """
        self._restore(state, [learner.load_state_dict for learner in self.learners])
        self.version = int(state["version"])

    def adopt(self, state: dict[str, Any]) -> None:
        """Begin with what the policies of another run have learned, and with its groups of agents.

        Args:
            state: its `state_dict()`; attachments may be missing.

        Raises:
            ValueError: as `load_state_dict`.
        """
        self._restore(state, [learner.adopt for learner in self.learners])

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """Let slots go on with copies of other slots' episodes; see `Learner`."""
        for learner in self.learners:
            learner.copy_slots(sources)

    def _restore(self, state: dict[str, Any], takes: Sequence[Callable[[dict[str, Any]], None]]) -> None:
        """Restore the groups of agents, and let each learner take its part of the state."""
        agents = dict(state["agents"])
        self._regroup_as(agents)
        saved = [tuple(item["policies"]) for item in state["learners"]]
        own = [learner.policies for learner in self.learners]
        if saved != own:
            raise ValueError(f"the state is of the policies {saved}, this job's are {own}")
        for take, item in zip(takes, state["learners"], strict=True):
            take(item["state"])
        # In the order of the wire, by which returns are told apart: a checkpoint sorts its keys.
        self.agents = {agent: agents[agent] for agent in self.agents}

    def _regroup_as(self, agents: Mapping[str, str]) -> None:
        """Let each agent play the policy of that name, where agents may share."""
        if self.teams() and agents != self.agents and agents.keys() == self.agents.keys():
            groups: dict[str, list[str]] = {}
            for agent, policy in agents.items():
                groups.setdefault(policy, []).append(agent)
            self._regroup(groups)
