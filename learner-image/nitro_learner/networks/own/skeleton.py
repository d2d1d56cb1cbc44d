"""A module of the user's own as a skeleton: an ONNX file of a few KB without its tensors.

    module.eval()
    check(module, example(shape, torch.float32), outputs)     # raises Unfit with what is wrong, and where
    skeleton = exported(module, example(shape, torch.float32))
    compare(module, skeleton, shape, torch.float32)           # onnxruntime against torch, with other weights
    tensors = {name: array of named_tensors(module)}          # each version's, for `nitro_actor.onnx.session`

A module may export silently and play otherwise than it learns: in training mode, with random operators, with
branches on the batch's size. `check` and `compare` find these before the first round.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import math
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import nitro_learner
from nitro_actor import onnx as played
from nitro_actor import traces, wire
from nitro_api.errors import installing

OPSET = 18
"""Version of ONNX's operators, which onnxruntime 1.18 and later read."""
BATCHES = (1, 2, 8)
"""Sizes of batches at which onnxruntime is compared with torch."""
_OURS = Path(nitro_learner.__file__).parent
_NEAR = 1e-4
"""Difference of outputs that is rounding, as a share of the largest one."""
INSTALL = (
    f"{installing('train', 'onnx')}, on a cluster use a learner image that was built with "
    "--build-arg EXTRAS=onnx"
)
_EXPORTING = threading.Lock()
"""torch.export is of the whole process, so one thread exports at a time."""


class Unfit(Exception):  # noqa: N818
    """A module cannot be a policy's network; the message says why and where, and what to do."""


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """A module's parameters and buffers by name, each once: what travels to the actors."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def example(shape: Sequence[int], dtype: torch.dtype, rows: int = 2, seed: int = 0) -> Tensor:
    """Observations to try a module with: standard normal numbers, or bytes."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.uint8:
        return torch.randint(0, 256, (rows, *shape), generator=generator, dtype=torch.uint8)
    return torch.randn((rows, *shape), generator=generator)


@torch.no_grad()
def check(module: nn.Module, shape: Sequence[int], dtype: torch.dtype, outputs: int) -> None:
    """Try a module in evaluation mode, as it acts and learns.

    Args:
        shape: of an observation.
        dtype: of observations, float32 or uint8.
        outputs: numbers that it must give for each observation.

    Raises:
        Unfit: it raises, gives something else, or gives another answer to the same question.
    """
    _check_tensors(module)
    rows = example(shape, dtype, 8)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    first, again = _called(module, rows), _called(module, rows)
    expected = f"float32 [{len(rows)}, {outputs}] for observations [{', '.join(map(str, rows.shape))}]"
    if not isinstance(first, Tensor):
        raise Unfit(f"forward gave {traces.shown(first)}; return a tensor, {expected}{_place(module)}")
    if first.shape != (len(rows), outputs) or first.dtype != torch.float32:
        gave = f"{str(first.dtype).removeprefix('torch.')} {list(first.shape)}"
        raise Unfit(f"forward gave {gave}, and must give {expected}{_place(module)}; return that")
    if not torch.isfinite(first).all():
        raise Unfit(f"forward gave numbers that are infinite or NaN{_place(module)}; correct it")
    changed = [name for name, tensor in module.state_dict().items() if not _same(tensor, before[name])]
    if changed:
        raise Unfit(
            f"forward changes {', '.join(changed)}{_place(module)}, and a policy must not change while it "
            "acts; compute it from the observations, or leave it constant in evaluation mode"
        )
    if not _same(first, again):
        raise Unfit(
            f"forward gave two answers to the same observations{_place(module)}, and a policy's network must "
            "not draw random numbers, because the actions are drawn from its distribution; use "
            "torch.nn.Dropout, which does nothing in evaluation mode, or leave it out"
        )
    for count in BATCHES:
        alone = _called(module, rows[:count])
        if alone.shape != (count, outputs) or not _near(first[:count], alone):
            raise Unfit(
                f"forward gives an observation another answer in a batch of {count} than in one of "
                f"{len(rows)}{_place(module)}, but actors have other batches than the learner; make each "
                "row's answer depend on that row alone"
            )


def exported(module: nn.Module, shape: Sequence[int], dtype: torch.dtype) -> bytes:
    """The skeleton of a module that `check` has passed. Its initializers have the names of the module's
    tensors, behind `nitro_actor.onnx.PREFIX`; a tensor that nothing depends on is not among them.

    Raises:
        Unfit: it cannot be exported, or a package is missing.
    """
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise Unfit(f"needs the package {error.name}, which is not installed; {INSTALL}") from None
    tensors = named_tensors(module)
    names = list(tensors)
    values = tuple(tensor.detach().clone() for tensor in tensors.values())
    batch = {0: torch.export.Dim("batch", min=1)}
    try:
        with _EXPORTING, _quietly(), torch.no_grad():
            program = torch.export.export(
                _Functional(module, names),
                (values, example(shape, dtype)),
                dynamic_shapes=(tuple(None for _ in names), batch),
                strict=False,
            )
            made = torch.onnx.export(
                program,
                (),
                dynamo=True,
                opset_version=OPSET,
                input_names=[*(f"{played.PREFIX}{name}" for name in names), "observation"],
                output_names=["outputs"],
                verbose=False,
            )
    except Exception as error:  # the exporters' own classes have no common one
        reason = traces.cut(_first_lines(error), traces.MOST_SENTENCE // 2)
        raise Unfit(
            f"forward cannot be exported ({reason}){raised_at(error, module)}; write it with operators of "
            "torch whose shapes do not depend on the numbers in a tensor, as torch.export asks for"
        ) from error
    assert made is not None
    return _without_tensors(onnx, made.model_proto)


def compare(module: nn.Module, skeleton: bytes, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Compare onnxruntime with torch: in batches of several sizes, with the present tensors and with others.

    Raises:
        Unfit: they differ, or onnxruntime is missing.
    """
    other = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in named_tensors(other).values():
            if tensor.is_floating_point():
                tensor.mul_(0.5 + torch.rand(tensor.shape, generator=generator))
    for made in (module, other):
        tensors = arrays_of(made, skeleton)
        try:
            session = played.session(skeleton, tensors)
        except played.NoOnnxruntime:
            raise Unfit(f"needs the package onnxruntime, which is not installed; {INSTALL}") from None
        except wire.WireError as error:
            raise Unfit(f"{error}{_place(module)}") from error
        for rows in BATCHES:
            observations = example(shape, dtype, rows, seed=rows)
            with torch.no_grad():
                expected = _called(made, observations)
            for _ in range(2):
                (found,) = session.run(None, {"observation": observations.numpy()})
                if found.shape == expected.shape and _near(expected, torch.from_numpy(found)):
                    continue
                raise Unfit(
                    f"the exported network gives other numbers than the module in a batch of {rows}"
                    f"{_place(module)}; leave out branches on numbers or sizes of tensors, on the mode, and "
                    "on whether it is exported"
                )


def arrays_of(module: nn.Module, skeleton: bytes) -> dict[str, np.ndarray]:
    """Copies of a module's tensors that a skeleton uses, by their names in it."""
    used = used_names(skeleton)
    return {
        f"{played.PREFIX}{name}": tensor.detach().cpu().numpy().copy()
        for name, tensor in named_tensors(module).items()
        if name in used
    }


def used_names(skeleton: bytes) -> frozenset[str]:
    """The names of the module's tensors that a skeleton uses."""
    import onnx

    graph = onnx.load_from_string(skeleton).graph
    names = (tensor.name for tensor in graph.initializer)
    return frozenset(name.removeprefix(played.PREFIX) for name in names if name.startswith(played.PREFIX))


class _Functional(nn.Module):
    """A module as a function of its tensors, so that the export takes them for inputs and not constants."""

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.__dict__["inner"] = module  # no submodule of this one: nothing of it is constant
        self._names = list(names)

    def forward(self, tensors: tuple[Tensor, ...], observation: Tensor) -> Any:
        named = dict(zip(self._names, tensors, strict=True))
        return torch.func.functional_call(self.__dict__["inner"], named, (observation,))


def _without_tensors(onnx: Any, model: Any) -> bytes:
    """Make initializers with data elsewhere of the inputs that are the module's tensors."""
    graph, offset = model.graph, 0
    used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for value in [value for value in graph.input if value.name.startswith(played.PREFIX)]:
        graph.input.remove(value)
        if value.name not in used:  # onnxruntime refuses tensors that no operator takes
            continue
        kind = value.type.tensor_type
        sizes = [axis.dim_value for axis in kind.shape.dim]
        tensor = onnx.TensorProto(name=value.name, data_type=kind.elem_type, dims=sizes)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        length = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize * math.prod(sizes)
        for key, text in (("location", "weights"), ("offset", str(offset)), ("length", str(length))):
            tensor.external_data.add(key=key, value=text)
        offset += length
        graph.initializer.append(tensor)
    for node in graph.node:  # the user's paths and lines
        node.ClearField("metadata_props")
    for value in (*graph.input, *graph.output, *graph.value_info, graph):
        value.ClearField("metadata_props")
    return bytes(model.SerializeToString(deterministic=True))


def _check_tensors(module: nn.Module) -> None:
    """Make sure that a module's tensors can be trained and sent."""
    tensors = named_tensors(module)
    for name, tensor in tensors.items():
        if isinstance(tensor, nn.UninitializedParameter | nn.UninitializedBuffer):
            raise Unfit(f"{name} has no shape yet{_place(module)}; give the layer the number of its inputs")
        if isinstance(tensor, nn.Parameter) and tensor.dtype != torch.float32:
            raise Unfit(f"{name} is {tensor.dtype}{_place(module)}; parameters must be torch.float32")
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in wire.dtypes().split(", "):
            raise Unfit(f"{name} is {tensor.dtype}{_place(module)}; buffers can be {wire.dtypes()}")
        if not wire.nameable(f"{played.PREFIX}{name}"):
            raise Unfit(f"{traces.shown(name)} is too long a name{_place(module)}; give it a shorter one")
    if (size := sum(tensor.nbytes for tensor in tensors.values())) > wire.MAX_BYTES:
        raise Unfit(
            f"it has {size / 2**20:.0f} MiB of tensors{_place(module)}, and a message may have "
            f"{wire.MAX_BYTES // 2**20}; make it smaller"
        )


def _called(module: nn.Module, observations: Tensor) -> Any:
    try:
        return module(observations)
    except Exception as error:
        raise Unfit(
            f"forward raised {traces.words(error)}{raised_at(error, module)} for observations "
            f"[{', '.join(map(str, observations.shape))}]; correct it"
        ) from error


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def _near(expected: Tensor, found: Tensor) -> bool:
    scale = float(expected.abs().max().nan_to_num(1.0, 1.0, 1.0)) if expected.numel() else 1.0
    return torch.allclose(expected, found, rtol=0.0, atol=_NEAR * max(1.0, scale), equal_nan=True)


def _first_lines(error: BaseException) -> str:
    """What an exporter says of the first error, without its pages."""
    cause: BaseException = error
    while (deeper := cause.__cause__) is not None:
        cause = deeper
    text = traces.text(cause).strip().split("\n\n")[0].replace("\n", " ")
    return f"{type(cause).__name__}: {text}"


def raised_at(error: BaseException, module: nn.Module) -> str:
    """The line of the user's code that raised an error, or where its class is, as the end of a message."""
    file = _file(type(module))
    chain: BaseException | None = error
    lines = []
    while chain is not None:
        lines += [entry for entry in traceback.extract_tb(chain.__traceback__) if entry.filename == file]
        chain = chain.__cause__ or chain.__context__
    if lines:
        return f" ({lines[-1].filename}:{lines[-1].lineno} in {lines[-1].name})"
    return traces.raised_at(error, ours=_OURS) or _place(module)


def _place(module: nn.Module) -> str:
    """Where a module's forward is, as a part of a message; empty if that is not known."""
    try:
        return f" ({_file(type(module))}:{inspect.getsourcelines(type(module).forward)[1]} in forward)"
    except (OSError, TypeError):
        return ""


def _file(made_of: type) -> str | None:
    try:
        return inspect.getsourcefile(made_of)
    except TypeError:
        return None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence the exporters: what matters is raised, and they print pages beside it."""
    loggers: list[Any] = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch.fx")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
