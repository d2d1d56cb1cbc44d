"""The probe: the job's own training for some seconds on this machine, with one actor and with more.

It is the training itself, in a folder that goes afterwards: its actors, learner, detector and evaluation take
what they take in a run. Only the numbers of actors are chosen, so that the model sees how times grow.
"""

import asyncio
import contextlib
import secrets
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from nitro_api import JobSpec, ResolvedJob
from nitro_api.costs.ledger import Ledger
from nitro_learner import scalers
from nitro_learner.backends.local import processes_of
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.scalers import Decision, RoundOutcome, Scaler
from nitro_learner.studies.planning.fitting import ObservedRound
from nitro_learner.training.builder import Sitting, make_backend
from nitro_learner.training.costs import Meter
from nitro_learner.training.round_report import Listener, RoundReport
from nitro_learner.training.trainer import Trainer

SECONDS = 30.0
"""A probe takes no longer."""
_REPEATS = 3
"""Rounds of each number of actors. They take turns, so that other work on the machine slows down all."""
_MOST_WAVES = 4
"""Rollouts of the largest round, over the processes of this machine."""


class ProbeFailed(Exception):  # noqa: N818
    """The probe has measured no round."""


@dataclass
class Probe(Listener):
    """What was measured.

    Args:
        processes: actors that work at a time.
        wanted: rounds after which it ends.

    Attributes:
        rounds: in order.
        start: seconds until the first round could begin.
        trainer: of the training.
    """

    processes: int
    wanted: int
    rounds: list[ObservedRound] = field(default_factory=list)
    start: float = 0.0
    trainer: Trainer | None = None
    _began: float = field(default_factory=time.monotonic)
    _worked: float = 0.0
    _detector: float = 0.0

    def on_run_started(self, **_: object) -> None:
        self.start = time.monotonic() - self._began

    def on_round_done(self, report: RoundReport) -> None:
        work, learned = report.counters.work, report.counters.learned
        played = work.seconds - self._worked - learned * report.seconds_actor
        evaluated = report.evaluation_mean is not None
        self._worked = work.seconds
        self.rounds.append(
            ObservedRound(
                actors=report.actors,
                learned=learned,
                seconds=report.seconds_total,
                sample=report.seconds_sample,
                update=report.seconds_update,
                detect=report.seconds_detect,
                evaluate=report.seconds_evaluate,
                actor=report.seconds_actor,
                detector=self._detector,
                evaluation=max(0.0, played) if evaluated else 0.0,
            )
        )
        self._detector = report.counters.detector_seconds or 0.0  # the next round has waited for it
        if len(self.rounds) == self.wanted and self.trainer is not None:
            self.trainer.interrupt("measured")


class _Sizes(Scaler):
    """The probe's numbers of actors, one after the other."""

    def __init__(self, spec: JobSpec, sizes: list[int]) -> None:
        super().__init__(spec)
        self.needs = scalers.make(spec).needs
        self._sizes = sizes

    @property
    def initial(self) -> int:
        return self._sizes[0]

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(self._sizes[min(outcome.round, len(self._sizes) - 1)])


def measure(job: ResolvedJob, seconds: float = SECONDS) -> Probe:
    """Train a resolved Local job for at most so many seconds.

    Raises:
        ProbeFailed: no round ended in that time.
        TrainingFailed: the environment does not work here, or the job does not fit it.
    """
    return asyncio.run(_measure(job, seconds))


async def _measure(job: ResolvedJob, seconds: float) -> Probe:
    most = job.spec.scaling.max_actors
    processes = processes_of(job.spec)
    numbers = sorted({1, min(processes, most), min(_MOST_WAVES * processes, most)})
    sizes = [numbers[0], *(_REPEATS * numbers), numbers[0]]
    job = _altered(job, every=len(sizes) - 1)
    probe = Probe(processes, len(sizes))
    run = secrets.token_hex(4)
    with (
        tempfile.TemporaryDirectory(prefix="nitro-plan-") as name,
        contextlib.closing(Ledger(Path(name) / "ledger.jsonl")) as ledger,
    ):
        backend = make_backend(job.spec, run, output=Path(name) / "actors.log")
        sitting = Sitting(job, run, CheckpointStore(Path(name) / "checkpoints", keep_last=1))
        probe.trainer = Trainer(
            sitting,
            backend,
            Meter(ledger, job.spec.pricing),
            listeners=[probe],
            scaler=_Sizes(job.spec, sizes),
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await probe.trainer.run()
    if not probe.rounds:
        raise ProbeFailed(
            f"no round of {sizes[0]} actor{'s' * (sizes[0] > 1)} ended within {seconds:.0f} s on this machine"
        )
    return probe


def _altered(job: ResolvedJob, every: int) -> ResolvedJob:
    """The job with its least number of actors at one, and without an end of its own."""
    spec = job.spec
    learner = spec.learner.model_copy(
        update={"checkpoint": spec.learner.checkpoint.model_copy(update={"every_rounds": 1_000_000})}
    )
    changes = {
        "scaling": spec.scaling.model_copy(update={"min_actors": 1, "initial_actors": 1}),
        "evaluation": spec.evaluation.model_copy(update={"every_rounds": every}),
        "stop": type(spec.stop)(rounds=max(spec.stop.rounds, 1000)),
        "learner": learner,
    }
    return job.model_copy(update={"spec": spec.model_copy(update=changes)})
