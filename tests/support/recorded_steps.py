"""A stand-in for CUDA graphs on the CPU: a step's tensor operations are recorded once, and repeated in the
memory that they used then.

So a step that reads a tensor which is replaced between its calls, or a number that changes, gives other
results than a call of it. A step that waits for the device, as it would to read a number, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nitro_learner.networks import kernels

WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique2", "equal", "is_nonzero"}
"""Operators whose result, or its size, the host reads from the device."""

FROM_HOST = {"lift_fresh", "lift_fresh_copy"}
"""Operators that bring a number of the host to the device: a graph would bring the same one again."""

READS = {Tensor.cpu, Tensor.numpy, Tensor.item, Tensor.tolist, Tensor.to, Tensor.__bool__, Tensor.__float__}
"""Functions that leave the device; on a CPU they are no operators."""


class _Functions(TorchFunctionMode):
    """Refuses functions that leave the device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READS:
            raise RuntimeError(f"the step waits for the device: {func.__name__}")
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    """Refuses operators that wait for the device, and hands the others on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.name().removeprefix("aten::").partition(".")[0], kwargs or {}
        by_mask = name == "index" and any(t is not None and t.dtype == torch.bool for t in args[1])
        if name in WAITS or by_mask:
            raise RuntimeError(f"the step waits for the device: {name}")
        if name in FROM_HOST:
            raise RuntimeError(f"the step makes a constant of a number: {name}")
        return self.done(func, args, kwargs)

    def done(self, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)


@dataclass
class _Recording(_Operators):
    """What a step does, operator by operator, and what was in the memory that it writes."""

    operators: list[tuple[Any, Any, Any, Any]] = field(default_factory=list)
    before: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def done(self, func: Any, args: Any, kwargs: Any) -> Any:
        for argument, value in zip(func._schema.arguments, args, strict=False):
            self._keep(argument, value)
        for argument in func._schema.arguments:
            self._keep(argument, kwargs.get(argument.name))
        result = func(*args, **kwargs)
        self.operators.append((func, args, kwargs, result))
        return result

    def _keep(self, argument: Any, value: Any) -> None:
        if argument.alias_info is not None and argument.alias_info.is_write:
            for tensor in tensors_in(value):
                storage = tensor.untyped_storage()
                self.before.setdefault(storage.data_ptr(), (storage, storage.clone()))

    def undo(self) -> None:
        for storage, content in self.before.values():
            storage.copy_(content)

    def replay(self) -> None:
        for func, args, kwargs, result in self.operators:
            again = tensors_in(func(*args, **kwargs))
            for own, new in zip(tensors_in(result), again, strict=True):
                if own.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                    own.copy_(new)


def tensors_in(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


class Recorded:
    """See `nitro_learner.networks.steps.Recorder`. Counts what it captures and replays."""

    def __init__(self) -> None:
        self.captures = self.replays = 0

    def call(self, step: Callable[[], None]) -> None:
        with _refusing(_Operators()):
            step()

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        recording = _Recording()
        with _refusing(recording):
            step()
        recording.undo()
        self.captures += 1

        @torch.no_grad()
        def replay() -> None:
            self.replays += 1
            recording.replay()

        return replay


@contextmanager
def _refusing(operators: _Operators) -> Iterator[None]:
    with ExitStack() as modes:
        modes.enter_context(operators)
        modes.enter_context(_Functions())
        yield


def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch compute tanh, as on a GPU: what NumPy computes is not recorded."""
    monkeypatch.setattr(kernels, "tanh_", Tensor.tanh_)
