"""Actors at work: a started backend, its cache, and the dispatcher that has the actors sample."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_learner.backends.base import ActorBackend
from nitro_learner.backends.cache.base import Cache
from nitro_learner.sampling.dispatch import Dispatcher


@dataclass(frozen=True)
class Sampler:
    """What a job needs to sample::

        sampler = await Sampler.open(stack, spec, run, backend)

    Attributes:
        backend: where actors run.
        environment: of the actors.
        cache: carries the weights to them, and fragments back.
        dispatcher: has them work.
    """

    backend: ActorBackend
    environment: DescribedEnvironment
    cache: Cache
    dispatcher: Dispatcher

    @classmethod
    async def open(
        cls, stack: contextlib.AsyncExitStack, spec: JobSpec, run: str, backend: ActorBackend
    ) -> Sampler:
        """Start the actors of a resolved job, and make cache and dispatcher; `stack` closes them all.

        Raises:
            BackendError: see `ActorBackend.start`.
        """
        stack.push_async_callback(backend.close)
        environment = await backend.start()
        cache = backend.open_cache(run)
        stack.push_async_callback(cache.close)
        dispatcher = Dispatcher(
            backend,
            cache,
            environment,
            envs=spec.environment.envs_per_actor,
            optional_tensors=spec.algorithm.tensors,
            memory=spec.network.memory_size,
            timeout_seconds=spec.actor.timeout_seconds,
            deadline_seconds=spec.actor.round_deadline_seconds,
        )
        stack.push_async_callback(dispatcher.close)
        return cls(backend, environment, cache, dispatcher)
