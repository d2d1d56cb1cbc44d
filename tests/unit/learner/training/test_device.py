"""What a learner computes on: the choice, a GPU that is not there, a GPU whose memory is full, and a run that
goes on elsewhere.

No GPU is needed: PyTorch's view of the machine is replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from memory_backend import MemoryBackend
from nitro_api import JobInvalid, load_job, resolve
from nitro_api.costs.ledger import Ledger
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.boosting.detector import Detector
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.training import builder
from nitro_learner.training.builder import Sitting
from nitro_learner.training.costs import Meter
from nitro_learner.training.device import device_name, torch_device
from nitro_learner.training.failures import TrainingFailed
from nitro_learner.training.trainer import Trainer
from train_support import job

SMALL: dict[str, Any] = {
    "environment": {"id": "Walk-v0", "entryPoint": "actor_support:Walk", "rolloutLength": 24},
    "algorithm": {"hyperparameters": {"epochs": 1, "minibatchSize": 24}},
    "network": {"hiddenSizes": [8]},
    "evaluation": {"episodes": 2, "everyRounds": 2},
    "stop": {"rounds": 3},
}
CARD = "NVIDIA H200"


def see(monkeypatch: pytest.MonkeyPatch, *, gpus: int, cuda: str | None = "13.0") -> None:
    """Have PyTorch see so many GPUs, in a build for this CUDA."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: CARD)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("wanted", "gpus", "device", "name"),
    [
        ("auto", 1, "cuda", CARD),
        ("auto", 0, "cpu", "cpu"),
        ("cpu", 1, "cpu", "cpu"),
        ("cpu", 0, "cpu", "cpu"),
        ("cuda", 1, "cuda", CARD),
    ],
)
def test_the_job_chooses_the_device(
    wanted: str, gpus: int, device: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(monkeypatch, gpus=gpus)
    assert (torch_device(wanted), device_name(wanted)) == (device, name)


@pytest.mark.parametrize(
    ("cuda", "hidden", "told"),
    [
        (None, None, "a CPU build, sees 0 GPUs; install torch with CUDA, or"),
        ("13.0", None, "built for CUDA 13.0, sees 0 GPUs; see whether nvidia-smi lists a GPU, or"),
        ("13.0", "", "sees 0 GPUs (CUDA_VISIBLE_DEVICES is ''); see"),
    ],
)
def test_a_gpu_that_is_not_there_is_an_error_with_what_torch_sees(
    cuda: str | None, hidden: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(monkeypatch, gpus=0, cuda=cuda)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    with pytest.raises(JobInvalid) as refused:
        torch_device("cuda")
    message = str(refused.value)
    assert message.startswith(f'spec.learner.device: "cuda"; torch {torch.__version__}, ')
    assert told in message
    assert "--set spec.learner.device=cpu" in message
    assert "request a GPU in spec.learner.resources" in message


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Any]:
    """Train the small job, with these changes, from its newest checkpoint on."""

    async def run(**spec: Any) -> None:
        resolved = resolve(load_job(job(**(SMALL | spec))))
        store = CheckpointStore(tmp_path / "checkpoints", keep_last=100)
        with Ledger(tmp_path / "ledger.jsonl") as ledger:
            sitting = Sitting(resolved, "run", store, store.latest())
            meter = Meter(ledger, resolved.spec.pricing)
            await Trainer(sitting, MemoryBackend(resolved.spec), meter).run()

    return run


def full(*_: Any, **__: Any) -> Any:
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which "
        "1.20 GiB is free. Including non-PyTorch memory, this process has 530.00 MiB memory in use."
    )


@pytest.mark.parametrize(
    ("owner", "method", "spec", "what"),
    [
        (PolicySet, "update", {}, "the update of round 1 with 72 transitions"),
        (
            PolicySet,
            "take",
            {"algorithm": {"name": "impact", "hyperparameters": {"batchSize": 24, "minibatchSize": 24}}},
            r"the update of round 1 with (24|48|72) transitions",
        ),
        (Detector, "measure", {}, "the detector"),
        (builder.registry, "make_policies", {}, "what is learned"),
    ],
)
async def test_what_does_not_fit_into_the_gpu_is_named_with_the_remedy(
    owner: Any,
    method: str,
    spec: dict[str, Any],
    what: str,
    train: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, method, full)
    memory = r"\(CUDA out of memory\. .* of which 1\.20 GiB is free\)\."
    with pytest.raises(
        TrainingFailed, match=f"^{what} does not fit into the GPU's memory {memory}"
    ) as failed:
        await train(**spec)
    message = str(failed.value)
    assert "resume with spec.learner.device: cpu" in message
    for setting in ("spec.scaling.maxActors", "spec.environment.rolloutLength", "minibatch"):
        assert setting in message
    assert not failed.value.resumable, "the next try would find it full, too"


def moved(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of another device."""
    return [message for message in caplog.messages if message.startswith("The run was computed on")]


@pytest.mark.parametrize("device", ["auto", "cpu"])
async def test_a_run_that_continues_on_another_device_is_warned_about_once(
    device: str,
    train: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(builder, "device_name", lambda _: CARD)
        await train(stop={"rounds": 1})
        await train(stop={"rounds": 2})
        assert moved(caplog) == [], "it went on where it was"
    with caplog.at_level(logging.WARNING):
        await train(stop={"rounds": 3}, learner={"device": device})
    (warning,) = moved(caplog)
    assert warning.startswith(f"The run was computed on {CARD} and continues on cpu: results may differ")
    assert warning.endswith(" Give --set spec.learner.device=cpu to keep it here.") is (device == "auto")
    caplog.clear()
    await train(stop={"rounds": 4}, learner={"device": device})
    assert moved(caplog) == []


async def test_a_run_of_a_gpu_is_refused_without_one_where_the_job_says_cuda(
    train: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(builder, "device_name", lambda _: CARD)
        await train(stop={"rounds": 1})
    see(monkeypatch, gpus=0)
    with pytest.raises(JobInvalid, match=r"--set spec\.learner\.device=cpu"):
        await train(stop={"rounds": 2}, learner={"device": "cuda"})
