"""The composition root of a training: from a job and its actors to the rounds that train it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nitro_api import NitroTrainingJob
from nitro_learner.algorithms import registry
from nitro_learner.checkpoints.store import Checkpoint, CheckpointStore
from nitro_learner.sampling.sampler import Sampler
from nitro_learner.scalers import Scaler
from nitro_learner.training import rounds
from nitro_learner.training.adoption import Source, adopt, spaces_of
from nitro_learner.training.billing import Billing
from nitro_learner.training.checkpointing import Checkpointing
from nitro_learner.training.compute import Compute
from nitro_learner.training.costs import Meter
from nitro_learner.training.evaluations import Evaluations
from nitro_learner.training.needs import Needs
from nitro_learner.training.round_report import Listener
from nitro_learner.training.round_runner import Learner, RoundRunner
from nitro_learner.training.scoring import Scoring
from nitro_learner.training.sharing.toggles import Sharing
from nitro_learner.training.state import TrainingState


@dataclass(frozen=True)
class Sitting:
    """What is trained, and where it goes on.

    Attributes:
        job: resolved.
        id: the run's identity, kept over resumes; part of every Redis key and fragment.
        checkpoints: where the state goes.
        checkpoint: where to go on from; None = from the start.
        history: rows of metrics.csv up to the checkpoint, for the listeners' totals.
        source: another run, with whose policies the start begins.
    """

    job: NitroTrainingJob
    id: str
    checkpoints: CheckpointStore
    checkpoint: Checkpoint | None = None
    history: Sequence[Mapping[str, float | None]] = ()
    source: Source | None = None


async def build(
    sitting: Sitting,
    sampler: Sampler,
    compute: Compute,
    scaler: Scaler,
    meter: Meter,
    listeners: Sequence[Listener],
    stop: asyncio.Event,
) -> RoundRunner:
    """Build what learns, continue from the checkpoint, and tell the listeners.

    Raises:
        JobInvalid: the algorithm does not fit the environment, or the source does not fit the job.
        CheckpointError, OSError: the state of a run that begins with another one's cannot be written.
    """
    spec, environment, saved = sitting.job.spec, sampler.environment, sitting.checkpoint
    backend, dispatcher, cache = sampler.backend, sampler.dispatcher, sampler.cache
    needs = Needs(
        listeners,
        lambda: max(backend.in_use, dispatcher.pending),
        history=sitting.history,
        gaps=spec.algorithm.record.feeding == "rounds",
    )
    needs.coming(saved.state["training"]["actors"] if saved else scaler.initial)
    policies = registry.make_policies(spec, environment, compute.device)
    sharing = Sharing(spec, environment, policies, compute)
    feed = rounds.make(policies, dispatcher, backend, cache, compute, stop)
    scoring = Scoring(spec, scaler, compute, cache, listeners)
    state = TrainingState(actors=scoring.initial)
    checkpointing = Checkpointing(
        sitting.checkpoints,
        {"training": state, "policies": policies, "sharing": sharing, "scaler": scoring},
        run=sitting.id,
        threads=compute.threads,
        spaces=spaces_of(environment),
        played=lambda: policies.played(environment),
        every_rounds=spec.learner.checkpoint.every_rounds,
        listeners=listeners,
    )
    if saved:
        checkpointing.restore(saved)
        state.actors = scaler.resumed(state.round, state.actors)
    source = None if saved else sitting.source
    if source is not None:
        adopt(source, policies, sharing, environment)
    for listener in listeners:
        listener.on_run_started(round=state.round, rounds=spec.stop.rounds, history=sitting.history)
        listener.on_round_requested(round=state.round + 1, actors=state.actors)
    if source is not None:
        await checkpointing.save_start()  # from now on the source is not needed
    return RoundRunner(
        spec=spec,
        run_id=sitting.id,
        sampler=sampler,
        learner=Learner(policies, sharing, feed, compute),
        scoring=scoring,
        evaluations=Evaluations(spec, sitting.id, dispatcher, state, checkpointing),
        checkpointing=checkpointing,
        state=state,
        billing=Billing(meter, dispatcher, backend),
        needs=needs,
        listeners=listeners,
        stop=stop,
    )
