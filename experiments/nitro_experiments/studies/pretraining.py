"""Pre-training of MinionsRL's scaling agent: each episode is a whole training run of the job."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from nitro_api import JobSpec, Ledger, ResolvedJob
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.run.check_listener import CheckListener
from nitro_learner.run.folders import held_beside
from nitro_learner.run.metrics_file import read_numbers
from nitro_learner.run.recorders import CsvMetrics
from nitro_learner.run.same_job import deciding
from nitro_learner.run.session import Aborted, signals
from nitro_learner.scalers.agent import AgentError, Choice, ScalingAgent, Spent, features
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler
from nitro_learner.training.builder import Sitting, make_backend
from nitro_learner.training.costs import Meter
from nitro_learner.training.drafting import columns_of
from nitro_learner.training.round_report import Listener, Outcome, RoundReport
from nitro_learner.training.trainer import Trainer
from nitro_learner.training.waiting import Interrupted

_JOB = "job"
"""Key of an agent's task under which the other fields of the job are that decide a training run."""

_TOLD_APART = frozenset(
    {
        "environment.id",
        "algorithm.preset",
        "seed",
        "scaling.minActors",
        "scaling.maxActors",
        "scaling.agent",  # the file itself, which may be moved
    }
)
"""Fields that are not under that key: the task, or the agent, has them by another name."""


class Explorer(Scaler):
    """A scaler with an agent that learns: it draws the agent's choices, and keeps them.

    Attributes:
        choices: those made after the rounds so far. The last one is for a round that may never come.
        seconds: wall time of the rounds so far.
    """

    def __init__(self, spec: JobSpec, agent: ScalingAgent, generator: np.random.Generator) -> None:
        super().__init__(spec)
        assert spec.stop.budget_dollars, "the job's validation asks for it"
        self._budget = spec.stop.budget_dollars
        self._agent = agent
        self._generator = generator
        self.choices: list[Choice] = []
        self.seconds: list[float] = []

    def decide(self, outcome: RoundOutcome) -> Decision:
        choice = self._agent.sample(features(outcome, self._budget), self._generator)
        self.choices.append(choice)
        self.seconds.append(outcome.seconds)
        return Decision(self._agent.actors(choice.index))


@dataclass(frozen=True)
class Episode:
    """A training run, as the agent saw it.

    Attributes:
        choices: one for each round after the first.
        rewards: the reward that followed each choice.
        best: highest mean return of an evaluation.
        actors: of each round.
        spent: what the episode cost, including attempts that a crash or an interruption ended.
    """

    choices: Sequence[Choice]
    rewards: Sequence[float]
    best: float
    actors: Sequence[int]
    spent: Spent


class _ReportCollector(Listener):
    """Collect the values that an episode's rewards need."""

    def __init__(self) -> None:
        self.reports: list[RoundReport] = []

    def on_round_done(self, report: RoundReport) -> None:
        self.reports.append(report)

    def best(self, outcome: Outcome) -> float:
        """Highest mean return of an evaluation, or of the training episodes where no evaluation succeeded."""
        played = [fmean(outcome.evaluation)] if outcome.evaluation else []
        played += [report.evaluation_mean for report in self.reports if report.evaluation_mean is not None]
        played = played or [report.reward_mean for report in self.reports if report.reward_mean is not None]
        return max(played, default=0.0)


def rewards(seconds: Sequence[float], best: float, target: float, beta: float) -> list[float]:
    """MinionsRL's rewards for the decisions after rounds 1 to K - 1.

    Each is -beta P_k, where k is the round that was decided on. The last one also has best - target, unless
    the target was reached.

    Args:
        seconds: P_1 to P_K, the wall times of the rounds.
        best: highest mean return of an evaluation.
        target: spec.stop.targetReward.
        beta: return that a second of training is worth.
    """
    result = [-beta * duration for duration in seconds[1:]]
    if result:
        result[-1] += min(0.0, best - target)
    return result


def pretrain(
    job: ResolvedJob,
    episodes: int,
    *,
    beta: float,
    done: Callable[[int, Episode], None] = lambda *_: None,
    warn: Callable[[], None] = lambda: None,
) -> ScalingAgent:
    """Train the agent of `spec.scaling.agent` until it has learned from so many episodes.

    The agent is written to its file after each episode. An agent that is in the file goes on learning.

    Args:
        job: resolved, with scaler `minionsrl` and backend Local.
        episodes: in all, those of earlier calls included.
        beta: return that a second of training is worth.
        done: called with the number of every episode that ended.
        warn: called when a signal asks for an end.

    Raises:
        AgentError: the file holds another agent, or another process pre-trains this one.
        Interrupted: a signal came. The earlier episodes are in the file.
        Aborted, TrainingFailed, CheckpointError, OSError
    """
    spec = job.spec
    assert spec.scaling.agent, "the job's validation asks for it"
    path = Path(spec.scaling.agent)
    busy = AgentError(
        path, "is being pre-trained by another nitro process; wait for it, or name another file"
    )
    with held_beside(path, busy):
        agent = _open(path, spec, beta)
        _clear(_folder(path, agent.episodes))
        while agent.episodes < episodes:
            number = agent.episodes + 1
            folder = _folder(path, number)
            episode = asyncio.run(_play(job, agent, number, folder, beta, warn))
            agent.learn(episode.choices, episode.rewards)
            agent.spent += episode.spent
            agent.save(path)
            # Not earlier: if this process dies before, the next call counts what the folder's attempts cost.
            _clear(folder)
            done(number, episode)
    return agent


def _open(path: Path, spec: JobSpec, beta: float) -> ScalingAgent:
    """The agent in the file, if it is this job's; a new agent where there is no file."""
    range_ = {"minActors": spec.scaling.min_actors, "maxActors": spec.scaling.max_actors}
    task: dict[str, Any] = {
        "environment": spec.environment.id,
        "preset": spec.algorithm.preset,
        "targetReward": spec.stop.target_reward,
        "budgetDollars": spec.stop.budget_dollars,
        "beta": beta,
    }
    fields = {path: value for path, value in deciding(spec.to_dict()).items() if path not in _TOLD_APART}
    full_task = task | {_JOB: fields}
    if not path.exists():
        return ScalingAgent(spec.scaling.min_actors, spec.scaling.max_actors, task=full_task, seed=spec.seed)
    agent = ScalingAgent.load(path)
    before = agent.task | {"minActors": agent.fewest, "maxActors": agent.most, "seed": agent.seed}
    now = task | range_ | {"seed": spec.seed}
    before |= {f"spec.{name}": value for name, value in before.pop(_JOB, {}).items()}
    now |= {f"spec.{name}": value for name, value in fields.items()}
    differing = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    if differing:
        what = ", ".join(f"{name} ({before.get(name)!r}, now {now.get(name)!r})" for name in differing)
        raise AgentError(path, f"holds the agent of another task: {what}; choose another file")
    agent.task = full_task
    return agent


async def _play(
    job: ResolvedJob,
    agent: ScalingAgent,
    number: int,
    folder: Path,
    beta: float,
    warn: Callable[[], None],
) -> Episode:
    """One training run with the agent's sampled choices."""
    target = job.spec.stop.target_reward
    assert target is not None, "the job's validation asks for it"
    job = job.model_copy(deep=True)
    source = np.random.SeedSequence([job.spec.seed, number])
    job.spec.seed = int(source.generate_state(1)[0])
    explorer = Explorer(job.spec, agent, np.random.default_rng(source))
    collector = _ReportCollector()
    attempt = _attempt(folder)
    run = f"pretraining-{number}"
    # An episode begins with policies that know nothing; the first one says how the environment fits.
    fits = [CheckListener(None, job.spec, new=True)] if number == 1 else []
    with Ledger(attempt / "ledger.jsonl") as ledger:
        trainer = Trainer(
            Sitting(job, run, CheckpointStore(attempt / "checkpoints", keep_last=1)),
            make_backend(job.spec, run, output=attempt / "actors.log"),
            Meter(ledger, job.spec.pricing),
            listeners=[CsvMetrics(attempt / "metrics.csv", columns_of(job.spec)), collector, *fits],
            scaler=explorer,
        )
        for listener in fits:
            listener.environment = lambda: trainer.environment
        with signals(trainer.interrupt, warn):
            try:
                outcome = await trainer.run()
            except asyncio.CancelledError:
                raise Aborted from None
    if not outcome.finished:
        raise Interrupted
    best = collector.best(outcome)
    return Episode(
        choices=explorer.choices[:-1],
        rewards=rewards(explorer.seconds, best, target, beta),
        best=best,
        actors=[report.actors for report in collector.reports],
        spent=_spent(folder, job.spec.environment.rollout_length),
    )


def _folder(path: Path, number: int) -> Path:
    """The folder in which an episode is played, and which exists until the agent has learned from it."""
    return path.with_name(f"{path.name}.episode-{number}")


def _clear(folder: Path) -> None:
    """Remove an episode's attempts, and their folder unless it holds anything else."""
    for attempt in folder.glob("attempt-*"):
        shutil.rmtree(attempt, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _attempt(folder: Path) -> Path:
    """A new folder for one more attempt at the episode."""
    attempt = folder / f"attempt-{len(list(folder.glob('attempt-*'))) + 1}"
    attempt.mkdir(parents=True)
    return attempt


def _spent(folder: Path, steps: int) -> Spent:
    """Cost of all attempts at an episode, from their ledgers and metrics.

    A round is paid for before its row is written. A kill may leave a round without a row. Its actors are then
    taken from the ledger; in an off-policy run, the round may have learned from fewer.
    """
    total = Spent(episodes=1)
    for path in sorted(folder.glob("attempt-*/ledger.jsonl")):
        with Ledger(path) as ledger:
            entries, cost = ledger.entries, ledger.total
        (*_, last) = [{"round": 0, "env_steps": 0}, *read_numbers(path.with_name("metrics.csv"))]
        untold = [entry.details["actors"] for entry in entries if entry.round > (last["round"] or 0)]
        total += Spent(
            rounds=sum(entry.round > 0 for entry in entries),
            env_steps=int(last["env_steps"] or 0) + steps * sum(untold),
            seconds=sum(entry.details["seconds"] for entry in entries),
            learner=cost.learner,
            actors=cost.actors,
        )
    return total
