"""A training loop of the user's own: the function that spec.algorithm.entryPoint names.

    def train(sampler, run, rate=3e-4):                 # spec.algorithm.settings: {rate: 0.001}
        network = sampler.network()
        ...                                             # from run.restored, if the run goes on
        while True:
            batch = sampler.collect(network)            # a round
            ...                                         # learn
            run.report(kl=...)
            run.checkpoint({"network": network.state_dict()})

The function runs in a thread of its own. To the rest of the learner it is an algorithm that learns from whole
rounds: `update` lets it go on from one `collect` to the next.
"""

from __future__ import annotations

import copy
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from nitro_actor import traces
from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import SINGLE_AGENT, UpdateResult
from nitro_learner.algorithms.own.collecting import CollectedBatch, LoopPolicy
from nitro_learner.algorithms.own_code import OwnCode
from nitro_learner.boosting.surrogate import Function, Objective, Trajectories
from nitro_learner.checkpoints import store
from nitro_learner.data.batch import Fragment, check_round
from nitro_learner.networks.distributions import Distribution
from nitro_learner.networks.module import ActorCriticModule

METRICS = (
    "policy_loss",
    "value_loss",
    "entropy",
    "kl",
    "clip_fraction",
    "explained_variance",
    "advantage_std",
    "learning_rate",
    "gradient_norm",
)
"""What a loop may report: the statistics of an update that metrics.csv has columns for."""

_LOOK_SECONDS = 1.0
_SIGN_SECONDS = 0.001


class _Ended(BaseException):
    """The run has ended while the loop waits in `collect`: it unwinds the user's function."""


class LoopSampler:
    """The sampler of a job's loop.

    Attributes:
        distribution: see `LoopPolicy`.
    """

    def __init__(self, loop: OwnLoop, plays: LoopPolicy) -> None:
        self._loop, self._plays = loop, plays
        self.distribution: Distribution = plays.distribution

    def network(self) -> ActorCriticModule:
        """A policy and a critic of spec.network: `network.policy(observations)` gives the distributions'
        parameters [n, P], `network.critic(observations)` the values [n, 1]."""
        return self._plays.network()

    def collect(self, policy: nn.Module) -> CollectedBatch:
        """Have the round's actors play a policy, and wait for what they sampled. It does not return when the
        run has ended.

        Args:
            policy: what `network()` made, the policy of it, or a module of your own, which gives the
                distributions' parameters: logits, or mean and log-std. It is played in evaluation mode.
        """
        return self._loop.collect(policy)


class LoopRun:
    """The run of a job's loop.

    Attributes:
        round: the number of the round, from 1. It grows in `collect`.
        rounds: how many the run has, as its job stands now.
        seed: spec.seed. Random numbers that follow from it and from `round` alone are the same after a
            resume.
        device: what spec.learner.device gives: cpu or cuda.
        restored: what the checkpoint has that the run goes on from; None at its begin.
    """

    def __init__(self, seed: int, device: str) -> None:
        self.seed, self.device = seed, device
        self.round, self.rounds = 1, 1
        self.restored: Any = None
        self.reported: dict[str, float] = {}
        self.state: dict[str, Any] | None = None

    def report(self, **metrics: Any) -> None:
        """Report statistics of the round's update: they become columns of metrics.csv, and scalers see them.

        Args:
            metrics: numbers, by names of METRICS.

        Raises:
            ValueError: a name is none of these, or a number is not finite.
        """
        for name, value in metrics.items():
            if name not in METRICS:
                raise ValueError(f"report got {name}, which is no column; the names are {', '.join(METRICS)}")
            number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
            if not isinstance(number, Real) or not math.isfinite(number):
                told = f"report got {name}={traces.shown(value)} in round {self.round}"
                raise ValueError(f"{told}, which is no finite number; look for what made it so")
            self.reported[name] = float(number)

    def checkpoint(self, state: Mapping[str, Any]) -> None:
        """Give what the loop needs to go on after this round, before the next `collect`.

        Args:
            state: a dict of numbers, texts, tensors, arrays, and lists and dicts of them, such as a module's
                and an optimiser's `state_dict()`. It is copied.

        Raises:
            TypeError: it holds something else.
        """
        remedy = "give it a dict of numbers, texts, tensors, arrays, and lists and dicts of them"
        if not isinstance(state, Mapping):
            raise TypeError(f"checkpoint got {traces.shown(state)}; {remedy}")
        try:
            store.pack(0, state)
        except (TypeError, ValueError) as error:
            raise TypeError(f"checkpoint got what it cannot hold: {error}; {remedy}") from error
        self.state = copy.deepcopy(dict(state))


class OwnLoop:
    """See `OnPolicyLearner`. Every method raises OwnCodeError where the user's loop has raised.

    Attributes:
        ended: whether the loop has returned, so that the run shall end.
    """

    policies = (DEFAULT_POLICY,)
    agents = SINGLE_AGENT

    def __init__(self, code: OwnCode, function: Callable[..., object], team: Team, device: str) -> None:
        self._code, self._function = code, function
        self._plays = LoopPolicy(team, device)
        self._run = LoopRun(team.seed, device)
        self._policy: nn.Module | None = None
        self._weights: PolicyWeights | None = None
        self._rounds: queue.SimpleQueue[list[Fragment] | None] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[BaseException | bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.ended = False

    def collect(self, policy: nn.Module) -> CollectedBatch:
        """See `LoopSampler.collect`; called in the loop's thread."""
        self._weights, self._policy = self._plays.weights(policy), policy
        self._told.put(True)
        fragments = self._rounds.get()
        if fragments is None:
            raise _Ended
        return CollectedBatch.of(fragments)

    def weights(self) -> dict[str, PolicyWeights]:
        if self._weights is None:
            self._begin()
            self._wait()
        assert self._weights is not None
        return {DEFAULT_POLICY: self._weights}

    def begin_round(self, round: int, rounds: int) -> None:
        self._run.round, self._run.rounds = round, rounds

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        check_round(fragments)
        self.weights()  # a loop that waits for a round
        self._run.round = round
        self._run.reported = {}
        self._rounds.put(fragments)
        self._wait()
        return {DEFAULT_POLICY: UpdateResult(self._run.reported, NoSurrogate())}

    def state_dict(self) -> dict[str, Any]:
        return {"loop": self._run.state, "ended": self.ended}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["loop"] is None:
            told = "the loop has saved nothing that it could go on from"
            raise self._code.error(f"{told}; call run.checkpoint(state) before each collect, and begin anew")
        self._run.restored, self._run.state = state["loop"], state["loop"]
        self.ended = bool(state["ended"])

    def adopt(self, state: dict[str, Any]) -> None:  # noqa: ARG002
        raise ValueError("a training loop of your own cannot begin with another run's policies")

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """Copy nothing: a loop carries nothing of running episodes."""

    def close(self) -> None:
        """End the loop's thread, which waits in `collect`."""
        if self._thread is not None:
            self._rounds.put(None)

    def _begin(self) -> None:
        threads = torch.get_num_threads()

        def run() -> None:
            torch.set_num_threads(threads)
            sampler = LoopSampler(self, self._plays)
            try:
                with self._code.watched("the loop"):
                    self._function(sampler, self._run, **self._code.settings)
            except _Ended:
                return
            except BaseException as error:  # also Ctrl-C of its own: this thread cannot end the program
                self._told.put(error)
            else:
                self._told.put(False)

        # A daemon: a loop that waits or computes must not hold up the end of the program.
        self._thread = threading.Thread(target=run, name="loop", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        """Wait until the loop asks for a round, or has returned.

        Raises:
            OwnCodeError: it has raised, or returned without a round.
        """
        while True:
            before = time.thread_time()
            try:
                told = self._told.get(timeout=_LOOK_SECONDS)
                break
            except queue.Empty:
                # A thread without any processor time counts as one that hangs; this one works by another.
                while time.thread_time() < before + _SIGN_SECONDS:
                    pass
        if isinstance(told, BaseException):
            raise told
        if told:
            return
        if self._policy is None:
            raise self._code.error("the loop returned before it called collect; call it in each round")
        self.ended = True
        self._weights = self._plays.weights(self._policy)


class NoSurrogate:
    """See `Surrogate`: of a loop nobody knows the objective, so there is nothing to measure."""

    size = 0
    drawable = torch.zeros(0, dtype=torch.int64)

    def function(self, objective: Objective, rows: Tensor) -> Function:
        raise NotImplementedError("a training loop of one's own has no objective to measure")

    def trajectories(self, objective: Objective) -> Trajectories:
        raise NotImplementedError("a training loop of one's own has no objective to measure")
