"""Skeletons that were exported before: a process's first export takes seconds, so a skeleton is kept by the
digest of the module's source."""

from __future__ import annotations

import hashlib
import inspect
import os
import tempfile
from pathlib import Path

import torch
from torch import nn

from nitro_actor.protocol.agents import AgentClass
from nitro_api.spec.network import LogStd
from nitro_learner.networks.own import playing
from nitro_learner.networks.own import skeleton as own


def made(module: nn.Module, agents: AgentClass, key: str, *, log_std: LogStd, normalised: bool) -> bytes:
    """See `playing.made`. The skeleton may be one of an earlier export, which is tried like a new one.

    Args:
        key: what the module was made with.
    """
    shape, dtype = agents.observation["shape"], playing.seen_dtype(agents, normalised=normalised)
    own.check(module, shape, dtype, playing.outputs_of(agents.action, log_std))
    file = _file(module, f"{list(shape)} {dtype} {key}")
    if file is not None and file.is_file():
        skeleton = file.read_bytes()
        try:
            own.compare(module, skeleton, shape, dtype)
        except Exception:  # whatever it is: what is exported now is compared, too
            file.unlink(missing_ok=True)
        else:
            return skeleton
    skeleton = playing.made(module, agents, log_std=log_std, normalised=normalised)
    if file is not None:
        _keep(file, skeleton)
    return skeleton


def _file(module: nn.Module, inputs: str) -> Path | None:
    """The file of a module's skeleton; None where its source is not known, as in a notebook."""
    digest = hashlib.sha256(f"{torch.__version__} {own.OPSET} {inputs}".encode())
    classes = {made_of for part in module.modules() for made_of in type(part).__mro__}
    sources = set()
    for made_of in classes:
        if made_of.__module__.partition(".")[0] in ("torch", "builtins"):
            continue
        try:
            sources.add(inspect.getsourcefile(made_of))
        except TypeError:
            return None
    for source in sorted(source or "" for source in sources):
        try:
            digest.update(Path(source).read_bytes())
        except OSError:
            return None
    digest.update(repr(module).encode())
    for name, tensor in own.named_tensors(module).items():
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "nitro", "networks", f"{digest.hexdigest()}.onnx")


def _keep(file: Path, skeleton: bytes) -> None:
    """Write a file at once; one that cannot be written is exported again next time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as written:
            written.write(skeleton)
        Path(written.name).replace(file)
    except OSError:
        pass
