"""The `nitro` command: one module for each subcommand.

A module is imported only when its subcommand runs: validate and explain need no torch.

A subcommand's module has a docstring (its help, with examples), `add_arguments(parser)` and `run(arguments)
-> exit code`. This module imports next to nothing, so that Ctrl-C is in hand before anything slow begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nitro_learner.cli import interrupts

# Name and one-line help are here so that `nitro --help` imports no subcommand.
COMMANDS = {
    "train": "train a job on this machine",
    "profile": "measure one actor of a job: its size on Lambda and Knative",
    "validate": "check a job file and show it with all defaults",
    "check-env": "check an environment before a training",
    "explain": "documentation of a job's fields",
    "top": "all jobs of a cluster, live",
    "report": "a run's job, plots and costs as one HTML file",
    "plot": "draw one run, or compare several",
    "experiment": "compare variants of a job over seeds at a matched budget",
    "detector": "how good the boosting detector was in a run",
    "landscape": "draw return and surrogate around a run's policy",
    "evaluate": "play episodes with a trained policy",
    "export": "write a run's policy as ONNX, torch.export, safetensors or a Hugging Face folder",
    "serve": "serve a trained policy over HTTP",
    "pretrain-scaler": "train the scaling agent of a job with scaler minionsrl",
    "learn": "train the job of this pod (run by the operator)",
}

# What asks a cluster, or nobody: it works where nothing that trains is installed.
KUBECTL = ("top", "report", "validate", "explain")


def kubectl() -> int:
    """`kubectl nitro`: kubectl finds the program kubectl-nitro on the PATH."""
    return main(prog="kubectl nitro", commands={name: COMMANDS[name] for name in KUBECTL})


def main(
    argv: Sequence[str] | None = None, *, prog: str = "nitro", commands: Mapping[str, str] = COMMANDS
) -> int:
    """Run a command line and return its exit code."""
    with interrupts.at_once():
        from nitro_learner.cli import program

        return program.run(argv, prog=prog, commands=commands)
