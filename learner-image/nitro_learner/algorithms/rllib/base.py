"""What RLlib's algorithms share here: one network, one learner in this process, its weights and its state."""

import contextlib
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from ray.rllib.core import COMPONENT_OPTIMIZER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME

from nitro_api import JobSpec
from nitro_learner.algorithms.rllib import settings
from nitro_learner.algorithms.rllib.module import NitroModule
from nitro_learner.distributions import Categorical, Distribution, Gaussian
from nitro_learner.networks import ActorCritic

_COMPONENTS = [COMPONENT_RL_MODULE, COMPONENT_OPTIMIZER]


class RllibAlgorithm:
    """The part of `Algorithm` that does not depend on how RLlib updates.

    Attributes:
        config: RLlib's, with every setting of the job.
        learner: RLlib's, built.
        network: ours, which is the learner's RLModule: what RLlib trains, the actors get.
    """

    def __init__(self, spec: JobSpec, environment: dict[str, Any], device: str, **fixed: Any) -> None:
        """Start from `spec` (resolved) and the actors' EnvironmentSpec; `fixed` are RLlib's settings that are
        not the job's."""
        action = environment["action"]
        continuous = action["kind"] == "continuous"
        head = "gaussian" if continuous else "categorical"
        shape = tuple(environment["observation"]["shape"])
        self._seed = spec.seed
        self._device = device
        self._steps = 0
        self._network_meta = {
            "kind": "mlp",
            "hidden": list(spec.network.hidden_sizes),
            "activation": spec.network.activation,
            "head": head,
            "logStd": spec.network.log_std,
        }
        self.distribution: Distribution = Gaussian() if continuous else Categorical()
        module = RLModuleSpec(
            module_class=NitroModule,
            model_config={
                "network": {
                    "inputs": math.prod(shape),
                    "hidden": list(spec.network.hidden_sizes),
                    "actions": action["size"] if continuous else action["n"],
                    "activation": spec.network.activation,
                    "head": head,
                    "log_std": spec.network.log_std,
                    "seed": spec.seed,
                }
            },
        )
        self.config = (
            settings.configure(spec.algorithm.name, spec.algorithm.rllib or {}, **fixed)
            .rl_module(rl_module_spec=module)
            .learners(num_gpus_per_learner=int(device == "cuda"))
        )
        spaces = (
            gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float32),
            gymnasium.spaces.Box(-np.inf, np.inf, (action["size"],), np.float32)
            if continuous
            else gymnasium.spaces.Discrete(action["n"]),
        )
        self.learner: Learner = self.config.build_learner(
            spaces={INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces}
        )
        self.network: ActorCritic = self.learner.module[DEFAULT_MODULE_ID].network

    def weights(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        tensors = {
            name: parameter.detach().cpu().numpy().copy()
            for name, parameter in self.network.named_parameters()
            if name.startswith("policy.")
        }
        return {"network": dict(self._network_meta), "observationClip": None}, tensors

    def state_dict(self) -> dict[str, Any]:
        return {
            "network": self._network_meta,
            "steps": self._steps,
            "learner": self.learner.get_state(components=_COMPONENTS),
            "kl_coefficient": self.kl_coefficient,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["network"] != self._network_meta:
            raise ValueError(
                f"the state is of the network {state['network']}, this job's is {self._network_meta}"
            )
        self._steps = int(state["steps"])
        self.learner.set_state(state["learner"])
        # RLlib's own state leaves out these two.
        self.kl_coefficient = float(state["kl_coefficient"])
        self.learner.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID].update(timestep=self._steps)

    @property
    def kl_coefficient(self) -> float:
        """Weight of the KL penalty, which RLlib adapts."""
        return float(self.learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID])

    @kl_coefficient.setter
    def kl_coefficient(self, value: float) -> None:
        self.learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID].fill_(value)

    def timesteps(self) -> dict[str, int]:
        """What RLlib's schedules go by."""
        return {NUM_ENV_STEPS_SAMPLED_LIFETIME: self._steps}

    def check_finite(self, round: int) -> None:
        """Raises FloatingPointError once the weights are not finite any more."""
        if not all(torch.isfinite(parameter).all() for parameter in self.network.parameters()):
            raise FloatingPointError(
                f"round {round}: the weights became infinite or NaN; "
                "lower spec.algorithm.rllib.lr or set spec.algorithm.rllib.grad_clip"
            )


def values(result: Mapping[str, Any]) -> dict[str, float]:
    """The newest values of the module's metrics, by RLlib's names."""
    return {name: float(stats.peek()) for name, stats in result[DEFAULT_MODULE_ID].items()}


@contextlib.contextmanager
def keyed(seed: int, round: int) -> Iterator[None]:
    """Keys the global random numbers, which RLlib draws from, by (seed, round), and puts them
    back afterwards.

    So a resumed run draws what an undisturbed one does, and nothing of it has to be in a checkpoint.
    """
    key = int(np.random.SeedSequence([seed, round, 0x524C6C6962]).generate_state(1, np.uint32)[0])
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
