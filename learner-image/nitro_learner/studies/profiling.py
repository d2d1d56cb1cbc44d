"""What one actor of a job needs, measured on a real actor process, and what it would cost in each setting.

Lambda gives a function CPU in proportion to its memory: one full core at 1,769 MB
(https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html). An actor computes in one thread.
Below one core a rollout therefore takes longer in the same proportion, and costs the same. Above one core it
only costs more.
"""

import contextlib
import math
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nitro_api import JobSpec
from nitro_api.costs.pod_prices import SIDECAR_VCPU
from nitro_api.costs.prices import billed_seconds, pod_cost
from nitro_api.resolution.resolve import most_actors
from nitro_api.spec.pricing import Pricing
from nitro_api.spec.scaling import Scaling
from nitro_learner.algorithms import registry
from nitro_learner.backends.local import LocalBackend
from nitro_learner.sampling.dispatch import ActorSampler, Dispatcher
from nitro_learner.sampling.fragments import end_state
from nitro_learner.sampling.plans import RoundPlan, State

CORE_MIB = 1769
"""Memory at which Lambda gives one full core."""

MEMORIES_MIB = (128, 256, 512, 768, 1024, 1280, 1536, CORE_MIB, 2048, 3072, 10_240)
HEADROOM = 1.5
"""The memory of a setting is at least the measured peak times this factor: a longer run has a higher peak,
and Lambda counts its own runtime client too."""

_EQUAL = 1.02
"""Costs within 2 % count as equal. Among settings of equal cost, the fastest is recommended."""
_PODS, _MOST_PER_POD = 8, 32
_RUN = "profile"
_SECONDS, _LEAST, _MOST = 3.0, 3, 200
_WARM_UP = 1


@dataclass(frozen=True)
class Measured:
    """One actor process at work.

    Attributes:
        peak_bytes: most memory that it had.
        start_seconds: from its start until it was ready, its Redis included.
        steps: T of a rollout.
        seconds: a rollout's wall time by the actor's own clock, median.
        core_seconds: processor time of a rollout, mean; `seconds` where the system does not report it.
        rollouts: number of rollouts that were measured.
    """

    peak_bytes: int
    start_seconds: float
    steps: int
    seconds: float
    core_seconds: float
    rollouts: int


@dataclass(frozen=True)
class Setting:
    """One size of a Lambda function.

    Attributes:
        cores: its share of one core, at most 1.
        seconds: time that a rollout takes.
        dollars: cost of 1,000 environment steps.
        fits: whether the actor has enough memory in it.
    """

    memory_mib: int
    cores: float
    seconds: float
    dollars: float
    fits: bool


async def measure(spec: JobSpec) -> Measured:
    """Run rollouts of a resolved Local job on one actor process, with the job's own untrained network.

    Raises:
        BackendError: the environment does not work.
    """
    began = time.monotonic()
    spec = spec.model_copy(update={"actor": spec.actor.model_copy(update={"round_deadline_seconds": None})})
    async with contextlib.AsyncExitStack() as stack:
        backend = LocalBackend(spec, _RUN)
        sampler = await ActorSampler.open(stack, spec, _RUN, backend)
        start_seconds = time.monotonic() - began
        policies = registry.make_policies(spec, sampler.environment)
        await sampler.cache.publish_weights(0, policies.encode(_RUN))
        return await _sample(sampler.dispatcher, backend, spec, start_seconds)


async def _sample(work: Dispatcher, backend: LocalBackend, spec: JobSpec, start_seconds: float) -> Measured:
    steps = spec.environment.rollout_length
    state: Mapping[int, State] = {}
    seconds: list[float] = []
    used = 0.0
    end = math.inf
    for number in range(_MOST + _WARM_UP):
        if number == _WARM_UP:
            end, used = time.monotonic() + _SECONDS, _processor_seconds(backend.actor_pids[0])
        elif number >= _WARM_UP + _LEAST and time.monotonic() >= end:
            break
        plan = RoundPlan(_RUN, spec.seed, number, 0, steps, 1, states=state)
        work.start_slots(plan, [0])
        result = await work.finish(plan)
        if spec.environment.resume_episodes:
            ended = end_state(result.fragments[0])
            state = {0: ended} if ended else {}
        if number >= _WARM_UP:
            seconds.append(result.stats.task_seconds[0])
    pid = backend.actor_pids[0]
    spent = _processor_seconds(pid) - used
    core_seconds = spent / len(seconds) if spent > 0 else statistics.median(seconds)
    return Measured(
        peak_bytes=_peak_bytes(pid),
        start_seconds=start_seconds,
        steps=steps,
        seconds=statistics.median(seconds),
        core_seconds=core_seconds,
        rollouts=len(seconds),
    )


def settings(measured: Measured, pricing: Pricing) -> list[Setting]:
    """Every size of a function, with the time of a rollout and the cost of steps in it."""
    choices = []
    for memory in MEMORIES_MIB:
        cores = min(1.0, memory / CORE_MIB)
        seconds = measured.core_seconds / cores
        cost = billed_seconds(seconds) * memory / 1024 * pricing.lambda_gb_second + pricing.lambda_request
        choices.append(
            Setting(
                memory,
                cores,
                seconds,
                1000 * cost / measured.steps,
                fits=HEADROOM * measured.peak_bytes <= memory * 2**20,
            )
        )
    return choices


def recommended(choices: list[Setting]) -> Setting | None:
    """The fastest of the cheapest that fit; None where no function has enough memory."""
    fitting = [choice for choice in choices if choice.fits]
    if not fitting:
        return None
    least = min(choice.dollars for choice in fitting)
    return min(
        (choice for choice in fitting if choice.dollars <= _EQUAL * least), key=lambda choice: choice.seconds
    )


def requests(measured: Measured) -> dict[str, str]:
    """What an actor's pod should request on Knative. The memory is its limit, too."""
    mebibytes = math.ceil(HEADROOM * measured.peak_bytes / 2**20 / 32) * 32
    return {"cpu": "1", "memory": f"{mebibytes}Mi"}


def per_pod(scaling: Scaling) -> int:
    """Actors that should share a pod on Knative: the largest round then needs about `_PODS` pods."""
    return max(1, min(_MOST_PER_POD, most_actors(scaling) // _PODS))


def pod_dollars(measured: Measured, pricing: Pricing) -> float:
    """Dollars for 1,000 steps of a busy pod with the memory of `requests`."""
    asked = requests(measured)
    gigabytes = int(asked["memory"].removesuffix("Mi")) / 1024
    vcpu = int(asked["cpu"]) + SIDECAR_VCPU
    cost = pod_cost(pricing, measured.core_seconds * gigabytes, measured.core_seconds * vcpu)
    return 1000 * cost / measured.steps


def _peak_bytes(pid: int) -> int:
    """Most memory that a process has used; 0 if the system does not report it."""
    lines = _proc(pid, "status").splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def _processor_seconds(pid: int) -> float:
    """Processor time that a process has used; 0 if the system does not report it."""
    fields: list[Any] = _proc(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _proc(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""
