"""PPO's updates and the detector on a GPU: as CUDA graphs, with kernels started one by one, and in plain
PyTorch. A part of `bench_learner.py --device cuda`."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from learner_support import HOPPER, fragment, job, learner_of
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.boosting.detector import Detector
from nitro_learner.networks.steps import Graphs

HEAD = (
    "| on the GPU | graphs, ms | kernels one by one, ms | plain PyTorch, ms | graphs, us a step "
    "| kernels a step | the card computes |\n|---|---:|---:|---:|---:|---:|---:|"
)
LENGTH = 512
CASES = (("tuned", 2048), ("tuned", 8192), ("paper", 8192))
"""Preset, and transitions of a round."""


def table(device: str, plain: Callable[..., Callable[[], None]], repeats: int = 3) -> None:
    """Measure the cases in turn, and print a row for each.

    Args:
        device: of the learners.
        plain: makes, for a learner and a round, a function that trains an epoch in plain PyTorch.
        repeats: of each.
    """
    print(HEAD)
    for preset, transitions in CASES:
        _update(preset, transitions, device, plain, repeats)
    _detector(device, repeats)


def _update(
    preset: str, transitions: int, device: str, plain: Callable[..., Callable[[], None]], repeats: int
) -> None:
    replayed, called = (learner_of(job(preset).spec, HOPPER, device) for _ in range(2))
    called._graphs = Graphs(None, "")
    fragments = [fragment(slot, length=LENGTH) for slot in range(transitions // LENGTH)]
    settings, epoch = called.settings, plain(called, fragments)
    steps = settings.epochs
    if settings.minibatch_size:
        steps *= math.ceil(transitions / settings.minibatch_size)
    _row(
        f"`{preset}`, {transitions:,} transitions, {steps:,} steps",
        [
            lambda: replayed.update(fragments, 1),
            lambda: called.update(fragments, 1),
            lambda: [epoch() for _ in range(settings.epochs)],
        ],
        steps,
        repeats,
    )


def _detector(device: str, repeats: int) -> None:
    learner = learner_of(job("paper").spec, HOPPER, device)
    fragments = [fragment(slot, length=LENGTH) for slot in range(16)]
    surrogate = learner.update(fragments, 1)[DEFAULT_POLICY].surrogate
    replayed, called = (Detector(GivenScaling(), 0, 4096) for _ in range(2))
    called._graphs = Graphs(None, "")
    products = called.measure(surrogate, 1).iterations
    _row(
        f"detector of `paper`, M = 4,096, {products} products",
        [lambda: replayed.measure(surrogate, 1), lambda: called.measure(surrogate, 1)],
        products,
        repeats,
    )


def _row(name: str, functions: Sequence[Callable[[], object]], steps: int, repeats: int) -> None:
    """Print the median seconds of functions, which run in turn, and what the card does in the first one."""
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(repeats + 1):  # the first turn captures
        for own, function in zip(times, functions, strict=True):
            seconds = _seconds(function)
            if turn > 0:
                own.append(seconds)
    medians = [statistics.median(own) for own in times]
    with profile(activities=[ProfilerActivity.CUDA] if torch.cuda.is_available() else None) as profiled:
        _seconds(functions[0])
    kernels = [event for event in profiled.events() or () if event.device_type == DeviceType.CUDA]
    busy = sum(event.time_range.elapsed_us() for event in kernels) / 1e6
    cells = [f"{1e3 * seconds:.1f}" for seconds in medians] + [""] * (3 - len(medians))
    cells += [f"{1e6 * medians[0] / steps:.0f}", f"{len(kernels) / steps:.0f}", f"{busy / medians[0]:.0%}"]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin
