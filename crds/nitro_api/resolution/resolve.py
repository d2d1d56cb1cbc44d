"""Default values of a job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_snake

from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_api.algorithms.record import path_of
from nitro_api.costs.pod_prices import GB, POD_PRICES, requested_gb
from nitro_api.quantities import amount_of
from nitro_api.resolution import episodes
from nitro_api.resolution.known_end import known_rounds, least_steps
from nitro_api.resolution.presets import preset_values, rllib_settings
from nitro_api.scalers import OWN, RECORDS, ScalerName, ScalerRecord
from nitro_api.spec.backend import LocalBackendSpec
from nitro_api.spec.checkpoint import CheckpointVolume
from nitro_api.spec.environment import Atari
from nitro_api.spec.job import GivenSpec, JobSpec, Metadata, NitroTrainingJob, ResolvedJob
from nitro_api.spec.lambda_backend import MEMORY_MIB, GivenLambdaBackend, function_name, image_region
from nitro_api.spec.pods import Resources
from nitro_api.spec.pricing import GivenPricing
from nitro_api.spec.scaling import Scaling
from nitro_api.spec.sharing import Sharing

CLAIM_SIZE = "1Gi"
VM_CORES = 16
"""Actors that one virtual machine hosts: the cores of a c5.4xlarge."""
LONG_STEPS, SMALL_ROUND = 1_000_000, 4096
"""Steps of a training from which on it is long, and steps of a round up to which its samples are few: those
of 8 actors with the preset's rolloutLength."""
MARLESS_THRESHOLD = 0.5
"""spec.scaling.threshold, as in the MARLess paper."""
_SETTINGS, _SETTING = path_of("", "hyperparameters"), "learningRateAnneal"


def resolve(job: NitroTrainingJob) -> ResolvedJob:
    """A copy of `job` with every value that training needs.

    Values that the job sets are kept; a second resolve changes nothing. Raises pydantic's ValidationError
    if a value that was filled in breaks a rule. That can only happen to a job that was changed after
    loading."""
    copy = job.model_copy(deep=True)
    spec = copy.spec
    _resolve_environment(spec)
    preset = preset_of(spec)
    _resolve_rollout(spec, preset)
    _resolve_scaling(spec, preset)
    _resolve_agents(spec)
    free_rate = _SETTING not in spec.algorithm.hyperparameters.to_dict()
    for path, value in preset.items():
        *parents, name = path.split(".")
        _fill(_descend(spec, parents), name, value)
    settings = rllib_settings(spec.algorithm.preset, spec.algorithm.name)
    if settings:
        spec.algorithm.rllib = settings | (spec.algorithm.rllib or {})
    _resolve_pod_prices(spec.pricing)
    scaling = Scaling.model_construct(**dict(spec.scaling))
    _fill(spec.pricing, "vmCount", math.ceil(most_actors(scaling) / VM_CORES))
    if spec.backend.lambda_ is not None:
        memory_mib = _resolve_function(spec.backend.lambda_, copy.metadata, spec.actor.resources)
        _fill(spec.pricing, "actorMemoryGB", memory_mib / 1024)
    counted = (
        requested_gb(spec.actor) if spec.pricing.pods in POD_PRICES else _memory_gb(spec.actor.resources)
    )
    _fill(spec.pricing, "actorMemoryGB", counted)
    if spec.learner.checkpoint.s3 is None:
        volume = spec.learner.checkpoint.pvc = spec.learner.checkpoint.pvc or CheckpointVolume()
        if volume.claim_name is None:
            _fill(volume, "size", CLAIM_SIZE)
    if spec.backend.type == "Local":
        _fill(spec.backend, "local", LocalBackendSpec())
    resolved = ResolvedJob.model_validate(copy.to_dict())
    if free_rate and _rate_falls(resolved.spec):
        setattr(resolved.spec.algorithm.hyperparameters, to_snake(_SETTING), True)
    return resolved


def _fill(model: Any, alias: str, value: Any) -> None:
    """Set the field of that camelCase name if it is not set."""
    name = next(name for name, field in type(model).model_fields.items() if field.alias == alias)
    if getattr(model, name) is None:
        setattr(model, name, value.copy() if isinstance(value, list) else value)


def _descend(model: Any, aliases: list[str]) -> Any:
    for alias in aliases:
        model = getattr(model, next(n for n, f in type(model).model_fields.items() if f.alias == alias))
    return model


def _resolve_environment(spec: GivenSpec) -> None:
    """Fill in the environment's name, the settings that differ for Atari games, and the type of network."""
    environment = spec.environment
    _fill(environment, "id", environment.entry_point)
    if environment.is_atari:
        _fill(environment, "atari", Atari())
    _fill(environment, "frameStack", 4 if environment.is_atari else 1)
    _fill(environment, "clipRewards", environment.is_atari)
    network = spec.network
    conv = environment.is_atari or network.conv_layers is not None
    _fill(network, "type", "own" if network.entry_point else "conv" if conv else "mlp")
    if network.type == "own":
        _fill(network, "hiddenSizes", [])


def preset_of(spec: GivenSpec) -> dict[str, Any]:
    """The preset's values for a job whose network's type is known."""
    own, atari = spec.network.type == "own", spec.environment.is_atari
    conv = spec.network.type == "conv" or (own and atari)  # both see the images
    values = preset_values(spec.algorithm.preset, algorithm=spec.algorithm.name, atari=atari, conv=conv)
    return {path: value for path, value in values.items() if not (own and path == "network.convLayers")}


def _resolve_rollout(spec: GivenSpec, preset: dict[str, Any]) -> None:
    steps, envs = episodes.rollout(
        spec.environment, preset["environment.rolloutLength"], preset["environment.envsPerActor"]
    )
    _fill(spec.environment, "rolloutLength", steps)
    _fill(spec.environment, "envsPerActor", envs)


def _resolve_scaling(spec: GivenSpec, preset: dict[str, Any]) -> None:
    """Fill in the scaler, what its score is made from, and a range and the first round's actors that fit the
    values that are set."""
    scaling = spec.scaling
    own = OWN if scaling.entry_point is not None else None
    scaler = scaling.scaler = scaling.scaler or own or preset["scaling.scaler"]
    record = _record(scaler, spec)
    if scaling.schedule is not None:
        low, high, initial = min(scaling.schedule), max(scaling.schedule), scaling.schedule[0]
    else:
        fixed = [n for n in (scaling.min_actors, scaling.initial_actors) if n is not None]
        high = scaling.max_actors or max([preset["scaling.maxActors"], *fixed])
        fixed = [n for n in (high, scaling.initial_actors) if n is not None]
        low = scaling.min_actors or min([preset["scaling.minActors"], *fixed])
        initial = min(max(preset["scaling.initialActors"], low), high)
        if record.starts_low:
            low = initial = scaling.initial_actors or low
    _fill(scaling, "minActors", low)
    _fill(scaling, "maxActors", high)
    _fill(scaling, "initialActors", initial)
    _fill(scaling, "window", record.window)
    if record.scores_policies:
        _fill(scaling, "threshold", MARLESS_THRESHOLD)


def _record(scaler: ScalerName, spec: GivenSpec) -> ScalerRecord:
    record = RECORDS[scaler]
    return record.several if record.several and spec.algorithm.record.agents == "several" else record


def scaler_of(spec: JobSpec) -> ScalerRecord:
    """The record of the job's scaler with the job's number of agents."""
    return _record(spec.scaling.scaler, spec)


def fades(spec: JobSpec) -> bool:
    """Whether round k + 1 can have no more than maxActors * d^k actors."""
    return scaler_of(spec).fades and spec.scaling.mode != "artifact"


def _rate_falls(spec: JobSpec) -> bool:
    """Whether the learning rate falls over the limit of rounds if the job does not say: in a training that is
    known to fall with a constant one it does, where these rounds are known to be its end.

    So does that of a job which goes on with all of another run: where that run had another rate, the start of
    the job says so."""
    return falls_at_constant_rate(spec) and known_rounds(spec) == spec.stop.rounds


def falls_at_constant_rate(spec: JobSpec) -> bool:
    """Whether the returns of a job are known to fall again with a constant learning rate: `tuned` PPO over
    many steps, of which no round has many. experiments/results/long-trainings.md has the runs.

    A KL penalty bounds the steps, so a job with one is left alone.
    """
    algorithm, scaling = spec.algorithm, spec.scaling
    if (algorithm.name, algorithm.preset) != ("ppo", "tuned") or algorithm.hyperparameters.to_dict().get(
        "klCoefficient"
    ):
        return False
    largest = most_actors(scaling) * spec.environment.rollout_length
    return largest <= SMALL_ROUND and least_steps(spec) >= LONG_STEPS


def keep_begun(spec: GivenSpec, begun: Mapping[str, Any]) -> None:
    """Set rollouts and the learning rate's course of a job whose run has begun to those that it began with,
    unless the job says otherwise: another version may have other defaults, and that of the rate goes by
    spec.stop, which may change.

    Args:
        spec: not resolved; it is changed.
        begun: rolloutLength, envsPerActor and learningRateAnneal of the run; what is not known is left out.
    """
    environment, settings = spec.environment, spec.algorithm.hyperparameters
    rollout = {"rolloutLength": environment.rollout_length, "envsPerActor": environment.envs_per_actor}
    if all(begun.get(name) and given in (None, begun[name]) for name, given in rollout.items()):
        for name in rollout:
            _fill(environment, name, begun[name])
    if isinstance(settings, PpoHyperparameters):
        _fill(settings, _SETTING, begun.get(_SETTING))


def _resolve_agents(spec: GivenSpec) -> None:
    """Fill in what only several agents have: when they share, and the settings of each entry's algorithm."""
    if spec.algorithm.record.agents == "several":
        _fill(spec, "sharing", Sharing())
        _fill(spec.algorithm, "teamReward", False)
    for entry in spec.algorithm.policies or ():
        for path, value in preset_values(spec.algorithm.preset, algorithm=entry.name).items():
            if path.startswith(_SETTINGS):
                _fill(entry.hyperparameters, path.removeprefix(_SETTINGS), value)


def _resolve_function(function: GivenLambdaBackend, metadata: Metadata, resources: Resources) -> int:
    """Fill in the function's name, region and memory. Returns the memory. Unit: MiB."""
    namespace = metadata.namespace or "default"
    _fill(function, "functionName", function_name(namespace, metadata.name))
    _fill(function, "region", image_region(function.image))
    mib = math.ceil(_memory_gb(resources) * 1024)
    function.memory_mib = function.memory_mib or min(max(mib, MEMORY_MIB[0]), MEMORY_MIB[1])
    return function.memory_mib


def _resolve_pod_prices(pricing: GivenPricing) -> None:
    prices = POD_PRICES.get(pricing.pods or "")
    if prices is not None:
        _fill(pricing, "podVCPUSecond", prices.vcpu_second)
        _fill(pricing, "podGBSecond", prices.gb_second)
    _fill(pricing, "podGBSecond", pricing.lambda_gb_second)


def most_actors(scaling: Scaling) -> int:
    """The most actors that a round can have."""
    return max(scaling.planned or [scaling.max_actors])


def _memory_gb(resources: Resources) -> float:
    for amounts in (resources.limits, resources.requests):
        if amounts and "memory" in amounts and amount_of(amounts["memory"]) > 0:
            return amount_of(amounts["memory"]) / GB
    return 1.0
