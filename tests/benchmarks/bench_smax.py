"""SMAX: when an actor has its first fragment, what it takes, and how fast it samples; one core.

    python tests/benchmarks/bench_smax.py                  prints the table
    python tests/benchmarks/bench_smax.py actor MAP E T    one process: what an actor does
    python tests/benchmarks/bench_smax.py whole MAP E T    the same with policy and rollout in one program

Seconds are of the processor, with those of the wall in brackets, because machines are shared.
"""

import nitro_actor.startup  # noqa: F401, I001 - before NumPy

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

REPEATS, HIDDEN = 5, (128, 256)


def actor(map_name: str, copies: int, steps: int) -> Callable[[], object]:
    """Our engine: the step of all copies is compiled, the policy is numpy's."""
    from smax_support import make, rollout

    environment = make(map_name, copies)
    return lambda: rollout(environment, steps, hidden=HIDDEN)


def whole(map_name: str, copies: int, steps: int) -> Callable[[], object]:
    """Policy, sampling and all steps in one compiled program, for one shape of networks, E and T."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import export

    from nitro_actor.agents.smax import programs

    folder = Path(os.environ[programs.FOLDER])
    jax.config.update("jax_compilation_cache_dir", str(folder / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    sizes = (205, *HIDDEN, 13)
    random = np.random.default_rng(0)
    weights = [
        (random.normal(0, 0.1, pair).astype(np.float32), np.zeros(pair[1], np.float32))
        for pair in pairwise(sizes)
    ]
    keys = random.integers(0, 2**31, (copies, 2)).astype(np.int32)
    noise = random.gumbel(size=(steps // copies, copies, 8, 13)).astype(np.float32)

    def sample(weights: Any, keys: Any, noise: Any) -> Any:
        from nitro_actor.agents.smax.battle import functions

        begin, step = (jax.vmap(function) for function in functions(map_name))

        def one(carry: Any, drawn: Any) -> Any:
            state, shown, length = carry
            x = shown["observations"]
            for matrix, bias in weights[:-1]:
                x = jnp.tanh(x @ matrix + bias)
            logits = jnp.where(shown["available"], x @ weights[-1][0] + weights[-1][1], -1e9)
            actions = jnp.argmax(logits + drawn, axis=-1)
            after, seen, outcome = step(state, actions)
            over = outcome["ended"] | (length >= 99)
            new = begin(after["key"])
            state, seen = jax.tree.map(
                lambda a, b: jnp.where(over.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, (after, seen)
            )
            return (state, seen, jnp.where(over, 0, length + 1)), (shown, logits, actions, outcome)

        return jax.lax.scan(one, (*begin(keys), jnp.zeros(copies, jnp.int32)), noise)

    path = folder / f"whole-{map_name}-{copies}-{steps}"
    if not path.exists():
        path.write_bytes(export.export(jax.jit(sample))(weights, keys, noise).serialize())
    program = jax.jit(export.deserialize(bytearray(path.read_bytes())).call)
    return lambda: jax.tree.map(np.asarray, program(weights, keys, noise))


def process(
    what: Callable[[str, int, int], Callable[[], object]], map_name: str, copies: int, steps: int
) -> dict[str, float]:
    """Run in this process: the first fragment, then some more."""
    born = time.perf_counter()
    sample = what(map_name, copies, steps)
    sample()
    first = {"cpu": time.process_time(), "wall": time.perf_counter() - born}
    rates = []
    for _ in range(REPEATS):
        start = time.process_time()
        sample()
        rates.append(steps / (time.process_time() - start))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return first | {"rate": sorted(rates)[REPEATS // 2], "mib": memory}


def measure(what: str, map_name: str, copies: int, steps: int, folder: str) -> dict[str, float]:
    command = [sys.executable, __file__, what, map_name, str(copies), str(steps)]
    environment = os.environ | {"NITRO_SMAX_PROGRAMS": folder}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=600)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def table() -> None:
    print(
        "| map | compiled | E | T | first fragment, compiling | before | MiB, compiling | before | steps/s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for what, map_name, copies, steps in [
        ("actor", "3s5z", 4, 100),
        ("whole", "3s5z", 4, 100),
        ("actor", "3s5z", 8, 800),
        ("whole", "3s5z", 8, 800),
        ("actor", "8m", 8, 800),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            cold, warm = (measure(what, map_name, copies, steps, folder) for _ in range(2))
        print(
            f"| {map_name} | {'step' if what == 'actor' else 'rollout'} | {copies} | {steps} | "
            + " | ".join(f"{one['cpu']:.1f} s ({one['wall']:.0f})" for one in (cold, warm))
            + f" | {cold['mib']:.0f} | {warm['mib']:.0f} | {warm['rate']:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:]:
        name, map_name, copies, steps = sys.argv[1:]
        print(json.dumps(process({"actor": actor, "whole": whole}[name], map_name, int(copies), int(steps))))
    else:
        table()
