"""The memory of a job's Redis: it must hold two rounds, the one that is learned from and the next."""

import math

from nitro_api.base import Rule, broken_by, declare, rules_of
from nitro_api.errors import FieldError
from nitro_api.quantities import amount_of
from nitro_api.resolution.resolve import most_actors, resolve
from nitro_api.rules.payload_rules import least_fragment, least_weights, spaces
from nitro_api.spec.cache import Cache, CacheResources
from nitro_api.spec.job import JobSpec, NitroTrainingJob
from nitro_api.spec.pods import Resources

USUAL_MIB = 1024
ROUNDS = 2
_MIB = 2**20
_PATH = "spec.cache.memory"
_RESOURCES = "spec.cache.resources"
# Numbers of a transition besides observation, action and its distribution: reward, value, probability, flags.
_OTHER_NUMBERS = 8

declare(
    Cache,
    Rule(
        path="memory",
        cel="!has(self.memory) || (isQuantity(string(self.memory)) "
        "&& quantity(string(self.memory)).compareTo(quantity('64Mi')) >= 0)",
        sentence="must be at least 64Mi; write it as 512Mi or 2Gi",
    ),
)


def mistakes(job: NitroTrainingJob) -> list[FieldError]:
    """The errors of a job whose Redis cannot hold two rounds, even with good compression, or whose container
    cannot hold its Redis."""
    cache = job.spec.cache
    if cache is None or not job.spec.backend.needs_redis:
        return []
    spec = resolve(job).spec
    if cache.resources is not None and (errors := _of_resources(cache.resources, cache_mib(spec))):
        return errors
    if cache.memory is None:
        return []
    actors = most_actors(spec.scaling)
    needed = ROUNDS * (actors * least_fragment(spec) + least_weights(spec))
    if amount_of(cache.memory) >= needed:
        return []
    text = (
        f"must hold two rounds of {actors} actors, which need at least {math.ceil(needed / _MIB)}Mi; raise "
        "it, or lower scaling.maxActors or environment.rolloutLength"
    )
    return [FieldError(_PATH, cache.memory, text)]


def _of_resources(given: CacheResources, data: int) -> list[FieldError]:
    """The errors of its container's resources: the CRD has no room for these rules."""
    same = Resources.model_construct(requests=given.requests, limits=given.limits)
    for rule in broken_by(same, rules_of(Resources)):
        return [FieldError(f"{_RESOURCES}.{rule.path}", getattr(given, rule.path), rule.sentence)]
    limit = (given.limits or {}).get("memory")
    if limit is None or amount_of(limit) > data * _MIB:
        return []
    text = f"must be above the {data}Mi of its data; raise it, or lower spec.cache.memory"
    return [FieldError(f"{_RESOURCES}.limits.memory", limit, text)]


def cache_mib(spec: JobSpec) -> int:
    """Memory of a resolved job's Redis: the job's own choice, else two uncompressed rounds where the shapes
    are known, and at least 1 GiB. Unit: MiB."""
    if spec.cache is not None and spec.cache.memory is not None:
        return math.ceil(amount_of(spec.cache.memory) / _MIB)
    observation, action = spaces(spec)
    atari = spec.environment.atari
    step = 4 * (observation + 2 * action + _OTHER_NUMBERS) + (atari.frame_size**2 if atari else 0)
    fragments = most_actors(spec.scaling) * spec.environment.rollout_length * step
    needed = ROUNDS * (fragments + 2 * least_weights(spec))
    return max(USUAL_MIB, math.ceil(needed / _MIB))
