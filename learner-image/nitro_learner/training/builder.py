"""The composition root of a training: from a job to its actors, and from both to the rounds that train it."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nitro_api import JobSpec, ResolvedJob
from nitro_api.spec.lambda_backend import LambdaBackendSpec
from nitro_learner.algorithms import registry
from nitro_learner.backends.base import ActorBackend, NotSet, variable
from nitro_learner.backends.knative import KnativeBackend
from nitro_learner.backends.lambda_backend import LambdaBackend
from nitro_learner.backends.local import LocalBackend, harmless
from nitro_learner.checkpoints.store import Checkpoint, CheckpointStore
from nitro_learner.sampling.dispatch import ActorSampler
from nitro_learner.sampling.evaluation import SLOTS
from nitro_learner.scalers import Scaler
from nitro_learner.training import rounds
from nitro_learner.training.adoption import Source, adopt, spaces_of
from nitro_learner.training.checkpointing import Checkpointing
from nitro_learner.training.compute import Compute
from nitro_learner.training.costs import Billing, Meter
from nitro_learner.training.device import device_name, fitting, torch_device
from nitro_learner.training.evaluations import Evaluations
from nitro_learner.training.listeners import Listeners
from nitro_learner.training.needs import Needs
from nitro_learner.training.round_runner import LearnerParts, RoundRunner
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

    job: ResolvedJob
    id: str
    checkpoints: CheckpointStore
    checkpoint: Checkpoint | None = None
    history: Sequence[Mapping[str, float | None]] = ()
    source: Source | None = None


def make_backend(
    spec: JobSpec,
    run: str,
    *,
    output: Path | None = None,
    operated: bool = False,
    silent: Callable[[str | None], None] = lambda _: None,
) -> ActorBackend:
    """Make the backend of a resolved job.

    Other machines are reached by the variables NITRO_ACTOR_URL, NITRO_REDIS_URL and NITRO_TOKEN.

    Args:
        output: where local actors print to; None = to the terminal.
        operated: whether an operator started this process, and looks after the job's function.
        silent: see `KnativeBackend`.

    Raises:
        NotSet: one of them is missing.
    """
    token = os.environ.get("NITRO_TOKEN")
    if spec.backend.type == "Local":
        inherited = harmless(os.environ) if operated else os.environ
        return LocalBackend(spec, run, output=output, inherited=inherited)
    if spec.backend.lambda_ is not None:
        return LambdaBackend(
            spec.backend.lambda_,
            spec.environment.id,
            envs=spec.environment.envs_per_actor,
            limit=spec.scaling.max_actors + SLOTS,
            token=token,
            redis_url=_redis_of(spec.backend.lambda_),
            created_elsewhere=operated and spec.backend.lambda_.manage,
        )
    return KnativeBackend(
        variable("NITRO_ACTOR_URL"),
        token,
        variable("NITRO_REDIS_URL"),
        # Until the operator grants: what every running job was granted at least.
        limit=spec.scaling.min_actors,
        per_pod=spec.actor.per_pod,
        silent=silent,
    )


def _redis_of(function: LambdaBackendSpec) -> str | None:
    """The Redis between this machine and a function; None where the function's payload carries all."""
    if function.transport != "Redis":
        return None
    if url := os.environ.get("NITRO_REDIS_URL"):
        return url
    raise NotSet(
        "spec.backend.lambda.transport: Redis needs the variable NITRO_REDIS_URL, by which this machine "
        "reaches the function's Redis; set it, or set transport: Payload"
    )


async def build(
    sitting: Sitting,
    sampler: ActorSampler,
    compute: Compute,
    scaler: Scaler,
    meter: Meter,
    listeners: Listeners,
    stop: asyncio.Event,
) -> RoundRunner:
    """Build what learns, continue from the checkpoint, and tell the listeners.

    Raises:
        JobInvalid: the algorithm does not fit the environment, the source does not fit the job, or there is
            no GPU for it.
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
    with fitting("what is learned"):
        policies = registry.make_policies(spec, environment, torch_device(spec.learner.device))
    sharing = Sharing(spec, environment, policies, compute)
    feed = rounds.make(policies, dispatcher, backend, cache, compute, stop)
    scoring = Scoring(spec, scaler, compute, cache, listeners)
    state = TrainingState(actors=scaler.initial)
    checkpointing = Checkpointing(
        sitting.checkpoints,
        {"training": state, "policies": policies, "sharing": sharing, "scaler": scaler},
        run=sitting.id,
        threads=compute.threads,
        device=device_name(spec.learner.device),
        device_named=spec.learner.device != "auto",
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
    done, last = state.round, spec.stop.rounds
    listeners.tell(lambda listener: listener.on_run_started(round=done, rounds=last, history=sitting.history))
    listeners.tell(lambda listener: listener.on_round_requested(round=done + 1, actors=state.actors))
    if source is not None:
        await checkpointing.save_start()  # from now on the source is not needed
    return RoundRunner(
        spec=spec,
        run_id=sitting.id,
        sampler=sampler,
        learner=LearnerParts(policies, sharing, feed, compute),
        scoring=scoring,
        evaluations=Evaluations(spec, sitting.id, dispatcher, state, checkpointing),
        checkpointing=checkpointing,
        state=state,
        billing=Billing(meter, dispatcher, backend),
        needs=needs,
        listeners=listeners,
        stop=stop,
    )
