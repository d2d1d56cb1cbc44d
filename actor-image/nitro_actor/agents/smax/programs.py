"""Compiled programs of SMAX: traced from JaxMARL once, and kept in a folder.

A program is two files: StableHLO, which JAX loads without JaxMARL and without tracing, and what XLA compiled
from it, in the folder `xla`. With both files an actor is ready within a second of processor time. Without
them it takes 14 seconds.
"""

import hashlib
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

# Programs use at most AVX2: they move from the machine that builds an image to other machines, and equal
# requests must give equal bits there. They use one thread, because an actor has one core.
os.environ["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX2 --xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from nitro_actor.config import EnvironmentConfigError

FOLDER = "NITRO_SMAX_PROGRAMS"
"""The environment variable that names the folder."""

_KEY = (2,)


class Programs(NamedTuple):
    """The programs of a map.

    Attributes:
        begin: `begin` of `battle.functions`, for one copy.
        step: `step` of the same, for E copies: every array has one more axis, the first, of length E.
        state: dtype and shape of each array of a state of E copies.
    """

    begin: Callable[[np.ndarray], Any]
    step: Callable[[dict[str, np.ndarray], np.ndarray], Any]
    state: dict[str, Any]


def load(map_name: str, copies: int) -> Programs:
    """Load the programs of a map, after making them where the folder has none.

    Raises:
        EnvironmentConfigError: the folder has none, and JaxMARL is not installed.
    """
    folder = _folder()
    jax.config.update("jax_compilation_cache_dir", str(folder / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # A step is so short that handing it to another thread does not pay.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    begin, step = (_path(folder, map_name, what) for what in ("begin", f"step-{copies}"))
    if not (begin.exists() and step.exists()):
        _trace(map_name, copies, begin, step)
    programs = [export.deserialize(bytearray(path.read_bytes())) for path in (begin, step)]
    arguments, _ = jax.tree.unflatten(programs[1].in_tree, programs[1].in_avals)
    return Programs(jax.jit(programs[0].call), jax.jit(programs[1].call), arguments[0])


def _trace(map_name: str, copies: int, begin: Path, step: Path) -> None:
    if find_spec("jaxmarl") is None:
        names = begin.parent.glob(_path(begin.parent, map_name, "step-*").name)
        there = sorted(int(path.stem.rpartition("-")[2]) for path in names)
        raise EnvironmentConfigError(
            f"environment smax/{map_name} is compiled for {there or 'no'} copies here, not for {copies}; set "
            "environment.envsPerActor to one of these, or in a checkout run pip install "
            "'./actor-image[smax,smax-source]'"
        )
    from nitro_actor.agents.smax.battle import functions

    first, next_ = functions(map_name)
    key = jax.ShapeDtypeStruct(_KEY, jnp.int32)
    state, shown = jax.eval_shape(first, key)
    every = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((copies, *leaf.shape), leaf.dtype), state)
    actions = jax.ShapeDtypeStruct((copies, *shown["alive"].shape), jnp.int32)
    begin.parent.mkdir(parents=True, exist_ok=True)
    _write(begin, export.export(jax.jit(first))(key).serialize())
    _write(step, export.export(jax.jit(jax.vmap(next_)))(every, actions).serialize())


def _write(path: Path, data: bytes | bytearray) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)


def _path(folder: Path, map_name: str, what: str) -> Path:
    """A program's file. Its name has a digest of the traced code, so that no program is out of date."""
    source = Path(__file__).with_name("battle.py").read_bytes() + jax.__version__.encode()
    return folder / f"{map_name}-{hashlib.sha256(source).hexdigest()[:12]}-{what}"


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(FOLDER) or Path(cache, "nitro", "smax"))
