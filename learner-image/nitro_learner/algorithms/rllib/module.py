"""Our networks as RLlib's RLModule, so that the weights on the wire are the same for every learner."""

import math
from typing import Any, TypeVar

import numpy as np
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    TargetNetworkAPI,
    ValueFunctionAPI,
)
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from nitro_learner.networks import ActorCritic

T = TypeVar("T", Tensor, np.ndarray)


class NitroModule(TorchRLModule, ValueFunctionAPI, TargetNetworkAPI):
    """An ActorCritic that RLlib's learners can train.

    The policy's outputs, mean and log-std or logits, are what RLlib's diagonal Gaussian and categorical
    distributions take, so both sides compute the same log-probabilities.
    """

    def setup(self) -> None:
        """RLlib's constructor calls this; `model_config["network"]` holds ActorCritic's arguments."""
        self.network = ActorCritic(**self.model_config["network"])

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:  # noqa: ARG002
        """V [n]. There are no embeddings: policy and critic share no layers."""
        values: Tensor = self.network.critic(self._inputs(batch))[:, 0]
        return values

    def make_target_networks(self) -> None:
        self.target = make_target_network(self.network.policy)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.network.policy, self.target)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.target(self._inputs(batch))}

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        return {Columns.ACTION_DIST_INPUTS: self.network.policy(self._inputs(batch))}

    def _inputs(self, batch: dict[str, Any]) -> Tensor:
        observations: Tensor = batch[Columns.OBS]
        return prepared(observations, self.network)


def prepared(observations: T, network: ActorCritic) -> T:
    """Observations [n, *obs] as the network takes them: images as they are, others as vectors [n, D]."""
    if network.images:
        return observations
    return observations.reshape(len(observations), math.prod(observations.shape[1:]))
