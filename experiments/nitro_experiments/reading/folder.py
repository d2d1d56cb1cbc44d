"""The folder of an experiment: experiment.yaml, machine.json, and a run folder for each run below runs/."""

from __future__ import annotations

import json
import platform
import shutil
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nitro_actor.processor import cores
from nitro_api import ResolvedJob
from nitro_experiments.planning.controls import actors_of, mean_profile, permuted, with_schedule
from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.planning.spec import Experiment
from nitro_learner.run import folders
from nitro_learner.run.metrics_file import read_metrics
from nitro_learner.run.rundir import EXPERIMENT, RunDir, RunDirError, write_text
from nitro_learner.run.runs import package_versions
from nitro_learner.run.same_job import check_same_job, check_same_schedule
from nitro_learner.scalers.predetermined import scheduled
from nitro_learner.training.device import device_name


class ExperimentDir:
    """Paths of an experiment and what is written to them.

    Args:
        path: the folder; made by `open`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = path / EXPERIMENT
        self.machine = path / "machine.json"
        self.seeds = path / "seeds.json"
        self.report = path / "report.md"
        self.report_page = path / "report.html"
        self.search = path / "search.db"
        self.trials = path / "trials.csv"
        self._identity = path / ".identity"
        self._adding = threading.Lock()

    def run(self, run: PlannedRun) -> RunDir:
        return RunDir(self.path / run.folder)

    def check_ours(self) -> None:
        """Make sure that the experiment overwrites no other files.

        Raises:
            RunDirError: the folder holds something other than an experiment.
        """
        # A copy of a folder may lack its mark, which is a hidden file.
        ours = folders.is_marked(self.path) or (self.spec.exists() and self.machine.exists())
        if not ours and (names := folders.contents(self.path)):
            raise RunDirError(
                f"{self.path} holds something that is no experiment of nitro ({folders.shown(names)}). "
                "Nothing was changed. Choose another folder, which is new or empty."
            )

    def open(self, experiment: Experiment) -> None:
        """Make the folder and write down the experiment.

        Raises:
            RunDirError: the folder holds something else.
        """
        # The seeds are written first: a kill may have left them alone.
        others = [
            path for path in self.path.glob("*") if not path.name.startswith(".") and path != self.seeds
        ]
        if others and not self.spec.exists():
            raise RunDirError(f"{self.path} holds something that is no experiment. Choose another --dir.")
        name = self._name()
        if name not in (None, experiment.name):
            raise RunDirError(f"{self.path} holds the experiment {name}. Choose another --dir.")
        history = self.seed_history()
        self.path.mkdir(parents=True, exist_ok=True)
        if not history or history[-1]["seeds"] != experiment.seeds:
            ended = sum(
                bool(RunDir(summary.parent).read_summary().get("finished"))
                for summary in self.path.glob("runs/*/*/*/summary.json")
                if not summary.parent.name.startswith(".")  # hidden: half copied
            )
            history = [*(history if ended else []), {"seeds": experiment.seeds, "ended": ended}]
            write_text(self.seeds, json.dumps(history, indent=2) + "\n")
        write_text(self.spec, experiment.to_yaml())

    def identity(self) -> str:
        """What tells this folder's jobs on a cluster from those of other folders. It is made when it is first
        asked for."""
        if not self._identity.exists():
            write_text(self._identity, f"{uuid.uuid4().hex}\n")
        return self._identity.read_text(encoding="utf-8").strip()

    def add_machine(self, entry: Mapping[str, Any]) -> None:
        """Write down what trained runs: this machine (`machine`) or a cluster.

        Raises:
            RunDirError: machine.json is damaged.
        """
        with self._adding:  # several runs of a cluster can end at the same time
            if entry not in (known := self.machines()):
                write_text(self.machine, json.dumps([*known, entry], indent=2) + "\n")

    def machines(self) -> list[dict[str, Any]]:
        """All machines and clusters that worked on the experiment.

        Raises:
            RunDirError: machine.json is damaged.
        """
        return _entries(self.machine)

    def seed_history(self) -> list[dict[str, Any]]:
        """The seeds that the experiment's file had before any run had ended, and each time that they changed
        later.

        Each has `seeds`, and `ended`: how many runs had ended by then.

        Raises:
            RunDirError: seeds.json is damaged.
        """
        return _entries(self.seeds)

    def _name(self) -> str | None:
        """Name of the experiment in the folder; None where there is none, or its file cannot be read."""
        try:
            content = yaml.safe_load(self.spec.read_text(encoding="utf-8"))
        except (FileNotFoundError, UnicodeDecodeError, yaml.YAMLError):
            content = None
        return content.get("name") if isinstance(content, dict) else None

    def finished(self, run: PlannedRun) -> bool:
        """Whether the run has reached its budget.

        Raises:
            RunDirError: its folder holds a run of another job, or one that cannot go on to another budget, or
                is damaged.
        """
        folder = self.run(run)
        if not (folder.has_run() and folder.job.exists()):
            return False
        if not all(map(self.finished, run.sources)):
            return False
        job = self._job(run)
        saved, now = folder.read_job(), job.to_dict()
        if run.control and saved["spec"]["scaling"].get("schedule") != now["spec"]["scaling"]["schedule"]:
            return False
        check_same_job(saved, now, folder.path)
        check_same_schedule(saved, job, folder)
        if not folder.summary.exists() or saved["spec"].get("stop") != now["spec"]["stop"]:
            return False
        return bool(folder.read_summary().get("finished"))

    def prepare(self, run: PlannedRun) -> RunDir:
        """The run's folder, ready for `nitro train --resume`, which starts or goes on.

        A control starts anew if it has begun with other actors than its sources now give: other seeds, or a
        larger budget, can change the actors of earlier rounds too.

        Raises:
            RunDirError: the source of a control has no usable metrics.csv.
        """
        folder, job = self.run(run), self._job(run)
        if run.control:
            old = folder.path.with_name(f".{folder.path.name}.old")
            shutil.rmtree(old, ignore_errors=True)  # of a removal that was killed
            schedule = job.spec.scaling.schedule or []
            begun = folder.has_run() and folder.job.exists()
            if begun and not (_began_with(folder, schedule) and _has_played(folder, schedule)):
                folder.path.rename(old)  # at once: after a kill, half of a run would be taken for one
                shutil.rmtree(old)
        folders.mark(folder.path)
        # An old summary is that of a smaller budget or of an interruption. Beside the new job it would look
        # like the end of that job's run.
        folder.summary.unlink(missing_ok=True)
        write_text(folder.job, job.to_yaml())
        return folder

    def _job(self, run: PlannedRun) -> ResolvedJob:
        """The run's job. A control, whose sources have ended, gets its schedule from their actors."""
        if run.control is None:
            return run.job
        profiles = [actors_of(self.run(source).metrics) for source in run.sources]
        if run.control == "replayed":
            schedule = mean_profile(profiles)
        else:
            schedule = permuted(profiles[0], run.sources[0].job.spec.scaling.window, run.seed)
        return with_schedule(run.job, schedule)


def _began_with(folder: RunDir, schedule: Sequence[int]) -> bool:
    """Whether the schedule of the folder's job is the beginning of this one."""
    begun = folder.read_job()["spec"]["scaling"].get("schedule", [])
    return bool(begun == list(schedule[: len(begun)]))


def _has_played(folder: RunDir, schedule: Sequence[int]) -> bool:
    """Whether the rounds so far had the schedule's actors. Where rounds are cheaper than those of its source,
    a control can have more rounds than its schedule, whose last entry then holds."""
    rows = read_metrics(folder.metrics) if folder.metrics.exists() else []
    return all(int(row["actors"] or 0) == scheduled(schedule, k) for k, row in enumerate(rows))


def _entries(path: Path) -> list[dict[str, Any]]:
    """The list in a JSON file of the folder; empty where there is none."""
    if not path.exists():
        return []
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunDirError(f"{path} is damaged: {error}. Remove it.") from None
    return entries


def machine(device: str = "auto") -> dict[str, Any]:
    """What results depend on besides the job: processor, cores, GPU, and versions of the libraries.

    Args:
        device: spec.learner.device.
    """
    gpu = device_name(device)
    return {
        "processor": _processor(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        **({"gpu": gpu} if gpu != "cpu" else {}),
        "python": platform.python_version(),
        "versions": package_versions(),
    }


def _processor() -> str:
    """The processor's name; on Linux the platform module has none."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
