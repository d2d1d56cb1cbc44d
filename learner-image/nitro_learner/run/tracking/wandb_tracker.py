"""Weights & Biases: a run on its server, or in files that `wandb sync` uploads later."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nitro_learner.run.tracking.base import MeasuredRound, TrackedRun

if TYPE_CHECKING:
    import wandb

_INIT_SECONDS = 30.0
_SILENCE = ("online", "offline", "disabled")
"""The modes, the more silent the later."""
_OTHER_NAMES = {"dryrun": "offline", "run": "online", "shared": "online"}
"""Modes that mean one of them; `shared` is for several writers, which a run has not."""


class WandbTracker:
    """A run of W&B; see `Tracker`.

    W&B takes steps in rising order only, so the server's last step says what is recorded. Files cannot be
    gone on with: an offline run is written anew from its first round, and then takes the place of the files
    that earlier sittings left.

    Of the job's mode and the one that W&B's own settings name on this machine (WANDB_MODE, `wandb offline`,
    `wandb disabled`), that counts which lets less go out.
    """

    def __init__(self, run: TrackedRun) -> None:
        self._run = run
        folder = run.folder / "wandb"
        # Files of artefacts wait there for `wandb sync`.
        os.environ.setdefault("WANDB_DATA_DIR", str(folder))
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        self._former = sorted(folder.glob(f"offline-run-*-{run.id}"))
        self._wandb: wandb.Run | None = None
        self._first_step = 0

    def open(self) -> str:
        import wandb  # takes seconds

        run = self._run
        modes = (run.settings["mode"], _OTHER_NAMES.get(own := wandb.setup().settings.mode, own))
        mode = max(modes, key=_SILENCE.index)
        if mode == "disabled":
            return "nowhere, because W&B is disabled here (by WANDB_MODE or its settings)"
        self._wandb = wandb.init(
            project=run.settings["project"],
            entity=run.settings.get("entity"),
            id=run.id,
            name=run.name,
            config={"job": dict(run.config), "versions": dict(run.tags)},
            tags=[f"{name} {value}"[:64] for name, value in run.tags.items()],
            mode=mode,
            dir=str(run.folder),
            resume=None if mode == "offline" else "allow",
            settings=wandb.Settings(
                console="off",
                disable_git=True,
                init_timeout=_INIT_SECONDS,
                save_code=False,
                silent=True,
                x_stats_pid=run.learner,
            ),
        )
        self._first_step = self._wandb.step
        return self._wandb.url or str(Path(self._wandb.dir).parent)

    def record(self, measured: MeasuredRound) -> None:
        if self._wandb is not None and measured.step >= self._first_step:
            # W&B gives a point the time at which it is sent, unless it has one of its own.
            self._wandb.log({**measured.values, "_timestamp": measured.time}, step=measured.step)

    def finish(self, status: str, figures: Mapping[str, float], files: Sequence[Path]) -> None:
        import wandb

        if self._wandb is None:
            return
        self._wandb.summary.update(dict(figures))
        if files:
            policy = wandb.Artifact(f"{self._run.name}-policy", type="model")
            for file in files:
                policy.add_file(str(file))
            self._wandb.log_artifact(policy)
        self._wandb.finish(exit_code=1 if status == "FAILED" else 0)
        for folder in self._former:
            shutil.rmtree(folder, ignore_errors=True)

    def abandon(self) -> None:
        import wandb

        # Not only the run: W&B's own process keeps one that could not begin, and refuses it another time.
        wandb.teardown(exit_code=1)
