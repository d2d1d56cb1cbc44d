"""Gated recurrent units (Cho et al. 2014) of several networks along sequences, in PyTorch's form:

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
    z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r (W_hn h + b_hn))
    h = (1 - z) n + z h

It is not torch.nn.GRU, whose memory cannot end within a sequence, and whose kernel for GPUs cannot be
differentiated twice. `unroll` can, for the detector. `scan` is the same function with the gradient by hand,
for training.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from nitro_learner.networks import kernels


def unroll(seen: Tensor, memory: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The memories after each step, f32 [L, P, S, H], with a graph that can be differentiated twice.

    Args:
        seen: W_i x + b_i of each step, f32 [L, P, S, 3 H].
        memory: before the first step, f32 [P, S, H].
        keep: f32 [L, P, S, 1], 0 where the memory is emptied before the step, 1 elsewhere.
        weight, bias: W_h [P, 3 H, H] and b_h [P, 3 H].
    """
    size, transposed, added = memory.shape[-1], weight.transpose(1, 2), bias[:, None]
    after = []
    for x, kept in zip(seen.unbind(), keep.unbind(), strict=True):
        memory = memory * kept
        gates = torch.baddbmm(added, memory, transposed)
        reset, update = torch.split(_sigmoid(x[..., : 2 * size] + gates[..., : 2 * size]), size, -1)
        new = kernels.tanh(x[..., 2 * size :] + reset * gates[..., 2 * size :])
        memory = new + update * (memory - new)
        after.append(memory)
    return torch.stack(after)


def scan(seen: Tensor, memory: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As `unroll`, differentiable once, and not by `memory`."""
    result: Tensor = _Scan.apply(seen, memory, keep, weight, bias)
    return result


class _Scan(Function):
    @staticmethod
    def forward(ctx: Any, seen: Tensor, memory: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        size, transposed, added = memory.shape[-1], weight.transpose(1, 2), bias[:, None]
        shape = seen.shape[:-1]
        before, after, kept_new, new = seen.new_empty((4, *shape, size)).unbind()
        gates = seen[..., : 2 * size].clone()
        for t in range(len(seen)):
            torch.mul(memory, keep[t], out=before[t])
            kept = torch.baddbmm(added, before[t], transposed)
            gates[t] += kept[..., : 2 * size]
            _sigmoid_(gates[t])
            kept_new[t] = kept[..., 2 * size :]
            torch.addcmul(seen[t, ..., 2 * size :], gates[t, ..., :size], kept_new[t], out=new[t])
            kernels.tanh_(new[t])
            memory = torch.lerp(new[t], before[t], gates[t, ..., size:], out=after[t])
        ctx.save_for_backward(before, gates, kept_new, new, keep, weight)
        return after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        before, gates, kept_new, new, keep, weight = ctx.saved_tensors
        size = new.shape[-1]
        reset, update = gates[..., :size], gates[..., size:]
        # The derivatives of h by the inputs of tanh and of z's sigmoid, and of the former by r's.
        by_new = (1 - update) * (1 - new * new)
        by_update = (before - new) * update * (1 - update)
        by_reset = kept_new * reset * (1 - reset)
        by_kept = torch.empty((*new.shape[:-1], 3 * size), dtype=new.dtype, device=new.device)
        by_seen_new = torch.empty_like(new)
        running = torch.zeros_like(new[0])
        for t in reversed(range(len(new))):
            running += grad[t]
            torch.mul(running, by_new[t], out=by_seen_new[t])
            torch.mul(by_seen_new[t], by_reset[t], out=by_kept[t, ..., :size])
            torch.mul(running, by_update[t], out=by_kept[t, ..., size : 2 * size])
            torch.mul(by_seen_new[t], reset[t], out=by_kept[t, ..., 2 * size :])
            running = torch.baddbmm(running * update[t], by_kept[t], weight) * keep[t]
        by_seen = by_kept.clone()
        by_seen[..., 2 * size :] = by_seen_new
        # [P, L * S, .]
        rows, columns = (tensor.transpose(0, 1).flatten(1, 2) for tensor in (by_kept, before))
        return by_seen, None, None, torch.bmm(rows.transpose(1, 2), columns), rows.sum(1)


def _sigmoid(x: Tensor) -> Tensor:
    """With a graph; by tanh, as actors compute it."""
    return 0.5 + 0.5 * kernels.tanh(0.5 * x)


def _sigmoid_(x: Tensor) -> Tensor:
    """In place, without a graph."""
    x *= 0.5
    kernels.tanh_(x)
    x += 1
    x *= 0.5
    return x
