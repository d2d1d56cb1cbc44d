"""The base of RLlib's algorithms: one network, one learner in this process, its weights and its state."""

import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from ray.rllib.core import COMPONENT_OPTIMIZER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.torch import torch_learner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME
from torch import Tensor

from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_learner.algorithms.agents.policy_network import actor_critic_description
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.availability import RllibError
from nitro_learner.algorithms.base import SINGLE_AGENT, check_network
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.data.batch import Fragment, on_device, vectors
from nitro_learner.networks.actor_critic import chunk_size
from nitro_learner.networks.architecture import network_of
from nitro_learner.networks.distributions import distribution_of
from nitro_learner.networks.module import ActorCriticModule
from nitro_rllib import settings
from nitro_rllib.episodes import episodes
from nitro_rllib.module import NitroModule

_COMPONENTS = [COMPONENT_RL_MODULE, COMPONENT_OPTIMIZER]


class RllibAlgorithm:
    """The part of `Learner` that does not depend on when and on what RLlib's learner is updated.

    Attributes:
        config: RLlib's, with every setting of the job.
        learner: RLlib's, built.
        network: our network inside the learner's RLModule. RLlib trains it, and the actors get it.
    """

    policies = (DEFAULT_POLICY,)
    agents = SINGLE_AGENT

    def __init__(self, team: Team, device: str = "cpu", **fixed: Any) -> None:
        """
        Args:
            team: the only agent of its environment.
            device: a torch device.
            fixed: RLlib's settings that are not the job's.
        """
        (one,), environment = team.classes, team.environment
        self._team, self._seed, self._device = team, team.seed, device
        self._steps = 0
        self._updates = 0
        self._network_meta = actor_critic_description(team, one)
        action = one.action
        continuous = action["kind"] == "continuous"
        self.distribution = distribution_of(action)
        network = {"shape": network_of(team.network, one, environment.id), "seed": team.seed}
        self.config = (
            settings.configure(team.algorithm, team.rllib or {}, **fixed)
            .env_runners(rollout_fragment_length=environment.rollout_length // environment.envs_per_actor)
            .rl_module(
                rl_module_spec=RLModuleSpec(module_class=NitroModule, model_config={"network": network})
            )
        )
        spaces = (
            gymnasium.spaces.Box(-np.inf, np.inf, tuple(one.observation["shape"]), np.float32),
            gymnasium.spaces.Box(-np.inf, np.inf, (action["size"],), np.float32)
            if continuous
            else gymnasium.spaces.Discrete(action["n"]),
        )
        with _placed_on(device):
            self.learner: Learner = self.config.build_learner(
                spaces={INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces}
            )
        self.network: ActorCriticModule = self.learner.module[DEFAULT_MODULE_ID].network
        self._chunk = chunk_size(self.network.shape.images, device)

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        tensors = {
            name: parameter.detach().cpu().numpy().copy()
            for name, parameter in self.network.named_parameters()
            if name.startswith("policy.")
        }
        return {DEFAULT_POLICY: PolicyWeights(dict(self._network_meta), tensors)}

    def begin_round(self, round: int, rounds: int) -> None:
        """Do nothing: RLlib's schedules go by steps."""

    def state_dict(self) -> dict[str, Any]:
        return {
            "network": self._network_meta,
            "steps": self._steps,
            "updates": self._updates,
            "learner": self.learner.get_state(components=_COMPONENTS),
            "kl_coefficient": self.kl_coefficient,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._load(state["network"], state["learner"])
        self._steps, self._updates = int(state["steps"]), int(state["updates"])
        # RLlib's own state leaves out these two.
        if self._penalised:
            self.learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID].fill_(float(state["kl_coefficient"]))
        self.learner.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID].update(timestep=self._steps)

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`. The optimisers' learning rates are the job's."""
        saved, own = state["learner"], self.learner.get_state(components=_COMPONENTS)
        optimisers = {
            name: one
            | {"state": one["state"] | {"state": saved[COMPONENT_OPTIMIZER][name]["state"]["state"]}}
            for name, one in own[COMPONENT_OPTIMIZER].items()
        }
        self._load(state["network"], saved | {COMPONENT_OPTIMIZER: optimisers})

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """Do nothing: nothing is carried from a slot's fragment to its next one."""

    def _load(self, network: dict[str, Any], learner: dict[str, Any]) -> None:
        check_network(network, self._network_meta)
        # Otherwise RLlib would keep its own weights if the state has seen fewer updates.
        self.learner._weights_seq_no = 0
        self.learner.set_state(learner)

    @property
    def kl_coefficient(self) -> float:
        """Weight of the KL penalty, which RLlib adapts; 0 where there is none."""
        return float(self.learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID]) if self._penalised else 0.0

    @property
    def entropy_coefficient(self) -> float:
        """Weight of the entropy bonus, which may follow a schedule."""
        return float(self.learner.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID].get_current_value())

    def learn(
        self, fragments: list[Fragment], timesteps: dict[str, int], minibatch_size: int = 0
    ) -> dict[str, float]:
        """Make one update of RLlib's learner on these fragments.

        Args:
            fragments: at least one.
            timesteps: what schedules and target networks go by, besides the steps that were sampled.
            minibatch_size: rows of a gradient step; 0 for all of them.

        Returns:
            The newest values of the module's metrics, by RLlib's names.

        Raises:
            RllibError: for whatever RLlib raises, but that the GPU's memory is full.
        """
        chunks = episodes(fragments)
        with _keyed(self._seed, self._updates):
            try:
                # The method of the base class, because APPO's and IMPALA's own hand the batch to a thread
                # that does the same.
                result = Learner.update(
                    self.learner,
                    episodes=chunks,
                    timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: self._steps, **timesteps},
                    num_epochs=self.config.num_epochs,
                    minibatch_size=minibatch_size,
                    # RLlib would also shuffle whole batches. That has no use, and V-trace needs their order.
                    shuffle_batch_per_epoch=self.config.shuffle_batch_per_epoch and minibatch_size > 0,
                )
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise RllibError(f"RLlib's learner failed in update {self._updates + 1}: {reason}") from error
        self._updates += 1
        return {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}

    def tensor(self, rows: np.ndarray) -> Tensor:
        """Rows on the learner's device."""
        return on_device(rows, self._device)

    def inputs(self, observations: np.ndarray) -> Tensor:
        """Raw observations [n, *obs] as the networks take them."""
        return self.tensor(observations if self.network.shape.images else vectors(observations))

    def values(self, observations: Tensor) -> Tensor:
        """V [n], without a graph."""
        return torch.cat([self.network.values(rows) for rows in torch.split(observations, self._chunk)])

    def check_finite(self, round: int) -> None:
        """Raise FloatingPointError once the weights are not finite any more."""
        if not all(torch.isfinite(parameter).all() for parameter in self.network.parameters()):
            raise FloatingPointError(
                f"round {round}: the weights became infinite or NaN; "
                "lower spec.algorithm.rllib.lr or set spec.algorithm.rllib.grad_clip"
            )

    def coefficients(self, *, clip: float, value: float, value_clip: float) -> Coefficients:
        """The coefficients of the loss that RLlib minimises at present."""
        return Coefficients(
            clip=clip,
            kl=self.kl_coefficient,
            entropy=self.entropy_coefficient,
            value=value,
            value_clip=value_clip,
        )

    @property
    def _penalised(self) -> bool:
        # IMPALA does not know the setting.
        return bool(getattr(self.config, "use_kl_loss", False))


@contextlib.contextmanager
def _placed_on(device: str) -> Iterator[None]:
    """Place learners that are built in the block on this torch device.

    If RLlib itself is asked for a GPU, it asks Ray for the device, and that starts a Ray runtime.
    """
    theirs = torch_learner.get_device
    torch_learner.get_device = lambda *_: torch.device(device)
    try:
        yield
    finally:
        torch_learner.get_device = theirs


@contextlib.contextmanager
def _keyed(seed: int, update: int) -> Iterator[None]:
    """Seed the global random numbers, which RLlib draws from, by (seed, update), and restore them
    afterwards.

    So a resumed run draws the same numbers as an undisturbed one, and a checkpoint need not hold the
    generators' states.
    """
    key = int(np.random.SeedSequence([seed, update, 0x524C6C6962]).generate_state(1, np.uint32)[0])
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        random.seed(key)
        np.random.seed(key)
        torch.manual_seed(key)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
