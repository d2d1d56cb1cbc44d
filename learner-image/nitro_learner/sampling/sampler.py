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

        stack.push_async_callback(backend.close)
        sampler = Sampler.open(stack, spec, run, backend, await backend.start())

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
    def open(
        cls,
        stack: contextlib.AsyncExitStack,
        spec: JobSpec,
        run: str,
        backend: ActorBackend,
        environment: DescribedEnvironment,
    ) -> Sampler:
        """Make cache and dispatcher of a resolved job on a started backend; `stack` closes them."""
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
