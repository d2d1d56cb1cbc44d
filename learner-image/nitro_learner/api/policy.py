"""The policy of a run, to be played anywhere: NumPy only, with the numbers that an actor computes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nitro_actor.actions import action_space
from nitro_actor.memory import memory_size
from nitro_actor.policy import Policies
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_actor.stacking import join
from nitro_learner.api import players
from nitro_learner.api.players import Action, State, alike, batch_of, masks_of

if TYPE_CHECKING:
    from nitro_learner.studies.video import Filmed


class _Turn:
    """The turn to tell an episode's next frame: one thread has it. A copy's is free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_Turn], tuple[()]]:
        return _Turn, ()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "another thread tells this episode a frame now, and frames have an order: give each thread "
                "an episode() of its own"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class PlayedEpisode:
    """An episode, or a batch of them in step, told frame by frame. It keeps the last frames for the policy,
    and what the policy remembers.

        episode = policy.episode()
        frame, _ = environment.reset()
        while not over:
            frame, reward, ended, cut, _ = environment.step(episode.act(frame))

    As in training, an episode's first frame takes the places of the missing earlier ones, and an agent that
    is left out of a mapping gets a frame of zeros. Threads may have episodes of one policy, but one episode
    belongs to one thread at a time.
    """

    def __init__(self, policy: TrainedPolicy) -> None:
        self._policy = policy
        self._turn = _Turn()
        self._stacks: dict[str, NDArray[Any]] = {}
        self._states: dict[str, State] = {}

    @overload
    def act(
        self,
        frame: Mapping[str, ArrayLike],
        *,
        begins: ArrayLike = ...,
        deterministic: bool = ...,
        available: Mapping[str, ArrayLike] | None = ...,
    ) -> dict[str, Action]: ...

    @overload
    def act(
        self,
        frame: ArrayLike,
        *,
        begins: ArrayLike = ...,
        deterministic: bool = ...,
        available: ArrayLike | None = ...,
    ) -> Action: ...

    def act(
        self,
        frame: ArrayLike | Mapping[str, ArrayLike],
        *,
        begins: ArrayLike = False,
        deterministic: bool = True,
        available: Any = None,
    ) -> Action | dict[str, Action]:
        """Choose the action for the newest frame, or the actions for a batch of them.

        Args:
            frame: what the environment shows now; as `observation` of `TrainedPolicy.act`.
            begins: whether a new episode begins with this frame; of a batch, bool [B].
            deterministic: see `TrainedPolicy.act`.
            available: see `TrainedPolicy.act`.

        Raises:
            ValueError: as `TrainedPolicy.act`; or the batch has another size than before.
            RuntimeError: another thread is in the middle of a call.
        """
        with self._turn:
            return self._act(frame, begins, deterministic, available)

    def _act(
        self,
        frame: ArrayLike | Mapping[str, ArrayLike],
        begins: ArrayLike,
        deterministic: bool,
        available: Any,
    ) -> Action | dict[str, Action]:
        policy = self._policy
        if isinstance(frame, Mapping):
            seen = {agent: self._stacked(agent, rows, begins) for agent, rows in frame.items()}
            for agent in set(policy.agents) - set(frame):
                self._pass_over(agent, begins)
            states = {agent: self._remembered(agent, rows, begins) for agent, rows in seen.items()}
            chosen: dict[str, Action]
            # An agent that does not act now has left, and its memory with it.
            chosen, self._states = policy.act(
                seen, state=states, deterministic=deterministic, available=available
            )
            return chosen
        agent = policy.agents[0]
        stacked = self._stacked(agent, frame, begins)
        before = self._remembered(agent, stacked, begins)
        action: Action
        action, after = policy.act(stacked, state=before, deterministic=deterministic, available=available)
        self._states = {agent: after}
        return action

    def _remembered(self, agent: str, seen: NDArray[Any], begins: ArrayLike) -> State:
        """The state before the newest observations, as many as there are."""
        lead = seen.shape[: seen.ndim - len(self._policy.of(agent).observation["shape"])]
        shape = (*lead, self._policy.memory[agent])
        state = self._states.get(agent, np.zeros(shape, np.float32))
        if state.shape != shape:
            raise ValueError(f"{lead or 1} frames, but before there were others: begin an episode()")
        return np.where(np.broadcast_to(np.asarray(begins, bool), lead)[..., None], np.float32(0), state)

    def _pass_over(self, agent: str, begins: ArrayLike) -> None:
        """Give an agent that does not act now a frame of zeros, as in training."""
        observation = self._policy.of(agent).observation
        if observation["stack"] > 1 and self._stacks:
            count = len(next(iter(self._stacks.values())))
            self._stacked(agent, np.zeros((count, *observation["frame"]), observation["dtype"]), begins)

    def _stacked(self, agent: str, frame: ArrayLike, begins: ArrayLike) -> NDArray[Any]:
        spaces = self._policy.of(agent)
        rows, single = batch_of(frame, spaces, "frame")
        if (stack := spaces.observation["stack"]) > 1:
            first = np.repeat(rows[:, None], stack, axis=1)
            before = self._stacks.get(agent, first)
            if before.shape != first.shape:
                raise ValueError(
                    f"{len(rows)} frames, but before there were {len(before)}: begin an episode()"
                )
            later = np.concatenate([before[:, 1:], rows[:, None]], axis=1)
            fresh = np.broadcast_to(np.asarray(begins, bool), len(rows)) | (agent not in self._stacks)
            self._stacks[agent] = np.where(fresh.reshape(-1, *[1] * (first.ndim - 1)), first, later)
            rows = join(self._stacks[agent], 1)
        return rows[0] if single else rows


class TrainedPolicy:
    """What actors play after a round: one policy, or the policies of all agents.

    Normalisation, agent ids and masks are inside. Where the policy sees the last k frames, `act` wants them
    together, as `PlayedEpisode` puts them; `episode()` takes one frame at a time.

        policy = nitro.load("runs/hopper-20260101-120000")
        action = policy.act(observation)            # of shape [*shape]
        actions = policy.act(observations)          # a batch, of shape [B, *shape]
        actions = policy.act({agent: observation})  # of several agents: {agent: action}

    A policy with a memory needs its state before the observation, and gives the state after it:

        state = policy.initial_state()
        action, state = policy.act(observation, state=state)

    Any number of threads may ask one policy at once: each gets what it would get alone. Only the order in
    which they draw actions, with `deterministic=False`, is theirs.

    Attributes:
        round: after which it was saved.
        agents: who plays, in the order of the environment.
        environment: the spaces of the environment, as the actors tell them.
        described: the same, read.
        weights: the policies' networks and tensors, and which agent plays which of them.
        memory: H, the numbers that each agent remembers of an episode; 0 without a recurrent layer.
    """

    def __init__(self, played: Mapping[str, Any], round: int, seed: int | None = None) -> None:
        """See `nitro_learner.load`; `played` is a part of a checkpoint."""
        self.round = round
        self.environment: Mapping[str, Any] = played["environment"]
        self.described = DescribedEnvironment.from_json(self.environment)
        self.spaces = {
            agent: agent_class for agent_class in self.described.classes for agent in agent_class.agents
        }
        self.agents = tuple(self.spaces)
        policies = {
            name: PolicyWeights.of(saved["meta"], saved["tensors"])
            for name, saved in played["policies"].items()
        }
        self.weights = WeightsContainer("", played["version"], policies, played["agents"])
        self.memory = {
            agent: memory_size(policies[policy].network) for agent, policy in self.weights.agents.items()
        }
        self._policies = Policies(self.weights, self.described.classes)
        self._generator = np.random.default_rng(seed)

    @overload
    def act(
        self,
        observation: Mapping[str, ArrayLike],
        *,
        deterministic: bool = ...,
        available: Mapping[str, ArrayLike] | None = ...,
    ) -> dict[str, Action]: ...

    @overload
    def act(
        self, observation: ArrayLike, *, deterministic: bool = ..., available: ArrayLike | None = ...
    ) -> Action: ...

    @overload
    def act(
        self,
        observation: Mapping[str, ArrayLike],
        *,
        state: Mapping[str, ArrayLike],
        deterministic: bool = ...,
        available: Mapping[str, ArrayLike] | None = ...,
    ) -> tuple[dict[str, Action], dict[str, State]]: ...

    @overload
    def act(
        self,
        observation: ArrayLike,
        *,
        state: ArrayLike,
        deterministic: bool = ...,
        available: ArrayLike | None = ...,
    ) -> tuple[Action, State]: ...

    def act(
        self,
        observation: ArrayLike | Mapping[str, ArrayLike],
        *,
        state: ArrayLike | Mapping[str, ArrayLike] | None = None,
        deterministic: bool = True,
        available: ArrayLike | Mapping[str, ArrayLike] | None = None,
    ) -> Any:
        """Choose the action for an observation, or the actions for a batch.

        Args:
            observation: raw, of the environment's shape, or with a batch axis before it. Of several agents a
                mapping with the observations of those that act now.
            state: what the policy remembers of the episode, from `initial_state` or the last call: f32 [H],
                or [B, H] for a batch; of several agents a mapping that has those that act. Only needed where
                the policy has a memory.
            deterministic: take the most probable or most valuable action. Otherwise draw one, as the policy
                does in training.
            available: which choices of its action the agent has, bool [C] or [B, C], as `nitro_actor.masks`
                has them: of a Discrete space the actions. Of several agents a mapping. All by default.

        Returns:
            The action, or with a batch axis the actions; of several agents a mapping. With `state` a tuple of
            that and the state after it. An agent that does not act now is in neither.

        Raises:
            ValueError: names the agent, the shape that came and the shape that is allowed.
        """
        if state is None and any(self.memory.values()):
            raise ValueError(
                "the policy has a memory: give state=policy.initial_state() with an episode's first "
                "observation, and then the state that act returns, or use episode()"
            )
        generator = None if deterministic else self._generator
        alone = "classes" not in self.environment
        if alone:
            if isinstance(observation, Mapping) or isinstance(available, Mapping):
                raise ValueError(
                    "the policy is of one agent: give one observation (an array; of a Dict or Tuple space "
                    "what gymnasium.spaces.flatten makes of it), and its action_mask apart as available"
                )
            (agent,) = self.agents
            given: Mapping[str, Any] = {agent: observation}
            available = None if available is None else {agent: available}
            state = None if state is None else {agent: cast("ArrayLike", state)}
        elif isinstance(observation, Mapping):
            given = observation
        else:
            raise ValueError(
                f"the agents are {list(self.agents)}: give a mapping from agents to observations"
            )
        seen = {agent: batch_of(rows, self.of(agent), "shape") for agent, rows in given.items()}
        count, single = alike(seen)
        if available is not None and not isinstance(available, Mapping):
            raise ValueError("available: give a mapping from agents to what they may do")
        masks = {
            agent: masks_of(mask, self.of(agent), agent, count) for agent, mask in (available or {}).items()
        }
        if state is not None and not isinstance(state, Mapping):
            raise ValueError("state: give a mapping from agents to states")
        states = self._states(state or {}, list(seen), count, single)
        rows_of = {agent: rows for agent, (rows, _) in seen.items()}
        chosen = players.act(self._policies, rows_of, masks, count, generator, states)
        if single:
            chosen = {agent: self._first(agent, rows) for agent, rows in chosen.items()}
            states = {agent: rows[0] for agent, rows in states.items()}
        if alone:
            return chosen[agent] if state is None else (chosen[agent], states[agent])
        return chosen if state is None else (chosen, states)

    def initial_state(self, batch: int | None = None) -> Any:
        """What the policy remembers as an episode begins: zeros f32 [H], or [B, H] for a batch; of several
        agents a mapping of them. H is 0 where the policy has no memory."""
        shape = () if batch is None else (batch,)
        states = {agent: np.zeros((*shape, size), np.float32) for agent, size in self.memory.items()}
        return states if self.described.several else states[self.agents[0]]

    def episode(self) -> PlayedEpisode:
        """Begin an episode that is told frame by frame."""
        return PlayedEpisode(self)

    def record(
        self, environment: Any, path: str | Path, *, seed: int | None = None, deterministic: bool = True
    ) -> Filmed:
        """Play an episode and write a video of it, .mp4, .gif or .webp.

        Args:
            environment: of gymnasium, or of several agents a ParallelEnv of PettingZoo, made with
                `render_mode="rgb_array"`. Its observations and masks are as in training.
            path: of the file. A .mp4 needs the extra `video`.
            seed: of the environment's reset.
            deterministic: see `act`.

        Returns:
            The steps that the video shows, 1,000 at most, their return (of several agents the sum), and
            whether the episode ended with them.

        Raises:
            VideoError: the environment draws nothing, or nothing here writes that format.
        """
        from nitro_actor.engines.masked import Masks, method
        from nitro_learner.studies.video import Video, VideoError, as_policies_see, choose_renderer, lighten

        choose_renderer()
        lighten(environment)
        several, episode, masks = self.described.several, self.episode(), None
        if not several:
            environment = as_policies_see(environment)
            if method(environment):
                masks = Masks([environment], action_space(self.of(self.agents[0]).action))
        observation, _ = environment.reset(seed=seed)
        if environment.render() is None:
            raise VideoError(f'{environment} draws nothing: make it with render_mode="rgb_array"')
        with Video(Path(path), float(environment.metadata.get("render_fps") or 30)) as video:
            going = True
            while going:
                available = None
                if masks:
                    masks.show(0)
                    available = masks.available[0]
                action = episode.act(observation, deterministic=deterministic, available=available)
                observation, reward, terminated, truncated, _ = environment.step(action)
                ended = not environment.agents if several else bool(terminated or truncated)
                total = sum(reward.values()) if several else reward
                going = video.step(environment.render, float(total), ended=ended)
        return video.filmed

    def of(self, agent: str) -> AgentClass:
        """The spaces of an agent. Raises ValueError for an unknown one."""
        if agent not in self.spaces:
            raise ValueError(f"there is no agent {agent!r}; the agents are {list(self.agents)}")
        return self.spaces[agent]

    def _first(self, agent: str, actions: Action) -> Action:
        """The only action of a batch. A space whose arrays have no axes takes such arrays; Discrete ones take
        numbers."""
        first: Action = actions[0] if self.of(agent).action["kind"] == "discrete" else actions[0, ...]
        return first

    def _states(
        self, state: Mapping[str, Any], agents: Sequence[str], count: int, single: bool
    ) -> dict[str, State]:
        """Copies f32 [B, H] of the states of agents."""
        states = {}
        for agent in agents:
            shape = (count, self.memory[agent])
            given = state.get(agent)
            if given is None:
                if self.memory[agent]:
                    raise ValueError(f"state: {agent} acts, so its state is needed")
                states[agent] = np.zeros(shape, np.float32)
                continue
            try:
                rows = np.array(given, np.float32)
            except (OverflowError, TypeError, ValueError):
                raise ValueError(f"state: {agent} needs numbers that float32 holds") from None
            if rows.shape != (shape[1:] if single else shape) or not np.isfinite(rows).all():
                wanted = list(shape[1:] if single else shape)
                raise ValueError(
                    f"state: {agent} needs finite numbers of the shape {wanted}; this is {list(rows.shape)}"
                )
            states[agent] = rows.reshape(shape)
        return states
