"""The subcommands of this package.

Another package adds subcommands by an entry point of the group `nitro.commands`. It names a module like this
one: with COMMANDS, LOADS and GO_ON, and beside it a module for each subcommand.
"""

# Name and one-line help are here so that `nitro --help` imports no subcommand.
COMMANDS = {
    "train": "train a job on this machine",
    "plan": "how long a job takes, what it costs, and with how many actors",
    "profile": "measure one actor of a job: its size on Lambda and Knative",
    "validate": "check a job file and show it with all defaults",
    "check-env": "check an environment before a training",
    "init": "write a folder to start from: a part of your own and its job",
    "code": "pack your Python files into a ConfigMap for jobs of a cluster",
    "explain": "documentation of a job's fields",
    "submit": "check a job and have a cluster train it",
    "follow": "the rounds of a cluster's job as they end",
    "top": "all jobs of a cluster, live",
    "report": "a run's job, plots and costs as one HTML file",
    "plot": "draw one run, or compare several",
    "evaluate": "play episodes with a trained policy",
    "export": "write a run's policy as ONNX, torch.export, safetensors or a Hugging Face folder",
    "serve": "serve a trained policy over HTTP",
    "learn": "train the job of this pod (run by the operator)",
}

LOADS = ("train", "evaluate", "export", "serve", "plan", "profile")
"""Commands that import for seconds before they say anything of their own."""
GO_ON = ("train", "learn", "serve")
"""Commands that work on where nobody reads what they print. What others print is what they are for."""
EXPERIMENTS = ("experiment", "detector", "landscape", "pretrain-scaler")
"""Commands of the package nitro-experiments. They are named here for whoever calls one without it."""

# What asks a cluster, or nobody: it works where nothing that trains is installed.
KUBECTL = ("submit", "follow", "top", "report", "validate", "code", "explain")
