"""The subcommands of this package, as `nitro_learner.cli.commands` has its own."""

COMMANDS = {
    "experiment": "compare variants of a job over seeds at a matched budget",
    "detector": "how good the boosting detector was in a run",
    "landscape": "draw return and surrogate around a run's policy",
    "pretrain-scaler": "train the scaling agent of a job with scaler minionsrl",
}
LOADS = ("experiment", "landscape", "pretrain-scaler")
GO_ON = ("experiment", "pretrain-scaler")
