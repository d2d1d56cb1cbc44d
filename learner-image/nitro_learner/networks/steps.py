"""Steps of fixed shape, such as gradient steps: how a sequence of them runs.

On a CPU a step is called. On a CUDA GPU, a small step takes most of its time to start its kernels, so it is
captured once as a CUDA graph, and then replayed: one start for all of its kernels.

A graph reads and writes the memory that its step used while it was captured. So all that a step uses stays
where it is: the tensors that it changes, and those that change between its calls, such as the learning rate.
What it learns from comes as an argument, which is copied to where the graph reads it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

MOST_GRAPHS = 8
"""A step keeps graphs of so many shapes. A round has two: its minibatches, and the smaller last one."""

MOST_INPUT_BYTES = 2**28
"""The input of one step that a graph gets as a copy. A larger step runs as long as its kernels do anyway."""


class Inputs(Protocol):
    """What a step learns from: a set of tensors."""

    def tensors(self) -> Sequence[Tensor]: ...

    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        """The same of other tensors, of these shapes."""
        ...


In = TypeVar("In", bound=Inputs)
Value = TypeVar("Value")
Replay = Callable[[], None]


class Recorder(Protocol):
    """How a step is captured."""

    def call(self, step: Callable[[], None]) -> None:
        """Call the step where others are captured."""
        ...

    def capture(self, step: Callable[[], None]) -> Replay:
        """Record the step's work without doing it. The result does it.

        Raises:
            RuntimeError: it cannot be captured.
        """
        ...


_CAPTURING = threading.Lock()
"""A process captures one graph at a time."""


class CudaRecorder:
    """See `Recorder`."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def call(self, step: Callable[[], None]) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            step()
        torch.cuda.current_stream().wait_stream(self._stream)

    def capture(self, step: Callable[[], None]) -> Replay:
        # Not by `torch.cuda.graph`, which waits for the GPU and gives back all memory that it keeps. Another
        # thread may compute at the same time, the update's or the detector's: its errors are its own.
        graph = torch.cuda.CUDAGraph()
        with _CAPTURING, torch.cuda.stream(self._stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                step()
            finally:
                graph.capture_end()
        return graph.replay


class Graphs:
    """Whether the steps of one thread on a GPU are captured: until one of them cannot be."""

    def __init__(self, recorder: Recorder | None, what: str) -> None:
        """
        Args:
            recorder: captures them; None to call each of them.
            what: the step in a message, such as "A gradient step".
        """
        self._recorder = recorder
        self._what = what

    @property
    def recorder(self) -> Recorder | None:
        """None where steps are called, as after a capture that failed."""
        return self._recorder

    def give_up(self, error: RuntimeError) -> None:
        """Capture no more, and say why."""
        self._recorder = None
        reason = str(error.__context__ or error).strip().partition("\n")[0]
        logger.warning(
            "%s cannot be captured as a CUDA graph (%s), so its kernels are started one by one: results are "
            "the same, and it takes longer",
            self._what,
            reason,
        )


def graphs_on(device: str | torch.device, what: str) -> Graphs | None:
    """Those of a torch device, with `what` as in `Graphs`; None where steps are called."""
    return Graphs(CudaRecorder(), what) if torch.device(device).type == "cuda" else None


class Recent(Generic[Value]):
    """The values that were used last, by their keys.

    Args:
        most: so many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Hashable, Value] = {}

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key; made if there is none."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]
        return value

    def clear(self) -> None:
        self._values.clear()


class CapturedStep(Generic[In]):
    """A step that is captured for each shape of its input.

    The first call of a shape is a call of the step, which loads what its kernels need. The second one
    captures it. Every call takes one step, and all give what calls of the step give, to the bit.

        captured = CapturedStep(step, graphs)
        captured(minibatch)
    """

    def __init__(self, step: Callable[[In], None], graphs: Graphs) -> None:
        """
        Args:
            step: changes tensors that stay where they are, and reads nothing else that changes but its input.
                It never waits for the GPU, as it would to read a number.
            graphs: of the thread that calls it.
        """
        self._step, self._graphs = step, graphs
        self._held: Recent[_Held[In]] = Recent(MOST_GRAPHS)

    def __call__(self, inputs: In) -> None:
        tensors, recorder = inputs.tensors(), self._graphs.recorder
        if recorder is None:
            self._held.clear()
        if recorder is None or sum(tensor.nbytes for tensor in tensors) > MOST_INPUT_BYTES:
            self._step(inputs)
            return
        shape = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        held = self._held.get(shape, lambda: _Held(inputs))
        held.read(tensors)
        if not held.warm:
            recorder.call(lambda: self._step(held.inputs))
            held.warm = True
            return
        if held.replay is None:
            try:
                held.replay = recorder.capture(lambda: self._step(held.inputs))
            except RuntimeError as error:
                self._graphs.give_up(error)
                self._held.clear()
                self._step(inputs)
                return
        held.replay()


class _Held(Generic[In]):
    """The input that a graph reads, and the graph, once there is one."""

    def __init__(self, inputs: In) -> None:
        self.inputs = inputs.with_tensors([tensor.clone() for tensor in inputs.tensors()])
        self.warm = False
        self.replay: Replay | None = None

    def read(self, tensors: Sequence[Tensor]) -> None:
        for own, tensor in zip(self.inputs.tensors(), tensors, strict=True):
            own.copy_(tensor)
