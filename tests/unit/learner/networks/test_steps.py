"""Steps: called once, captured for each of the last shapes, and replayed; or called where they are large or
cannot be captured. A stand-in on the CPU records them (see `recorded_steps`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from nitro_learner.networks import steps as module
from nitro_learner.networks.steps import MOST_GRAPHS, CapturedStep, Graphs
from recorded_steps import Recorded


@dataclass(frozen=True)
class Numbers:
    """The input of `Sum`."""

    x: Tensor

    def tensors(self) -> list[Tensor]:
        return [self.x]

    def with_tensors(self, tensors: Sequence[Tensor]) -> Numbers:
        return Numbers(*tensors)


class Sum:
    """A step that adds up numbers, which must not be negative where the step waits to see that."""

    def __init__(self, *, waits: bool = False) -> None:
        self.total, self.waits = torch.zeros(()), waits

    def __call__(self, inputs: Numbers) -> None:
        if self.waits:
            assert inputs.x.min().item() >= 0
        self.total += inputs.x.sum()


def test_a_step_is_called_once_and_then_captured_for_each_of_the_last_shapes() -> None:
    recorder, step = Recorded(), Sum()
    steps = CapturedStep(step, Graphs(recorder, "A sum"))
    for _ in range(4):
        steps(Numbers(torch.ones(3)))
    assert (recorder.captures, recorder.replays, step.total) == (1, 3, 12)
    for size in range(4, 4 + MOST_GRAPHS):
        steps(Numbers(torch.ones(size)))
    before = float(step.total)
    steps(Numbers(torch.full((3,), 2.0)))
    assert (recorder.captures, step.total) == (1, before + 6), "that shape's graph has gone, so it was called"


def test_a_large_step_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, step = Recorded(), Sum()
    monkeypatch.setattr(module, "MOST_INPUT_BYTES", 8)
    steps = CapturedStep(step, Graphs(recorder, "A sum"))
    for size in (2, 3, 2, 3, 2, 3):
        steps(Numbers(torch.ones(size)))
    assert (recorder.captures, recorder.replays, step.total) == (1, 2, 15)


class Refusing(Recorded):
    """Captures nothing that waits; called steps may."""

    def call(self, step: Callable[[], None]) -> None:
        step()


def test_a_capture_that_fails_is_reported_once_and_the_steps_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder, step = Refusing(), Sum(waits=True)
    graphs = Graphs(recorder, "A sum")
    for steps in (CapturedStep(step, graphs), CapturedStep(step, graphs)):
        for _ in range(3):
            steps(Numbers(torch.ones(2)))
    assert (step.total, recorder.replays) == (12, 0)
    (message,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert message.startswith(
        "A sum cannot be captured as a CUDA graph (the step waits for the device: item), so "
    )
