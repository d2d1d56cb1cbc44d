"""The learner's numerics on one core, against the same computation in plain PyTorch, interleaved in one run.

    python tests/benchmarks/bench_learner.py [epochs gradients detector images off-policy]
    python tests/benchmarks/bench_learner.py --device cuda

Prints a Markdown table: wall time (median, least), CPU time (median), and the gain over plain PyTorch. With
`--device cuda`: updates and the detector on a GPU, as `gpu_steps.py` measures them.
"""

import argparse
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import gpu_steps
import numpy as np
import torch
from torch import Tensor, nn

from actor_support import environment, policies_of, rollout
from learner_support import (
    HOPPER,
    by_autograd,
    by_hand,
    coefficients_of,
    fragment,
    job,
    learner_of,
    lone_fragment,
    module_of,
    parts_of,
    samples_of,
)
from nitro_actor.config import AtariConfig
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.adam import Adam
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.gradient import clip_rows
from nitro_learner.algorithms.impact.vtrace import vtrace
from nitro_learner.algorithms.ppo.alone import AlonePasses
from nitro_learner.algorithms.ppo.learning import Ppo, parted
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.boosting.detector import Detector, transitions
from nitro_learner.data.batch import Fragment

SAMPLES = 8192


class Plain:
    """PPO's gradient step as it is usually written: PyTorch's modules, autograd and Adam."""

    def __init__(self, algorithm: Ppo, device: str = "cpu") -> None:
        policy = module_of(algorithm).policy
        self.settings, self.state_log_std = algorithm.settings, not hasattr(policy, "log_std")
        hidden = len(policy.get_parameter("layers.0.bias"))

        def mlp(outputs: int) -> nn.Module:
            return nn.Sequential(
                nn.Linear(11, hidden),
                nn.Tanh(),
                nn.Linear(hidden, hidden),
                nn.Tanh(),
                nn.Linear(hidden, outputs),
            )

        self.policy, self.critic = mlp(6 if self.state_log_std else 3).to(device), mlp(1).to(device)
        self.log_std = nn.Parameter(torch.zeros(3, device=device))
        self.parameters = [*self.policy.parameters(), *self.critic.parameters(), self.log_std]
        self.optimiser = torch.optim.Adam(self.parameters, lr=self.settings.learning_rate)

    def distribution(self, observations: Tensor) -> torch.distributions.Normal:
        output = self.policy(observations)
        mean, log_std = (
            output.chunk(2, -1) if self.state_log_std else (output, self.log_std.expand_as(output))
        )
        return torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp(), validate_args=False)

    def surrogate(self, s: Samples, advantages: Tensor, new: torch.distributions.Normal) -> Tensor:
        clip = self.settings.clip
        ratio = (new.log_prob(s.actions).sum(-1) - s.log_probs).exp()
        return torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()

    def step(self, s: Samples) -> None:
        settings = self.settings
        minibatch = settings.standardise_advantages == "minibatch"
        new = self.distribution(s.observations)
        loss = -self.surrogate(s, s.standardised() if minibatch else s.advantages, new)
        if settings.kl_coefficient:
            mean, log_std = s.distribution.chunk(2, -1)
            old = torch.distributions.Normal(mean, log_std.exp(), validate_args=False)
            loss = loss + settings.kl_coefficient * torch.distributions.kl_divergence(old, new).sum(-1).mean()
        error = (self.critic(s.observations)[:, 0] - s.returns) ** 2
        loss = loss + settings.value_coefficient * error.clamp(max=settings.value_clip or math.inf).mean()
        self.optimiser.zero_grad()
        loss.backward()
        if settings.max_grad_norm:
            nn.utils.clip_grad_norm_(self.parameters, settings.max_grad_norm)
        self.optimiser.step()


class Times:
    """Wall and CPU seconds of several runs."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def add(self, function: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)

    def __str__(self) -> str:
        wall, least, cpu = statistics.median(self.wall), min(self.wall), statistics.median(self.cpu)
        return f"{1e3 * wall:.1f} | {1e3 * least:.1f} | {1e3 * cpu:.1f}"


def compare(
    name: str, ours: Callable[[], object], plain: Callable[[], object], repeats: int
) -> tuple[Times, Times]:
    """Run both in turn, after one run of each that does not count, and print a row."""
    times = Times(), Times()
    ours()
    plain()
    for _ in range(repeats):
        for t, function in zip(times, (ours, plain), strict=True):
            t.add(function)
    ratio = min(times[1].cpu) / min(times[0].cpu)
    print(f"| {name} | {times[0]} | {times[1]} | {ratio:.1f}x |", flush=True)
    return times


def samples(algorithm: Ppo) -> Samples:
    return samples_of(algorithm, [fragment(slot, length=512) for slot in range(SAMPLES // 512)])


def epoch(name: str, preset: str, repeats: int, **overrides: object) -> None:
    algorithm = learner_of(job(preset, **overrides).spec, HOPPER)
    data, plain, settings = samples(algorithm), Plain(algorithm), algorithm.settings
    network, parameters = parts_of(algorithm)
    passes = AlonePasses(network, parameters, coefficients_of(algorithm), None)
    optimiser = Adam(parameters, [algorithm.learned[AGENT].adam], settings.adam_epsilon)
    _, minibatches = parted(data, settings, twice=True)
    generators = [torch.Generator().manual_seed(0)]

    def ours() -> None:
        for minibatch in minibatches(generators):
            gradient = passes.gradient(minibatch)
            clip_rows(gradient, settings.max_grad_norm)
            optimiser.step(gradient, settings.learning_rate)

    def plainly() -> None:
        for minibatch in minibatches(generators):
            plain.step(minibatch)

    steps = len(list(minibatches(generators)))
    times, _ = compare(f"{name}, {steps} gradient steps", ours, plainly, repeats)
    if steps > 1:
        seconds = statistics.median(times.cpu) * 400_000 / SAMPLES * 10
        print(f"|   that is 10 epochs over 400k steps in {seconds:.0f} s | | | | | | | |")


def epochs() -> None:
    wide = {"network__hiddenSizes": [256, 256]}
    epoch("PPO epoch, `paper`, 8192 samples, 2 x 256", "paper", repeats=10)
    epoch("PPO epoch, `tuned`, minibatch 256, 2 x 64", "tuned", repeats=5)
    epoch("PPO epoch, `tuned`, minibatch 256, 2 x 256", "tuned", repeats=5, **wide)
    epoch(
        "PPO epoch, `tuned`, minibatch 64, 2 x 64",
        "tuned",
        repeats=5,
        algorithm__hyperparameters__minibatchSize=64,
    )


def gradients() -> None:
    """PPO's gradient by hand beside autograd's of the same loss, of the same minibatches."""
    for name, preset, size, width in (
        ("`paper`, minibatch 8192, 2 x 256", "paper", SAMPLES, 256),
        ("`tuned`, minibatch 256, 2 x 64", "tuned", 256, 64),
        ("`tuned`, minibatch 64, 2 x 64", "tuned", 64, 64),
    ):
        algorithm = learner_of(job(preset, network__hiddenSizes=[width, width]).spec, HOPPER)
        minibatches = samples(algorithm).parts(size)

        def all_by(
            gradient: Callable[[Ppo, Coefficients, Samples], object],
            a: Ppo = algorithm,
            m: list[Samples] = minibatches,
        ) -> None:
            for minibatch in m:
                gradient(a, coefficients_of(a), minibatch)

        compare(
            f"PPO gradient by hand, plain is autograd's: {name}, {len(minibatches)} gradients",
            partial(all_by, by_hand),
            partial(all_by, by_autograd),
            repeats=20,
        )


def detector() -> None:
    algorithm = learner_of(job("paper").spec, HOPPER)
    fragments = [fragment(slot, length=512) for slot in range(16)]
    update = Times()
    update.add(lambda: algorithm.update(fragments, 1))
    surrogate = algorithm.update(fragments, 2)[DEFAULT_POLICY].surrogate
    measuring, plain = Detector(GivenScaling(), 0, 4096), Plain(algorithm)
    measurement = measuring.measure(surrogate, 1)
    rows = samples(algorithm).rows(torch.arange(4096))

    def plainly() -> None:
        """As many products of the same Hessian's size."""
        parameters = list(plain.policy.parameters())
        value = plain.surrogate(rows, rows.advantages, plain.distribution(rows.observations))
        gradient = torch.autograd.grad(value, parameters, create_graph=True)
        vector = [torch.randn_like(p) for p in parameters]
        for _ in range(measurement.iterations):
            torch.autograd.grad(gradient, parameters, vector, retain_graph=True)

    name = f"detector, M = 4096, n = 70,406, {measurement.iterations} products"
    times, _ = compare(name, lambda: measuring.measure(surrogate, 1), plainly, repeats=5)
    share = min(times.cpu) / (min(times.cpu) + min(update.cpu))
    print(f"|   share of the learner's compute, `paper` with 16 actors: {share:.0%} | | | | | | | |")


def images() -> None:
    for preset in ("paper", "tuned"):
        _images(preset)


def _images(preset: str) -> None:
    """A round of SpaceInvaders with the preset's actors, and what the detector adds to the update."""
    spec = job(preset, environment__id="ALE/SpaceInvaders-v5").spec
    wanted = spec.environment
    games = environment(
        wanted.id, wanted.envs_per_actor, frame_stack=4, clip_rewards=True, atari=AtariConfig()
    )
    algorithm = learner_of(spec, DescribedEnvironment.from_json(games.spec.to_json()))
    policy = policies_of(algorithm.weights()[DEFAULT_POLICY], games.spec)
    actors, steps = spec.scaling.initial_actors, wanted.rollout_length
    fragments = [
        lone_fragment(
            {"slot": slot, "resumed": False}, rollout(games, policy, seed=slot, steps=steps, state={})
        )
        for slot in range(actors)
    ]
    updates, measures, found = Times(), Times(), []
    measuring = Detector(spec.scaling, 0, transitions(spec))
    for k in (1, 2):
        results: list[UpdateResult] = []
        updates.add(
            lambda k=k, results=results: results.append(algorithm.update(fragments, k)[DEFAULT_POLICY])
        )  # type: ignore[misc]
        measures.add(
            lambda k=k, results=results: found.append(measuring.measure(results[0].surrogate, k))  # type: ignore[misc]
        )
    share = min(measures.cpu) / (min(measures.cpu) + min(updates.cpu))
    products = ", ".join(str(measurement.iterations) for measurement in found)
    size = parts_of(algorithm)[0].policy_size
    print(f"| SpaceInvaders `{preset}`: update of {actors} x {steps} | {updates} | | | | |")
    print(f"|   detector, M = {transitions(spec)}, n = {size:,}, m = {products} | {measures} | | | | |")
    print(f"|   share of the learner's compute: {share:.0%} | | | | | | | |", flush=True)


def off_policy() -> None:
    """V-trace beside the same recursion as a loop over time, and IMPACT's pass over a batch."""
    rng = np.random.default_rng(0)
    for length, lanes in ((512, 16), (64, 128)):
        floats = [rng.standard_normal((length, lanes), np.float32) for _ in range(4)]
        ends = [rng.random((length, lanes)) < 0.002 for _ in range(2)]

        def loop(floats: list[np.ndarray] = floats, ends: list[np.ndarray] = ends) -> None:
            log_ratios, rewards, values, next_values = floats
            rho = np.exp(np.minimum(log_ratios, 0.0))
            delta = rho * (rewards + 0.99 * np.where(ends[0], 0.0, next_values) - values)
            decay, excess = 0.99 * rho * ~(ends[0] | ends[1]), np.zeros_like(delta[0])
            targets = np.empty_like(values)
            for t in range(len(delta) - 1, -1, -1):
                excess = delta[t] + decay[t] * excess
                targets[t] = values[t] + excess

        compare(
            f"V-trace, {length} steps x {lanes} lanes",
            lambda floats=floats, ends=ends: vtrace(*floats, *ends, gamma=0.99),  # type: ignore[misc]
            loop,
            repeats=50,
        )
    algorithm = learner_of(job("paper", algorithm__name="impact").spec, HOPPER)
    algorithm.take([fragment(slot, length=512) for slot in range(8)])
    times = Times()
    for _ in range(5):
        times.add(algorithm.replay)
    print(f"| IMPACT, a pass over a batch of 4096, `paper` | {times} | | | | |", flush=True)


def plain_epoch(algorithm: Ppo, fragments: list[Fragment], device: str) -> Callable[[], None]:
    """A function that trains an epoch in plain PyTorch."""
    plain, data = Plain(algorithm, device), samples_of(algorithm, fragments)
    _, minibatches = parted(data, algorithm.settings, twice=True)
    generators = [torch.Generator().manual_seed(0)]

    def epoch() -> None:
        for minibatch in minibatches(generators):
            plain.step(minibatch)

    return epoch


PARTS: dict[str, Callable[[], None]] = {
    "epochs": epochs,
    "gradients": gradients,
    "detector": detector,
    "images": images,
    "off-policy": off_policy,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    parts = arguments.parts or PARTS
    torch.set_num_threads(1)
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    print(f"{model}, {os.cpu_count()} CPUs, one thread; Python {platform.python_version()}, ", end="")
    print(f"PyTorch {torch.__version__}, NumPy {np.__version__}; load {os.getloadavg()[0]:.1f}\n")
    if arguments.device == "cuda":
        print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}\n")
        gpu_steps.table("cuda", partial(plain_epoch, device="cuda"))
        return
    print("| ms | wall | least | CPU | plain: wall | least | CPU | faster |")
    print("|---|---|---|---|---|---|---|---|")
    for name in parts:
        PARTS[name]()


if __name__ == "__main__":
    main()
