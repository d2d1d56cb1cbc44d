"""Our networks as RLlib's RLModule, so that the weights on the wire are the same for every learner."""

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

from nitro_learner.networks.actor_critic import ActorCritic, Perceptron, Policy, chunk_size


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
        return self._outputs(self.network.critic, batch)[:, 0]

    def make_target_networks(self) -> None:
        self.target = make_target_network(self.network.policy)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.network.policy, self.target)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.target(self._inputs(batch))}

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        return {Columns.ACTION_DIST_INPUTS: self._outputs(self.network.policy, batch)}

    def _outputs(self, part: Perceptron, batch: dict[str, Any]) -> Tensor:
        inputs = self._inputs(batch)
        outputs: Tensor = _Pass.apply(
            part, chunk_size(self.network, inputs.device.type), inputs, *part.parameters()
        )
        return outputs

    def _inputs(self, batch: dict[str, Any]) -> Tensor:
        observations: Tensor = batch[Columns.OBS]
        return observations if self.network.images else observations.flatten(1).float()


class _Pass(Function):
    """A network's outputs [n, P] of its inputs, once differentiable by its parameters.

    RLlib's losses need no more, so the passes are those of our own algorithms: by hand, in chunks that stay
    in the cache.
    """

    @staticmethod
    def forward(ctx: Any, part: Perceptron, chunk: int, inputs: Tensor, *parameters: Tensor) -> Tensor:  # noqa: ARG004
        ctx.part = part
        ctx.traces = [part.trace(rows) for rows in torch.split(inputs, chunk)]
        return torch.cat(
            [part.distribution(trace) if isinstance(part, Policy) else trace[-1] for trace in ctx.traces]
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # RLlib holds the outputs until the next step. Free their inputs now.
        part, traces, ctx.traces = ctx.part, ctx.traces, None
        parameters = list(part.parameters())
        before = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        # A copy, since the passes write into what they are given.
        parts = torch.split(grad.clone(), [len(trace[-1]) for trace in traces])
        for trace, rows in zip(traces, parts, strict=True):
            part.backpropagate(trace, rows)
        gradients = [parameter.grad for parameter in parameters]
        for parameter, kept in zip(parameters, before, strict=True):
            parameter.grad = kept
        return None, None, None, *gradients
