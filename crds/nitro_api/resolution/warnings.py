"""Warnings about values of a job that are allowed but rarely intended."""

from __future__ import annotations

import itertools
import math

from nitro_api.costs.pod_prices import POD_PRICES, pod_vcpu
from nitro_api.costs.round_costs import cost_ratio
from nitro_api.resolution import episodes
from nitro_api.resolution.known_end import known_rounds, least_steps
from nitro_api.resolution.resolve import (
    fades,
    falls_at_constant_rate,
    most_actors,
    preset_of,
    resolve,
    scaler_of,
)
from nitro_api.scalers import SCORE_SETTINGS
from nitro_api.spec.job import GivenSpec, JobSpec, NitroTrainingJob
from nitro_api.spec.pod_metadata import unlisted
from nitro_api.spec.scaling import Scaling
from nitro_api.spec.sharing import Sharing


def warnings(job: NitroTrainingJob) -> list[str]:
    """Warnings about values that are allowed but rarely intended: the path, the problem, what to do."""
    spec = resolve(job).spec
    texts = [
        _range_warning(job.spec, spec),
        _decay_warning(spec),
        _minibatch_warning(spec),
        _device_warning(spec),
        _gpu_warning(spec),
        *_unused_warnings(spec),
        *_stop_warnings(spec),
    ]
    texts += [
        *_sharing_warnings(spec),
        *_function_warnings(spec),
        _pod_price_warning(spec),
        _falling_warning(spec),
        _ratio_warning(spec),
        *_metadata_warnings(spec),
        *_null_warnings(spec),
        episodes.cut_warning(spec.environment),
    ]
    return [warning for warning in texts if warning]


def _range_warning(given: GivenSpec, spec: JobSpec) -> str | None:
    """A warning if the job has a range of actors and leaves the scaler to a preset that uses no range."""
    scaling = given.scaling
    ends = {"maxActors": scaling.max_actors, "minActors": scaling.min_actors}
    ranged = [name for name, actors in ends.items() if actors not in (None, spec.scaling.initial_actors)]
    if scaling.scaler is not None or spec.scaling.record.plan != "constant" or not ranged:
        return None
    first, *other = ranged
    return (
        f"spec.scaling.{first}: has no effect{', nor has minActors' if other else ''}, because the preset's "
        f"scaler is fixed and all rounds have initialActors, {spec.scaling.initial_actors}; set scaler: "
        "nitro, or initialActors in place of the range"
    )


def _decay_warning(spec: JobSpec) -> str | None:
    """A warning if from some round on no score can give more than minActors: floor(I_max d^k) <= I_min.

    Mode `artifact` has no such round: its I_max d^(k^2) is a floor, and the decay does not bound its score.
    """
    scaling, rounds = spec.scaling, spec.stop.rounds
    if not fades(spec) or scaling.decay == 1:
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
    if spec.sharing is not None and spec.sharing.group_batch == "all":
        return None  # a group has several agents' samples, and how many agents there are is not known here
    if not isinstance(minibatch, int) or minibatch <= smallest:
        return None
    return f"spec.algorithm.{field}: {minibatch} exceeds the {smallest} samples of a {holder}"


_SMALL_STEP = 2**20
"""Below this product of a minibatch's samples and the weights between hidden layers, a gradient step takes
longer on a GPU than on a CPU core: docs/performance.md, The learner on a GPU."""


def _device_warning(spec: JobSpec) -> str | None:
    """A warning if the device of the learner and the resources of its pod do not fit together."""
    device, has_gpu = spec.learner.device, spec.learner.resources.has_gpu
    if device == "cpu" and has_gpu:
        return (
            "spec.learner.resources: the GPU is paid and not used, because device is cpu; ask for no GPU, or "
            "leave device out"
        )
    if device == "cuda" and not has_gpu and spec.backend.type != "Local":
        return (
            "spec.learner.device: on a cluster the learner sees no GPU, because its resources name none, and "
            "cuda is an error then; set spec.learner.resources: {limits: {nvidia.com/gpu: 1}}"
        )
    return None


def _gpu_warning(spec: JobSpec) -> str | None:
    """A warning if a job asks for a GPU that makes its updates slower."""
    weights = sum(inputs * other for inputs, other in itertools.pairwise(spec.network.hidden_sizes or []))
    step = spec.algorithm.hyperparameters.to_dict().get("minibatchSize", 0)
    if spec.algorithm.name != "ppo" or not spec.learner.asks_for_gpu:
        return None
    if not 0 < step * weights < _SMALL_STEP:
        return None
    asking, remedy = "resources", "ask for no GPU"
    if not spec.learner.resources.has_gpu:
        asking, remedy = "device", "set it to cpu"
    return (
        f"spec.learner.{asking}: a GPU takes longer than a CPU core for steps of minibatchSize {step} with "
        f"this network; {remedy}, or raise minibatchSize"
    )


def _ratio_warning(spec: JobSpec) -> str | None:
    """A warning if the scaler `efficient` cannot ask for more than minActors, because it never asks for more
    actors than its cost ratio."""
    scaling = spec.scaling
    if "costRatio" not in scaling.record.fields or scaling.costs == "measured":
        return None
    ratio = cost_ratio(spec)
    if ratio >= scaling.min_actors + 0.5 or scaling.min_actors == scaling.max_actors:
        return None
    return (
        f"spec.scaling.minActors: scaler efficient asks for at most costRatio actors, here {ratio:.3g}, so "
        f"that all rounds after the first have {scaling.min_actors}; lower minActors, or set costRatio"
    )


def _falling_warning(spec: JobSpec) -> str | None:
    """A warning if a long training's returns are known to fall again, because its learning rate does not."""
    if not falls_at_constant_rate(spec):
        return None
    field, steps = "spec.algorithm.hyperparameters.learningRateAnneal", least_steps(spec)
    limit, end = spec.stop.rounds, known_rounds(spec)
    known = (
        f"with a constant learning rate, returns fall again in a training of {steps:,} steps with at most "
        f"{most_actors(spec.scaling)} actors a round (experiments/results/long-trainings.md)"
    )
    if end is None:
        return f"{field}: {known}, and the end is not known in rounds; have stop.rounds end it"
    if end < limit:
        return (
            f"spec.stop.rounds: the learning rate would fall over {limit} rounds, and training ends after "
            f"{end}; {known}; set stop.rounds: {end}, over which the rate then falls"
        )
    return None if spec.algorithm.anneals else f"{field}: {known}; set it to true, or leave it out"


def _metadata_warnings(spec: JobSpec) -> list[str]:
    """Warnings about labels and annotations with which a job does not run on every cluster."""
    texts = []
    for part, template in (("learner", spec.learner), ("actor", spec.actor)):
        other = unlisted(template, {})
        if other is not None:
            texts.append(
                f"spec.{part}.{other.field}: with {', '.join(other.keys)} a job runs only on a cluster where "
                f"the chart's {other.value} has a beginning of it; remove it, or ask the administrator"
            )
    return texts


def _null_warnings(spec: JobSpec) -> list[str]:
    """Warnings about RLlib's settings that are null: kubectl drops them."""
    return [
        f"spec.algorithm.rllib.{name}: null is dropped by kubectl apply, and the default holds; on a cluster "
        "apply the job with --server-side"
        for name, value in (spec.algorithm.rllib or {}).items()
        if value is None
    ]


def _stop_warnings(spec: JobSpec) -> list[str]:
    texts = []
    stop, scaling = spec.stop, spec.scaling
    if stop.target_reward is not None and spec.evaluation.every_rounds >= stop.rounds:
        texts.append(
            f"spec.evaluation.everyRounds: {spec.evaluation.every_rounds} is not below stop.rounds, "
            f"{stop.rounds}, so targetReward is never checked; lower everyRounds"
        )
    if stop.patience is not None and 2 * spec.evaluation.every_rounds >= stop.rounds:
        texts.append(
            f"spec.evaluation.everyRounds: {spec.evaluation.every_rounds} is not below half of stop.rounds, "
            f"{stop.rounds}, so there are no two evaluations for patience to compare; lower everyRounds"
        )
    if scaling.schedule is not None and len(scaling.schedule) > stop.rounds:
        texts.append(
            f"spec.scaling.schedule: only the first {stop.rounds} of {len(scaling.schedule)} entries are "
            "used, because training stops there; raise stop.rounds or shorten the schedule"
        )
    if (
        stop.duration_seconds is not None
        and (spec.active_deadline_seconds or math.inf) <= stop.duration_seconds
    ):
        texts.append(
            f"spec.activeDeadlineSeconds: {spec.active_deadline_seconds} fails the job before stop.duration, "
            f"{stop.duration}, ends it; raise it"
        )
    return texts


def _function_warnings(spec: JobSpec) -> list[str]:
    function, texts = spec.backend.lambda_, []
    if function is None:
        return []
    gigabytes = function.memory_mib / 1024
    if not math.isclose(spec.pricing.actor_memory_gb, gigabytes, rel_tol=1e-3):
        texts.append(
            f"spec.pricing.actorMemoryGB: {spec.pricing.actor_memory_gb:g} is not what Lambda bills for "
            f"memoryMiB {function.memory_mib}, {gigabytes:g}; remove actorMemoryGB"
        )
    reserved, most = function.reserved_concurrency, most_actors(spec.scaling)
    if reserved is not None and reserved < most:
        texts.append(
            f"spec.backend.lambda.reservedConcurrency: {reserved} is below the {most} actors of the "
            "largest round, so larger rounds go in waves; raise it or lower maxActors"
        )
    return texts


def _pod_price_warning(spec: JobSpec) -> str | None:
    """A warning if the provider of the price list counts more than the job's pods request."""
    pricing, per_pod = spec.pricing, spec.actor.per_pod
    prices = POD_PRICES.get(pricing.pods or "")
    if prices is None or spec.backend.type != "Knative":
        return None
    vcpu, gb = pod_vcpu(spec.actor), per_pod * pricing.actor_memory_gb
    more_vcpu, more_gb = prices.counted(vcpu, gb)
    if more_vcpu <= vcpu * 1.001 and more_gb <= gb * 1.001:
        return None
    return (
        f"spec.pricing.pods: {pricing.pods} counts a pod that requests {vcpu:.3g} vCPU and {gb:.3g} GB as at "
        f"least {more_vcpu:.3g} vCPU and {more_gb:.3g} GB, so the bill is above the job's cost; request more "
        "CPU or memory (spec.actor.resources), or share pods (spec.actor.perPod)"
    )


def _unused_warnings(spec: JobSpec) -> list[str]:
    """Warnings about settings of the boosting score that the scaler does not use."""
    scaling, used = spec.scaling, scaler_of(spec).settings
    if used == SCORE_SETTINGS:
        if scaling.surrogate == "clip":
            return []
        if spec.algorithm.record.curvature != "surrogate":
            return [f"spec.scaling.surrogate: has no effect with name: {spec.algorithm.name}; remove it"]
        if scaling.mode not in ("artifact", "explained-variance"):
            return []
        return [f"spec.scaling.surrogate: has no effect with mode: {scaling.mode}; remove it"]
    return _unused(spec, *(name for name in SCORE_SETTINGS if name not in used))


def _unused(spec: JobSpec, *names: str) -> list[str]:
    """Warnings about the decay and the named settings, if they are set although the scaler does not use
    them."""
    scaling = spec.scaling
    usual = {name: Scaling.model_fields[name].default for name in names}
    usual |= {"decay": preset_of(spec)["scaling.decay"], "window": scaler_of(spec).window}
    return [
        f"spec.scaling.{name}: has no effect with scaler: {scaling.scaler}; remove it"
        for name in ("decay", *names)
        if getattr(scaling, name) != usual[name]
    ]


def _sharing_warnings(spec: JobSpec) -> list[str]:
    """Warnings about settings of sharing that its mode does not use."""
    sharing = spec.sharing
    if sharing is None or sharing.mode in ("dynamic", "random-base"):
        return []
    unused = ["slope", "similarity", *(["window"] if sharing.mode != "random-toggle" else [])]
    return [
        f"spec.sharing.{name}: has no effect with mode: {sharing.mode}; remove it"
        for name in unused
        if getattr(sharing, name) != Sharing.model_fields[name].default
    ]
