"""Our networks as RLlib's RLModule, so that the weights on the wire are the same for every learner."""

import copy
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    TargetNetworkAPI,
    ValueFunctionAPI,
)
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from nitro_learner.networks.actor_critic import chunk_size
from nitro_learner.networks.module import ActorCriticModule, CriticPart, PolicyPart


class NitroModule(TorchRLModule, ValueFunctionAPI, TargetNetworkAPI):
    """An ActorCritic that RLlib's learners can train.

    The policy's outputs, mean and log-std or logits, are what RLlib's diagonal Gaussian and categorical
    distributions take, so both sides compute the same log-probabilities.
    """

    def setup(self) -> None:
        """RLlib's constructor calls this; `model_config["network"]` holds the shape and the seed."""
        shape, seed = self.model_config["network"]["shape"], self.model_config["network"]["seed"]
        row = shape.initial(torch.Generator().manual_seed(seed), orthogonal=False)
        self.network = ActorCriticModule(shape, row[None])

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:  # noqa: ARG002
        """V [n]. There are no embeddings: policy and critic share no layers."""
        return self._outputs(self.network.critic, batch)[:, 0]

    def make_target_networks(self) -> None:
        self.target = make_target_network(self.network.policy)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.network.policy, self.target)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.target(self._inputs(batch))}

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        return {Columns.ACTION_DIST_INPUTS: self._outputs(self.network.policy, batch)}

    def _outputs(self, part: PolicyPart | CriticPart, batch: dict[str, Any]) -> Tensor:
        inputs = self._inputs(batch)
        outputs: Tensor = _Pass.apply(
            part, chunk_size(self.network.shape.images, inputs.device.type), inputs, *part.parameters()
        )
        return outputs

    def _inputs(self, batch: dict[str, Any]) -> Tensor:
        observations: Tensor = batch[Columns.OBS]
        return observations if self.network.shape.images else observations.flatten(1).float()


class _Pass(Function):
    """A network's outputs [n, P] of its inputs, once differentiable by its parameters.

    RLlib's losses need no more, so the passes are those of our own algorithms: by hand, in chunks that stay
    in the cache.
    """

    @staticmethod
    def forward(
        ctx: Any,
        part: PolicyPart | CriticPart,
        chunk: int,
        inputs: Tensor,
        *parameters: Tensor,  # noqa: ARG004
    ) -> Tensor:
        ctx.part, shape = part, part.shape
        theta, network = part.bound(), shape.critic
        weights = theta.critic
        if isinstance(part, PolicyPart):
            network, weights = shape.policy, theta.policy
        ctx.traces = [network.trace(weights, rows) for rows in torch.split(inputs, chunk)]
        outputs = [trace[-1] for trace in ctx.traces]
        if isinstance(part, PolicyPart):
            outputs = [shape.head(output, theta.log_std, None) for output in outputs]
        return torch.cat(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # RLlib holds the outputs until the next step. Free their inputs now.
        part, traces, ctx.traces = ctx.part, ctx.traces, None
        sums = copy.deepcopy(part).requires_grad_(False)
        for parameter in sums.parameters():
            parameter.zero_()
        add = part.shape.backpropagate_policy
        if isinstance(part, CriticPart):
            add = part.shape.backpropagate_critic
        # A copy, since the passes write into what they are given.
        parts = torch.split(grad.clone(), [len(trace[-1]) for trace in traces])
        for trace, rows in zip(traces, parts, strict=True):
            add(part.bound(), trace, rows, sums.bound())
        return None, None, None, *sums.parameters()
