"""The device that a learner computes on: what spec.learner.device says, and what PyTorch sees here."""

import contextlib
import os
from collections.abc import Iterator

import torch

from nitro_api import FieldError, JobInvalid


class GpuFull(Exception):  # noqa: N818
    """A computation does not fit into the GPU's memory. The message says which, and what helps."""


def torch_device(wanted: str) -> str:
    """The torch device for spec.learner.device: "cuda" or "cpu".

    Raises:
        JobInvalid: a GPU is wanted, and PyTorch sees none.
    """
    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise JobInvalid([FieldError("spec.learner.device", wanted, _no_gpu())])
    return "cpu"


def device_name(wanted: str) -> str:
    """What a learner with this spec.learner.device computes on here: a GPU's name, such as "NVIDIA H100", or
    "cpu"."""
    return "cpu" if wanted == "cpu" or not torch.cuda.is_available() else torch.cuda.get_device_name()


@contextlib.contextmanager
def fitting(what: str) -> Iterator[None]:
    """Raise GpuFull where the block, which computes `what`, finds the GPU's memory full."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        told = str(error).partition(" Including ")[0].rstrip(".")
        raise GpuFull(
            f"{what} does not fit into the GPU's memory ({told}). To go on from the last checkpoint on the "
            "CPU, resume with spec.learner.device: cpu. A new run needs less with fewer actors "
            "(spec.scaling.maxActors), a smaller spec.environment.rolloutLength or a smaller minibatch."
        ) from error


def _no_gpu() -> str:
    """Why no GPU can be used: what PyTorch sees, and what to do."""
    build, remedy = "a CPU build", "install torch with CUDA"
    if torch.version.cuda:
        build, remedy = f"built for CUDA {torch.version.cuda}", "see whether nvidia-smi lists a GPU"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    seen = f"sees {torch.cuda.device_count()} GPUs"
    if hidden is not None:
        seen += f" (CUDA_VISIBLE_DEVICES is {hidden!r})"
    return (
        f"torch {torch.__version__}, {build}, {seen}; {remedy}, or train on the CPU by "
        "--set spec.learner.device=cpu; on a cluster suspend the job, and request a GPU in "
        "spec.learner.resources or set the device to cpu"
    )
