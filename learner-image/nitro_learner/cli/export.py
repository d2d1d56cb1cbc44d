"""Write a run's policy as files for other programs: ONNX, torch.export, safetensors, or a folder for the
Hugging Face Hub with a model card.

Normalisation, agent ids and bounds of actions are inside ONNX and torch files: they take observations as the
environment gives them. Of several agents there is a file for each.

examples:
  nitro export runs/hopper-20260101-120000 --format onnx
  nitro export runs/hopper-20260101-120000 --format torch --checkpoint 120 --out hopper/
  nitro export runs/hopper-20260101-120000 --format onnx --best
  nitro export s3://bucket/runs/hopper-1a2b --format safetensors --out hopper/
  nitro export runs/hopper-20260101-120000 --format hub --out hopper/
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from nitro_learner.cli.common import (
    add_checkpoint,
    checkpoint_of,
    policy_loaded,
    some_path,
    some_text,
    writing,
)
from nitro_learner.cli.exits import DONE, FAILED, CommandError

if TYPE_CHECKING:
    from nitro_learner.api.policy import TrainedPolicy
    from nitro_learner.api.run import Run

_FORMATS = ("onnx", "torch", "safetensors", "hub")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=some_text, help="run folder, checkpoint file, or s3://BUCKET/PREFIX/RUN")
    parser.add_argument("--format", choices=_FORMATS, required=True, help="kind of files")
    add_checkpoint(parser, " of a run folder")
    parser.add_argument(
        "--out",
        type=some_path,
        metavar="DIR",
        help="folder of the files, made if needed; default: export in the run folder",
    )


def run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.run)
    in_folder = folder.is_dir()
    if not in_folder:
        if not folder.exists() and not arguments.run.startswith("s3://"):
            raise CommandError(
                f"{arguments.run} does not exist; name a run folder, or a checkpoint file of it"
            )
        if arguments.format == "hub":
            raise CommandError(
                f"{arguments.run}: --format hub needs a run folder, for the job and the returns of the card"
            )
        if arguments.checkpoint is not None:
            raise CommandError("--checkpoint needs a run folder; name the checkpoint's file instead of it")
        if arguments.out is None:
            raise CommandError("--out is needed, because what you name is no run folder")
    out: Path = arguments.out or folder / "export"
    from nitro_learner.api.loading import load
    from nitro_learner.api.run import Run
    from nitro_learner.run.rundir import RunDir

    trained = Run(folder) if arguments.format == "hub" else None
    source, best = arguments.run, arguments.best
    if in_folder and (file := checkpoint_of(RunDir(folder), arguments.checkpoint, best=best)):
        source, best = file, False
    with policy_loaded():
        files = _files(load(source, best=best), arguments.format, trained)
    for name, data in files.items():
        path = out / name
        with writing("--out", path, "Name a folder that you may write."):
            _write(path, data)
        print(path)
    return DONE


def _files(policy: TrainedPolicy, format: str, run: Run | None) -> dict[str, bytes]:
    """The files of a format by name; `hub` needs the run."""
    from nitro_actor import onnx
    from nitro_api.errors import installing
    from nitro_learner.api.loading import write_exported
    from nitro_learner.run.policy_file import EXPORTED

    if format == "safetensors":
        return {EXPORTED: write_exported(policy)}
    if any(weights.network["kind"] == onnx.KIND for weights in policy.weights.policies.values()):
        raise CommandError(
            f"--format {format} is not for a network of your own (spec.network.entryPoint); take "
            "safetensors, which nitro.load and nitro serve play"
        )
    try:
        from nitro_learner.deployment.export.hub import as_hub
        from nitro_learner.deployment.export.networks import as_onnx, as_torch

        if run is not None:
            return as_hub(policy, run)
        return as_onnx(policy) if format == "onnx" else as_torch(policy)
    except ImportError as error:
        raise CommandError(
            f"--format {format} needs the package {error.name}: {installing('train', 'export')}", FAILED
        ) from None


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
