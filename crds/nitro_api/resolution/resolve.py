"""Default values of a job, and warnings about values that are allowed but rarely intended."""

from __future__ import annotations

import math
from typing import Any

from nitro_api.resolution import episodes
from nitro_api.resolution.presets import preset_values, rllib_settings
from nitro_api.spec.backend import LocalBackendSpec
from nitro_api.spec.checkpoint import CheckpointVolume
from nitro_api.spec.environment import Atari
from nitro_api.spec.job import JobSpec, Metadata, NitroTrainingJob
from nitro_api.spec.lambda_backend import MEMORY_MIB, LambdaBackendSpec, function_name, image_region
from nitro_api.spec.pods import Resources
from nitro_api.spec.quantities import amount_of
from nitro_api.spec.scaling import Scaling

CLAIM_SIZE = "1Gi"
VM_CORES = 16
"""Actors that one virtual machine hosts: the cores of a c5.4xlarge."""
GB = 2.0**30
"""Bytes that Lambda bills as one GB."""


def resolve(job: NitroTrainingJob) -> NitroTrainingJob:
    """A copy of `job` with every value that training needs, so that no field declared by `resolved()` is
    None.

    Values that the job sets are kept; a second resolve changes nothing. Raises pydantic's ValidationError
    if a value that was filled in breaks a rule. That can only happen to a job that was changed after
    loading."""
    copy = job.model_copy(deep=True)
    spec = copy.spec
    _resolve_environment(spec)
    preset = _preset_of(spec)
    _resolve_rollout(spec, preset)
    _resolve_actors(spec.scaling, preset)
    for path, value in preset.items():
        *parents, name = path.split(".")
        _fill(_descend(spec, parents), name, value)
    settings = rllib_settings(spec.algorithm.preset, spec.algorithm.name)
    if settings:
        spec.algorithm.rllib = settings | (spec.algorithm.rllib or {})
    _fill(spec.pricing, "podGBSecond", spec.pricing.lambda_gb_second)
    _fill(spec.pricing, "vmCount", math.ceil(most_actors(spec.scaling) / VM_CORES))
    if spec.backend.lambda_ is not None:
        _resolve_function(spec.backend.lambda_, copy.metadata, spec.actor.resources)
        _fill(spec.pricing, "actorMemoryGB", spec.backend.lambda_.memory_mib / 1024)
    _fill(spec.pricing, "actorMemoryGB", _memory_gb(spec.actor.resources))
    if spec.learner.checkpoint.s3 is None:
        _fill(spec.learner.checkpoint, "pvc", CheckpointVolume())
        if spec.learner.checkpoint.pvc.claim_name is None:
            _fill(spec.learner.checkpoint.pvc, "size", CLAIM_SIZE)
    if spec.backend.type == "Local":
        _fill(spec.backend, "local", LocalBackendSpec())
    return NitroTrainingJob.model_validate(copy.to_dict())


def _fill(model: Any, alias: str, value: Any) -> None:
    """Set the field of that camelCase name if it is not set."""
    name = next(name for name, field in type(model).model_fields.items() if field.alias == alias)
    if getattr(model, name) is None:
        setattr(model, name, value.copy() if isinstance(value, list) else value)


def _descend(model: Any, aliases: list[str]) -> Any:
    for alias in aliases:
        model = getattr(model, next(n for n, f in type(model).model_fields.items() if f.alias == alias))
    return model


def _resolve_environment(spec: JobSpec) -> None:
    """Fill in the environment's name, the settings that differ for Atari games, and the type of network."""
    environment = spec.environment
    _fill(environment, "id", environment.entry_point)
    if environment.is_atari:
        _fill(environment, "atari", Atari())
    _fill(environment, "frameStack", 4 if environment.is_atari else 1)
    _fill(environment, "clipRewards", environment.is_atari)
    conv = environment.is_atari or spec.network.conv_layers is not None
    _fill(spec.network, "type", "conv" if conv else "mlp")


def _preset_of(spec: JobSpec) -> dict[str, Any]:
    """The preset's values for a job whose network's type is known."""
    conv = spec.network.type == "conv"
    return preset_values(
        spec.algorithm.preset, algorithm=spec.algorithm.name, atari=spec.environment.is_atari, conv=conv
    )


def _resolve_rollout(spec: JobSpec, preset: dict[str, Any]) -> None:
    steps, envs = episodes.rollout(
        spec.environment, preset["environment.rolloutLength"], preset["environment.envsPerActor"]
    )
    _fill(spec.environment, "rolloutLength", steps)
    _fill(spec.environment, "envsPerActor", envs)


def _resolve_actors(scaling: Scaling, preset: dict[str, Any]) -> None:
    """Fill in the range and the first round's actors so that they fit the values that are set."""
    given: Any = scaling
    if scaling.schedule is not None:
        low, high, initial = min(scaling.schedule), max(scaling.schedule), scaling.schedule[0]
    else:
        fixed = [n for n in (given.min_actors, given.initial_actors) if n is not None]
        high = (
            given.max_actors if given.max_actors is not None else max([preset["scaling.maxActors"], *fixed])
        )
        fixed = [n for n in (high, given.initial_actors) if n is not None]
        low = given.min_actors if given.min_actors is not None else min([preset["scaling.minActors"], *fixed])
        initial = min(max(preset["scaling.initialActors"], low), high)
        if scaling.scaler == "hydrozoa":  # this scaler starts with minActors
            low = initial = given.initial_actors or low
    _fill(scaling, "minActors", low)
    _fill(scaling, "maxActors", high)
    _fill(scaling, "initialActors", initial)


def _resolve_function(function: LambdaBackendSpec, metadata: Metadata, resources: Resources) -> None:
    _fill(function, "functionName", function_name(metadata.namespace or "default", metadata.name))
    _fill(function, "region", image_region(function.image))
    mib = math.ceil(_memory_gb(resources) * 1024)
    _fill(function, "memoryMiB", min(max(mib, MEMORY_MIB[0]), MEMORY_MIB[1]))


def most_actors(scaling: Scaling) -> int:
    """The most actors that a round can have. `scaling` must be resolved."""
    if scaling.scaler == "schedule" and scaling.schedule:
        return max(scaling.schedule)
    return scaling.initial_actors if scaling.scaler == "fixed" else scaling.max_actors


def _memory_gb(resources: Resources) -> float:
    for amounts in (resources.limits, resources.requests):
        if amounts and "memory" in amounts and amount_of(amounts["memory"]) > 0:
            return amount_of(amounts["memory"]) / GB
    return 1.0


def warnings(job: NitroTrainingJob) -> list[str]:
    """Warnings about values that are allowed but rarely intended: the path, the problem, what to do."""
    spec = resolve(job).spec
    found = [_decay_warning(spec), _minibatch_warning(spec), *_unused_warnings(spec), *_stop_warnings(spec)]
    found += [*_function_warnings(spec), *_null_warnings(spec), episodes.cut_warning(spec.environment)]
    return [warning for warning in found if warning]


def _decay_warning(spec: JobSpec) -> str | None:
    """A warning if from some round on no score can give more than minActors: floor(I_max d^k) <= I_min.

    Mode `artifact` has no such round: its I_max d^(k^2) is a floor, and the decay does not bound its score.
    """
    scaling, rounds = spec.scaling, spec.stop.rounds
    if scaling.scaler not in ("nitro", "random-score") or scaling.mode == "artifact" or scaling.decay == 1:
        return None
    if scaling.max_actors <= scaling.min_actors:
        return None
    needed = (scaling.min_actors + 1) / scaling.max_actors
    last_score = math.floor(math.log(needed) / math.log(scaling.decay) + 1e-9)
    # The score of round k sets the actors of round k + 1. One last round at minActors does no harm.
    first_without = last_score + 2
    if rounds <= first_without:
        return None
    decay = min(1.0, math.ceil(needed ** (1 / (rounds - 1)) * 1e5) / 1e5)
    return (
        f"spec.scaling.decay: with {scaling.decay:g} no round from {first_without} on can have more than "
        f"minActors, {scaling.min_actors}, but stop.rounds is {rounds}; choose decay {decay:g} or more"
    )


def _minibatch_warning(spec: JobSpec) -> str | None:
    smallest = spec.scaling.min_actors * spec.environment.rollout_length
    field = "hyperparameters.minibatchSize"
    settings = spec.algorithm.hyperparameters.to_dict()
    minibatch = settings.get("minibatchSize")
    if spec.algorithm.rllib is not None:
        field, minibatch = "rllib.minibatch_size", spec.algorithm.rllib.get("minibatch_size")
    holder = "round with minActors, which is then one step per epoch; lower it or raise rolloutLength"
    if "batchSize" in settings:  # it learns from batches of a buffer instead of rounds
        smallest = settings["batchSize"] or spec.environment.rollout_length
        holder = "batch, which is then one step; lower it or raise batchSize"
    if not isinstance(minibatch, int) or minibatch <= smallest:
        return None
    return f"spec.algorithm.{field}: {minibatch} exceeds the {smallest} samples of a {holder}"


def _null_warnings(spec: JobSpec) -> list[str]:
    """Warnings about RLlib's settings that are null: kubectl drops them."""
    return [
        f"spec.algorithm.rllib.{name}: null is dropped by kubectl apply, and the default holds; on a cluster "
        "apply the job with --server-side"
        for name, value in (spec.algorithm.rllib or {}).items()
        if value is None
    ]


def _stop_warnings(spec: JobSpec) -> list[str]:
    found = []
    stop, scaling = spec.stop, spec.scaling
    if stop.target_reward is not None and spec.evaluation.every_rounds > stop.rounds:
        found.append(
            f"spec.evaluation.everyRounds: {spec.evaluation.every_rounds} exceeds stop.rounds, "
            f"{stop.rounds}, so targetReward is never checked; lower everyRounds"
        )
    if scaling.schedule is not None and len(scaling.schedule) > stop.rounds:
        found.append(
            f"spec.scaling.schedule: only the first {stop.rounds} of {len(scaling.schedule)} entries are "
            "used, because training stops there; raise stop.rounds or shorten the schedule"
        )
    if (
        stop.duration_seconds is not None
        and (spec.active_deadline_seconds or math.inf) <= stop.duration_seconds
    ):
        found.append(
            f"spec.activeDeadlineSeconds: {spec.active_deadline_seconds} fails the job before stop.duration, "
            f"{stop.duration}, ends it; raise it"
        )
    return found


def _function_warnings(spec: JobSpec) -> list[str]:
    function, found = spec.backend.lambda_, []
    if function is None:
        return []
    gigabytes = function.memory_mib / 1024
    if not math.isclose(spec.pricing.actor_memory_gb, gigabytes, rel_tol=1e-3):
        found.append(
            f"spec.pricing.actorMemoryGB: {spec.pricing.actor_memory_gb:g} is not what Lambda bills for "
            f"memoryMiB {function.memory_mib}, {gigabytes:g}; remove actorMemoryGB"
        )
    reserved, most = function.reserved_concurrency, spec.scaling.max_actors
    if reserved is not None and reserved < most:
        found.append(
            f"spec.backend.lambda.reservedConcurrency: {reserved} is below scaling.maxActors, {most}, so "
            "larger rounds go in waves; raise it or lower maxActors"
        )
    return found


def _unused_warnings(spec: JobSpec) -> list[str]:
    """Warnings about settings of the boosting score that the scaler does not use."""
    scaling = spec.scaling
    if scaling.scaler in ("nitro", "random-score"):
        if scaling.surrogate == "clip":
            return []
        if spec.algorithm.record.curvature != "surrogate":
            return [f"spec.scaling.surrogate: has no effect with name: {spec.algorithm.name}; remove it"]
        if scaling.mode not in ("artifact", "explained-variance"):
            return []
        return [f"spec.scaling.surrogate: has no effect with mode: {scaling.mode}; remove it"]
    usual = _preset_of(spec)["scaling.decay"]
    unused = {"decay": scaling.decay != usual}
    for name in ("window", "mode", "normalise", "surrogate"):
        unused[name] = getattr(scaling, name) != Scaling.model_fields[name].default
    return [
        f"spec.scaling.{name}: has no effect with scaler: {scaling.scaler}; remove it"
        for name, differs in unused.items()
        if differs
    ]
