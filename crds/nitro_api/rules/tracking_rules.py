"""Rules of spec.tracking."""

from __future__ import annotations

from nitro_api.base import declare, matching
from nitro_api.spec.tracking import MlflowTracking, WandbTracking

_PROJECT = "^[^/\\\\#?%:]+$"
# No user and password: the job is recorded itself, and whoever may read jobs reads it.
_URI = "^(file:///[^?#]+|https?://[^/@?#]+(/[^@?#]*)?)$"

declare(
    WandbTracking,
    matching("project", _PROJECT, "must have none of / \\ # ? % : as W&B names projects; remove them"),
)
declare(
    MlflowTracking,
    matching(
        "trackingUri",
        _URI,
        "must be a tracking server or a file store, without credentials; write it as "
        "https://mlflow.example.com or file:///mlflow",
    ),
)
