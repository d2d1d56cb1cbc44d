"""The sharing step: after some rounds, agents begin to share policies, or each gets one of its own again
(MARLess, SoCC 2025).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_learner.algorithms.agents.team import SharingLearner
from nitro_learner.algorithms.fits import check_sharing
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.data.batch import Fragment
from nitro_learner.training.compute import Compute
from nitro_learner.training.sharing import groups as grouping
from nitro_learner.training.sharing import similarity
from nitro_learner.training.sharing.modes import Dynamic, Mode, RandomToggle

_OBSERVATIONS, _SAMPLES, _GROUPS, _BASES = 0x6F6273, 0x736D70, 0x677270, 0x627365
"""Set the random numbers of this module apart from each other and from others of the same seed."""
_MAPPINGS = ("groups", "bases", "distances")
"""The fields of a `Regrouping` that are mappings."""


@dataclass(frozen=True)
class Pool:
    """Agents that may share: of one class, learning by one algorithm."""

    team: SharingLearner
    kind: AgentClass
    agents: tuple[str, ...]


@dataclass(frozen=True)
class Regrouping:
    """A toggle of sharing.

    Attributes:
        number: which toggle of the run it is, from 1.
        round: the round after which it happened; the next one samples with the new groups.
        shared: whether agents share policies from now on.
        groups: the agents of every policy, by its name.
        fresh: policies that it made, or gave to other agents.
        reason: why it happened, as the end of a sentence.
        version: of the weights, with the new groups.
        bases: what decided whose policy a group goes on with, by the policy's name; of groups of several
            only.
        distances: of the agents of each pool that was compared, f64 [n, n], by its agents.
    """

    number: int
    round: int
    shared: bool
    groups: Mapping[str, tuple[str, ...]]
    fresh: frozenset[str]
    reason: str
    version: int
    bases: Mapping[str, str] = field(default_factory=dict)
    distances: Mapping[tuple[str, ...], NDArray[np.float64]] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What happened and why, for people."""
        if not self.shared:
            return f"Since round {self.round + 1} each agent has its own policy, because {self.reason}."
        groups = "; ".join(", ".join(agents) for agents in self.groups.values())
        return f"Since round {self.round + 1} agents share policies, because {self.reason}: {groups}."

    def to_state(self) -> dict[str, Any]:
        """The form that a checkpoint can hold: it has no sets, and it does not keep the order of keys."""
        ordered = {name: list(getattr(self, name).items()) for name in _MAPPINGS}
        return asdict(self) | ordered | {"fresh": sorted(self.fresh)}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """The toggle of `to_state()`."""
        mappings = {name: dict(state[name]) for name in _MAPPINGS}
        return cls(**{**state, **mappings, "fresh": frozenset(state["fresh"])})


def agent_returns(fragments: Sequence[Fragment], agents: Sequence[str]) -> dict[str, float]:
    """The mean return of each agent's episodes that ended in a round; empty where none ended.

    Args:
        agents: all of them, in the order of the wire.
    """
    by_fragment = [fragment.returns_of(agents) for fragment in fragments]
    ended = {agent: np.concatenate([returns[agent] for returns in by_fragment]) for agent in agents}
    return {agent: float(returns.mean()) for agent, returns in ended.items() if len(returns)}


class Sharing:
    """Decide after each round whether sharing toggles, and regroup the policies before the next one if so.

        if reason := sharing.toggles(k, returns):
            await sharing.decide(k, reason, fragments, returns, ratios)
        ...                                             # the run may end here, or be saved
        if sharing.pending:
            regrouping = sharing.regroup()              # as round k + 1 begins

    Attributes:
        pending: the toggle that is decided and not yet carried out.

    Raises:
        JobInvalid: the job wants to share, and no two agents can; or the run is too short for its toggles.
    """

    def __init__(
        self, spec: JobSpec, environment: DescribedEnvironment, policies: PolicySet, compute: Compute
    ) -> None:
        self._spec = spec
        self._policies = policies
        self._compute = compute
        classes = environment.classes
        if policies.teams():
            check_sharing(spec, [team.agents for team in policies.teams()], environment)
        self._pools = tuple(
            Pool(team, kind, agents)
            for team in policies.teams()
            for kind in classes
            if (agents := tuple(agent for agent in kind.agents if agent in team.agents))
        )
        self.pending: Regrouping | None = None
        self._shared = False
        self._times = 0
        self._mode = self._make_mode()

    def _make_mode(self) -> Mode:
        sharing, rounds = self._spec.shared, self._spec.stop.rounds
        if not self._policies.teams():  # of a single agent
            return Mode()
        if sharing.mode in ("dynamic", "random-base"):
            return Dynamic(sharing.window, sharing.slope)
        if sharing.mode == "random-toggle":
            assert sharing.toggles is not None, "the job's validation asks for toggles"
            try:
                return RandomToggle(sharing.toggles, sharing.window, rounds, self._spec.seed)
            except ValueError as error:
                raise JobInvalid([FieldError("spec.sharing.toggles", sharing.toggles, str(error))]) from None
        return Mode()

    @property
    def shared(self) -> bool:
        """Whether agents share policies now."""
        return self._shared

    def toggles(self, round: int, returns: Mapping[str, float]) -> str | None:
        """Why sharing toggles after round `round`; None where it does not. Call it once a round, in order.

        Args:
            returns: see `agent_returns`.
        """
        return self._mode.toggles(round, returns)

    async def decide(
        self,
        round: int,
        reason: str,
        fragments: Sequence[Fragment],
        returns: Mapping[str, float],
        ratios: Mapping[str, float | None],
    ) -> Regrouping:
        """Decide on the groups of a toggle after round `round`. The policies stay as they are until
        `regroup`.

        Args:
            reason: what `toggles` said.
            returns: see `agent_returns`.
            ratios: the round's convexity ratio of each policy.
        """
        before, shared = self._policies.groups(), not self._shared
        times = self._times + shared  # how often agents will have begun to share
        distances: dict[tuple[str, ...], NDArray[np.float64]] = {}
        bases: dict[str, str] = {}
        if not shared:
            after: dict[str, tuple[str, ...]] = {agent: (agent,) for agent in self._policies.agents}
        else:
            own = {agent: ratios.get(policy) for agent, policy in self._policies.agents.items()}
            drawn = np.random.default_rng([_BASES, self._spec.seed, round])
            after = {}
            for pool in self._pools:
                for members in await self._partition(pool, round, times, fragments, distances):
                    if self._spec.shared.mode == "random-base":
                        base, why = str(drawn.choice(members)), "drawn at random"
                    else:
                        base, why = grouping.base(members, own, returns)
                    after[base] = members
                    if len(members) > 1:
                        bases[base] = why
        # In the order that the policies will have.
        names = [agent for team in self._policies.teams() for agent in team.agents if agent in after]
        self.pending = Regrouping(
            number=2 * times - shared,
            round=round,
            shared=shared,
            groups={name: after[name] for name in names},
            fresh=frozenset(name for name in names if before.get(name) != after[name]),
            reason=reason,
            version=self._policies.version + 1,
            bases=bases,
            distances=distances,
        )
        return self.pending

    def regroup(self) -> Regrouping:
        """Carry out the pending toggle; the policies have a new version."""
        assert self.pending, "no toggle is pending"
        done, self.pending = self.pending, None
        self._policies.regroup(done.groups)
        self._shared = done.shared
        self._times += done.shared
        return done

    async def _partition(
        self,
        pool: Pool,
        round: int,
        times: int,
        fragments: Sequence[Fragment],
        distances: dict[tuple[str, ...], NDArray[np.float64]],
    ) -> list[tuple[str, ...]]:
        """The groups of a pool; writes down its distances where its agents are compared."""
        total, count = len(self._policies.agents), len(pool.agents)
        wanted = grouping.share_of(grouping.policy_count(total, times), count, total)
        seed = [_GROUPS, self._spec.seed, round, self._pools.index(pool)]
        if count == 1:
            groups = [[0]]
        elif self._spec.shared.mode == "random-toggle":
            groups = grouping.random_groups(count, wanted, seed)
        else:
            compare = partial(self._distances, pool, round, fragments)
            distances[pool.agents] = await self._compute.measure(compare)
            groups = grouping.cluster(distances[pool.agents], wanted, seed)
        return [tuple(pool.agents[index] for index in group) for group in groups]

    def _distances(self, pool: Pool, round: int, fragments: Sequence[Fragment]) -> NDArray[np.float64]:
        lived = [similarity.lived_rows(fragments, pool.kind, agent) for agent in pool.agents]
        if self._spec.shared.similarity == "kde":
            for agent, rows in zip(pool.agents, lived, strict=True):
                if len(rows["actions"]) <= similarity.COMPONENTS:
                    message = (
                        f"needs more than {similarity.COMPONENTS} steps of each agent in a round, and "
                        f"{agent} was alive in {len(rows['actions'])} of round {round}; use policy, or raise "
                        "spec.environment.rolloutLength"
                    )
                    raise JobInvalid([FieldError("spec.sharing.similarity", "kde", message)])
            generator = np.random.default_rng([_SAMPLES, self._spec.seed, round])
            samples = [similarity.pairs(rows, pool.kind, generator) for rows in lived]
            return similarity.symmetrised(similarity.densities(samples, [_SAMPLES, self._spec.seed, round]))
        generator = np.random.default_rng([_OBSERVATIONS, self._spec.seed, round])
        drawn = similarity.draw(
            sum(len(rows["observations"]) for rows in lived), similarity.OBSERVATIONS, generator
        )
        observations = np.concatenate([rows["observations"] for rows in lived])[drawn]
        available = None
        if pool.kind.action.get("masked"):
            available = np.concatenate([rows["available"] for rows in lived])[drawn]
        return similarity.symmetrised(pool.team.distances(pool.agents, observations, available))

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on exactly here; the groups are the policies'."""
        pending = self.pending.to_state() if self.pending else None
        state = {"shared": self._shared, "times": self._times, "mode": self._mode.state_dict()}
        return {**state, "pending": pending}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.adopt(state)
        self._mode.load_state_dict(state["mode"])
        self.pending = Regrouping.of_state(state["pending"]) if state["pending"] else None

    def adopt(self, state: dict[str, Any]) -> None:
        """Begin with the toggles of another run, of which this is the state. What decides about the next
        toggle begins anew, and a toggle that was only decided there never happens."""
        self._shared, self._times = bool(state["shared"]), int(state["times"])
