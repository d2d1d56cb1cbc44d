"""The actor's work on one request: weights, rollout, fragment, store."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nitro_actor import wire
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.policy import Policies
from nitro_actor.protocol.fragment import STATE_BYTES, FragmentContainer, byte_limit, step_bytes
from nitro_actor.protocol.request import Request
from nitro_actor.protocol.state import OWN_PREFIX, PREFIX
from nitro_actor.protocol.weights import WeightsContainer
from nitro_actor.rollout import evaluate, rollout
from nitro_actor.store import Exchange

if TYPE_CHECKING:
    from nitro_actor.environment import Environment

_KEPT_VERSIONS = 2
"""The current version, and the one before it that an evaluation or a late retry may still ask for."""


_KEPT_ENVIRONMENTS = 8
"""As many as a job may have sets of evaluations."""


class WeightsMissingError(RuntimeError):
    """The weights that a request names are not in Redis."""


class WeightsInvalidError(RuntimeError):
    """The weights in Redis do not fit the environment, or hold NaN."""


class Actor:
    """Answer requests, one at a time, with one environment.

    Args:
        environment: of the rollouts.
        make: builds it with other keyword arguments and a number of copies, for evaluations that have
            arguments of their own.
    """

    def __init__(
        self,
        environment: Environment,
        make: Callable[[Mapping[str, Any], int], Environment] | None = None,
    ) -> None:
        self.environment = environment
        self._make = make
        self._evaluations: OrderedDict[str, Environment] = OrderedDict()
        self._policies: OrderedDict[tuple[str, int, str], Policies] = OrderedDict()
        self._cold = True

    def run(
        self, request: Request, exchange: Exchange, over: threading.Event | None = None
    ) -> dict[str, Any]:
        """Sample, store the fragment, and return the acknowledgement.

        Args:
            over: set by another thread once nobody wants the fragment any more.

        Returns:
            The acknowledgement: slot, attempt, bytes and steps of the fragment, whether this was the first of
            the process, seconds of each stage, resident memory in bytes.

        Raises:
            WireError: the request does not fit the environment.
            OverError: nobody wants the fragment.
            WeightsMissingError, WeightsInvalidError, EnvironmentCallError, PolicyError, and what the exchange
            raises
        """
        with np.errstate(all="ignore"):  # NaN and infinity raise an error later, not a warning here
            environment = self._environment(request.kwargs, request.episodes)
            environment.over = over
            try:
                return self._run(request, exchange, environment)
            finally:
                environment.over = None

    def _run(self, request: Request, exchange: Exchange, environment: Environment) -> dict[str, Any]:
        self._require_fit(request)
        began = time.perf_counter()
        policies = self._policies_of(request, exchange)
        loaded = time.perf_counter()
        if request.kind == "rollout":
            tensors = rollout(
                environment,
                policies,
                seed=request.seed,
                steps=request.steps,
                state=request.state,
                optional_tensors=request.optional_tensors,
            )
            steps = request.steps
            _require_room(tensors, self.environment.count)
        else:
            tensors = evaluate(
                environment,
                policies,
                seed=request.seed,
                episodes=request.episodes,
                max_steps=request.max_steps,
                rows=self.environment.count,
            )
            steps = int(tensors["episode_lengths"].sum())
        sampled = time.perf_counter()
        fragment = self._fragment(request, steps, tensors).encode()
        exchange.append(request.result_key, fragment, request.ttl)
        stored = time.perf_counter()
        cold, self._cold = self._cold, False
        return {
            "slot": request.slot,
            "attempt": request.attempt,
            "bytes": len(fragment),
            "steps": steps,
            "coldStart": cold,
            "seconds": {
                "weights": loaded - began,
                "rollout": sampled - loaded,
                "store": stored - sampled,
                "total": stored - began,
            },
            "rssBytes": _resident_bytes(),
        }

    def _environment(self, kwargs: Mapping[str, Any], episodes: int) -> Environment:
        """The environment with these keyword arguments in place of some of its own; the last few are kept. It
        has no more copies than play one of the episodes.

        Raises:
            EnvironmentCallError: it cannot be built, or its policies would not fit.
        """
        if not kwargs or self._make is None:
            return self.environment
        key = json.dumps(kwargs, sort_keys=True)
        made, count = self._evaluations.get(key), min(self.environment.count, episodes)
        if made is None or made.count < count:
            if made is not None:  # before the next one: their memory must not add up
                self._evaluations.pop(key).close()
            try:
                made = self._make(kwargs, count)
            except EnvironmentConfigError as error:
                raise EnvironmentCallError(f"spec.evaluation.environment: {error}") from error
            _require_alike(made, self.environment, kwargs)
            self._evaluations[key] = made
            while len(self._evaluations) > _KEPT_ENVIRONMENTS:
                self._evaluations.popitem(last=False)[1].close()
        self._evaluations.move_to_end(key)
        return made

    def _require_fit(self, request: Request) -> None:
        if request.kind == "evaluate":
            return
        count = self.environment.count
        if request.steps % count:
            raise wire.WireError(
                f"steps: {request.steps} is not a multiple of the actor's {count} environments"
            )
        spec = self.environment.spec
        per_step = step_bytes(spec.classes, spec.state_size)
        if (size := request.steps * per_step) > wire.MAX_BYTES:
            raise wire.WireError(
                f"steps: {request.steps} may take {size} bytes; a fragment may have {wire.MAX_BYTES}. With "
                f"these spaces spec.environment.rolloutLength may be {wire.MAX_BYTES // per_step}"
            )

    def _policies_of(self, request: Request, exchange: Exchange) -> Policies:
        # Loading checks run and version, so a policy answers only requests that name the same.
        which = (request.run, request.weights_version, request.weights_key)
        policies = self._policies.get(which)
        if policies is None:
            policies = self._policies[which] = self._load(request, exchange)
            while len(self._policies) > _KEPT_VERSIONS:
                self._policies.popitem(last=False)
        self._policies.move_to_end(which)
        return policies

    def _load(self, request: Request, exchange: Exchange) -> Policies:
        data = exchange.get(request.weights_key)
        if data is None:
            raise WeightsMissingError(
                f"no weights under {request.weights_key}: not published yet, or expired"
            )
        try:
            container = WeightsContainer.decode(data)
            if (container.run, container.version) != (request.run, request.weights_version):
                raise wire.WireError(
                    f"the weights are of run {container.run!r} and version {container.version}, the request "
                    f"asks for run {request.run!r} and version {request.weights_version}"
                )
            return Policies(container, self.environment.spec.classes)
        except wire.WireError as error:
            raise WeightsInvalidError(f"{request.weights_key}: {error}") from error

    def _fragment(self, request: Request, steps: int, tensors: Mapping[str, np.ndarray]) -> FragmentContainer:
        return FragmentContainer(
            kind=request.kind,
            run=request.run,
            round=request.round,
            slot=request.slot,
            attempt=request.attempt,
            weights_version=request.weights_version,
            seed=request.seed,
            steps=steps,
            envs=self.environment.count,
            resumed=bool(request.state),
            tensors=tensors,
        )


def _require_alike(made: Environment, trained: Environment, kwargs: Mapping[str, Any]) -> None:
    """Refuse an environment of evaluations in which agents see or do something else than in training."""
    there, here = trained.spec.to_json(), made.spec.to_json()
    for part in ("observation", "action", "classes"):
        if there.get(part) != here.get(part):
            made.close()
            raise EnvironmentCallError(
                f"spec.evaluation.environment: with kwargs {json.dumps(kwargs)} {part} is {here.get(part)}, "
                f"and in training it is {there.get(part)}; choose kwargs that leave the spaces as they are"
            )


def _require_room(tensors: Mapping[str, np.ndarray], envs: int) -> None:
    """Refuse states of a user's environments that the learner would not read."""
    own = sum(array.nbytes for name, array in tensors.items() if name.startswith(OWN_PREFIX))
    elements = sum(array.size for name, array in tensors.items() if not name.startswith(PREFIX))
    others = sum(array.nbytes for array in tensors.values()) - own + STATE_BYTES  # for the header
    room = max(0, byte_limit(elements, envs) - others)
    if own > room:
        raise EnvironmentCallError(
            f"get_state returned {own // envs} bytes for each of {envs} environments; a fragment of this "
            f"rollout has room for {room // envs}. Keep less in the state; or have no get_state, then each "
            "rollout begins new episodes"
        )


def _resident_bytes() -> int:
    """Memory of this process: the present value on Linux, the peak on other systems."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()
