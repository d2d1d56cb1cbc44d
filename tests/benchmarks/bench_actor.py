"""The actor in figures: loop speed on one core, start to ready and memory, encoding. Prints Markdown tables.

    python tests/benchmarks/bench_actor.py [hopper humanoid atari start] [--repeats 9]

Every figure is the median of the repeats, in which the candidates take turns, so that a busy machine is
equally unfair to all of them. Processor time is what an otherwise idle core would need.
"""

import nitro_actor.server  # isort: skip  # noqa: F401 - before numpy: it sets threads and kernels

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import gymnasium
import mujoco
import numpy as np

from actor_support import (
    RUN,
    action_of,
    conv_weights,
    environment,
    from_one_agent,
    policies_of,
    policy_of,
    rollout,
    weights,
)
from nitro_actor.config import AtariConfig
from nitro_actor.engines.atari import AtariEngine
from nitro_actor.environment import Environment
from nitro_actor.networks import Conv
from nitro_actor.policy import ClassPolicies, Policies
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.fragment import FragmentContainer
from nitro_actor.protocol.state import bare

STEPS = 512
HIDDEN = (256, 256)


def _nitro(env: Environment) -> Callable[[], int]:
    """Environment, policy and storing: a fragment, encoded, its episodes resumed as in training."""
    return _fragments(env, policies_of(weights(env.spec, hidden=HIDDEN), env.spec))


def _gymnasium(count: int) -> Callable[[], int]:
    """What one would write by hand: plain environments, the same policy, lists of what was seen."""
    environments = [gymnasium.make("Hopper-v5") for _ in range(count)]
    spec = environment("Hopper-v5", 1).spec
    policy = policy_of(weights(spec, hidden=HIDDEN), spec)
    rng = np.random.default_rng(0)
    current = np.stack([env.reset(seed=i)[0] for i, env in enumerate(environments)]).astype(np.float32)

    def run() -> int:
        seen = []
        for _ in range(STEPS // count):
            distribution = np.empty((count, 6), np.float32)
            policy.distribution(current, None, distribution)
            actions = np.empty((count, 3), np.float32)
            policy.actions.sample(distribution, rng.standard_normal((count, 3), np.float32), actions)
            log_probs = policy.actions.log_probabilities(distribution, actions)
            before = current.copy()
            for i, env in enumerate(environments):
                observation, reward, terminated, truncated, _ = env.step(np.clip(actions[i], -1, 1))
                current[i] = env.reset()[0] if terminated or truncated else observation
                seen.append((before[i], actions[i], log_probs[i], reward, terminated, truncated))
        return STEPS

    return run


def _hopper_stands(data: mujoco.MjData) -> bool:
    return bool(data.qpos[1] > 0.7 and abs(data.qpos[2]) < 0.2)


def _humanoid_stands(data: mujoco.MjData) -> bool:
    return bool(1.0 < data.qpos[2] < 2.0)


def _physics(
    asset: str, stands: Callable[[mujoco.MjData], bool], size: float, frames: int
) -> Callable[[], int]:
    """mj_step alone, with an episode's usual states and actions: the limit of any loop around it."""
    path = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / asset
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)

    def run() -> int:
        for _ in range(STEPS):
            if not stands(data):
                mujoco.mj_resetData(model, data)
                mujoco.mj_forward(model, data)
            data.ctrl[:] = size * np.clip(0.6 * rng.standard_normal(model.nu), -1, 1)
            mujoco.mj_step(model, data, frames)
        return STEPS

    return run


def loop(repeats: int) -> None:
    candidates = {
        "Nitro, 8 environments": _nitro(environment("Hopper-v5", 8)),
        "Nitro, 1 environment": _nitro(environment("Hopper-v5", 1)),
        "gymnasium and the same policy, 8 environments": _gymnasium(8),
        "gymnasium and the same policy, 1 environment": _gymnasium(1),
        "physics alone (mj_step)": _physics("hopper.xml", _hopper_stands, 1.0, 4),
    }
    rates = _taking_turns(candidates, repeats)
    print(f"\n| Hopper-v5, {STEPS} steps, one core | steps/s | best | by processor time |")
    print("|---|---:|---:|---:|")
    _print(rates)
    _encoding("Hopper-v5", repeats)


def humanoid(repeats: int) -> None:
    """348 observations: the loop, and what its fragments take on the wire."""
    candidates = {
        "Nitro, 8 environments": _nitro(environment("Humanoid-v5", 8)),
        "physics alone (mj_step)": _physics("humanoid.xml", _humanoid_stands, 0.4, 5),
    }
    rates = _taking_turns(candidates, repeats)
    print("\n| Humanoid-v5, one core | steps/s | best | by processor time |\n|---|---:|---:|---:|")
    _print(rates)
    _encoding("Humanoid-v5", repeats)


def _taking_turns(
    candidates: dict[str, Callable[[], int]], repeats: int
) -> dict[str, list[tuple[float, float]]]:
    """Steps per second of wall and of processor time of each, several times."""
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
    for repeat in range(repeats + 1):
        for name, run in candidates.items():
            wall, processor = time.perf_counter(), time.process_time()
            steps = run()
            if repeat:  # the first is a warm-up
                wall, processor = time.perf_counter() - wall, time.process_time() - processor
                rates[name].append((steps / wall, steps / processor))
    return rates


def _print(rates: dict[str, list[tuple[float, float]]]) -> None:
    for name, values in rates.items():
        walls, processors = zip(*values, strict=True)
        medians = statistics.median(walls), max(walls), statistics.median(processors)
        print(f"| {name} | " + " | ".join(f"{rate:,.0f}" for rate in medians) + " |")


def atari(repeats: int) -> None:
    """SpaceInvaders on one core: the whole loop with both presets' networks, its parts, and their floors."""
    env = environment("ALE/SpaceInvaders-v5", 8, frame_stack=4, clip_rewards=True, atari=AtariConfig())
    engine = env._engine
    assert isinstance(engine, AtariEngine)
    env.reset(range(8))
    rng = np.random.default_rng(0)
    game, frame, screen = engine._games[0], np.empty((84, 84), np.uint8), engine._screens[0]

    def played() -> int:
        for _ in range(16):
            _, terminated, _ = env.step(rng.integers(0, action_of(env.spec).outputs, 8))
            for index in np.flatnonzero(terminated):
                env.reset_one(int(index))
        return 128

    def emulated() -> int:
        for _ in range(16):
            for one in engine._games:
                for _ in range(4):
                    one.act(1)
                if one.game_over():
                    one.reset_game()
        return 128

    def shown() -> int:
        for _ in range(128):
            game.getScreenGrayscale(screen)
            game.getScreenGrayscale(screen)
            engine._resize(screen, frame)
        return 128

    candidates = {"environment alone": played, "emulator alone": emulated, "screens to frames": shown}
    for preset in ("paper", "tuned"):
        policies = policies_of(conv_weights(env.spec, preset), env.spec)
        name = f"`{preset}` network"
        candidates[f"Nitro, 8 environments, {name}"] = _fragments(env, policies)
        candidates[f"policy alone, {name}"] = _decisions(env, policies.classes[AGENT])
        candidates[f"its products alone, {name}"] = _products(policies.classes[AGENT])
    rates = _taking_turns(candidates, repeats)
    print("\n| SpaceInvaders, one core | steps/s | best | by processor time |\n|---|---:|---:|---:|")
    _print(rates)


def _fragments(env: Environment, policies: Policies) -> Callable[[], int]:
    state: dict[str, np.ndarray] = {}

    def run() -> int:
        nonlocal state
        fragment = rollout(env, policies, seed=1, steps=STEPS, state=state)
        _encoded(fragment)
        state = bare(fragment)
        return STEPS

    return run


def _encoded(fragment: Mapping[str, np.ndarray]) -> bytes:
    return FragmentContainer(
        kind="rollout",
        run=RUN,
        round=3,
        slot=5,
        attempt=0,
        weights_version=1,
        seed=1234,
        steps=STEPS,
        envs=8,
        resumed=True,
        tensors=from_one_agent(fragment),
    ).encode()


def _decisions(env: Environment, policy: ClassPolicies) -> Callable[[], int]:
    out = np.empty((8, action_of(env.spec).outputs), np.float32)

    def run() -> int:
        for _ in range(16):
            policy.distribution(env.observations, None, out)
        return 128

    return run


def _products(policy: ClassPolicies) -> Callable[[], int]:
    """The matrix products of the convolutions, without gathering patches: what BLAS alone takes."""
    (stack,) = policy._stacks
    network = stack._network
    assert isinstance(network, Conv)

    def run() -> int:
        for _ in range(16):
            for layer in network._layers:
                for _, product in layer._parts:
                    layer._float_product(layer._floats, product)
        return 128

    return run


def start(repeats: int) -> None:
    """Process start to ready, and memory, beside an interpreter that only imports numpy and MuJoCo."""
    bare = "import numpy, mujoco; print(flush=True); input()"
    alone, ready = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        with _process("-c", bare) as process:
            assert process.stdout
            process.stdout.readline()
            alone.append((time.perf_counter() - began, *_usage(process.pid)))
            process.kill()
        began = time.perf_counter()
        with _process("-m", "nitro_actor.server") as process:
            assert process.stdout
            port = json.loads(process.stdout.readline())["port"]
            while not _ready(port):
                time.sleep(0.001)
            ready.append((time.perf_counter() - began, *_usage(process.pid)))
            process.kill()
    print(
        "\n| Start of a process | seconds | best | of processor time | RSS, MiB |\n|---|---:|---:|---:|---:|"
    )
    for name, values in (("numpy and MuJoCo imported", alone), ("Nitro's actor ready, Hopper-v5 x 8", ready)):
        seconds, processor, mib = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"| {name} | {seconds:.3f} | {min(values)[0]:.3f} | {processor:.3f} | {mib:.0f} |")


def _usage(pid: int) -> tuple[float, float]:
    """Seconds of processor time and MiB of resident memory of a process (Linux)."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    nanoseconds = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return nanoseconds / 1e9, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _process(*arguments: str) -> subprocess.Popen[str]:
    settings = {"NITRO_ENVIRONMENT": json.dumps({"id": "Hopper-v5", "envs": 8}), "NITRO_HOST": "127.0.0.1"}
    inherited = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=inherited | settings | {"NITRO_REDIS_URL": "redis://127.0.0.1:1", "PORT": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return True
    except urllib.error.HTTPError:
        return False


def _encoding(name: str, repeats: int) -> None:
    env = environment(name, 8)
    fragment = rollout(env, policies_of(weights(env.spec), env.spec), seed=1, steps=STEPS, state={})
    times = []
    for _ in range(20 * repeats):
        began = time.perf_counter()
        data = _encoded(fragment)
        encoded = time.perf_counter()
        FragmentContainer.decode(data)
        times.append((encoded - began, time.perf_counter() - encoded))
    write, read = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
    print(f"\n| Fragment, {STEPS} steps of {name}, {len(data):,} bytes | ms |\n|---|---:|")
    print(f"| encode | {write:.3f} |\n| decode | {read:.3f} |\n| both | {write + read:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="hopper, humanoid, atari, start; default: all")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    repeats = arguments.repeats
    names = ("numpy", "mujoco", "ale-py", "gymnasium")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    print(
        f"{_processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {platform.system()}; ",
        end="",
    )
    print(f"Python {platform.python_version()}, {versions}")
    parts = {"hopper": loop, "humanoid": humanoid, "atari": atari, "start": start}
    for name in arguments.parts or parts:
        parts[name](repeats)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
