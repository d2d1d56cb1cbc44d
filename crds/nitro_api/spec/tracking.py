"""spec.tracking: where else a run is recorded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.base import Model, Name

WANDB_KEYS = ("WANDB_API_KEY",)
"""Entry of a Secret with the key of Weights & Biases."""
MLFLOW_KEYS = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
"""Entries of a Secret with credentials of an MLflow server: a name and a password, or a token."""
TRACKING_PREFIX = "NITRO_TRACKING_"
"""In a learner's pod the variables of these entries begin with it, so that no other program uses them."""


class WandbTracking(Model):
    """A run of Weights & Biases."""

    project: Annotated[str, Field(min_length=1, max_length=128)] = "nitro"
    """Project of the run; it is made if needed. Default: nitro."""

    entity: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """User or team that owns the project. Default: the default entity of the API key."""

    mode: Literal["online", "offline"] = "online"
    """`online`: the run goes to the server as it trains. `offline`: it goes into the run's folder, from where
    `wandb sync` uploads it. WANDB_MODE and W&B's own settings on the machine can only let less go out.
    Default: online."""

    credentials_secret: Name | None = None
    """On a cluster: Secret of the job's namespace with WANDB_API_KEY. Default: none, which is enough for
    `mode: offline`; on one machine WANDB_API_KEY, or what `wandb login` has stored."""


class MlflowTracking(Model):
    """A run of MLflow."""

    tracking_uri: Annotated[str, Field(min_length=9, max_length=512)]
    """A tracking server, such as https://mlflow.example.com, or a file store: file:///FOLDER. On a cluster
    the folder must be on a volume of spec.learner.volumes."""

    experiment: Annotated[str, Field(min_length=1, max_length=250)] = "nitro"
    """Experiment of the run; it is made if needed. Default: nitro."""

    credentials_secret: Name | None = None
    """On a cluster: Secret of the job's namespace with MLFLOW_TRACKING_TOKEN, or with
    MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD. Default: none; on one machine the variables of
    these names."""


class Tracking(Model):
    """Experiment trackers that a run is recorded in, besides its own folder. What fails there never stops the
    training."""

    wandb: WandbTracking | None = None
    """Weights & Biases. Default: none."""

    mlflow: MlflowTracking | None = None
    """MLflow. Default: none."""
