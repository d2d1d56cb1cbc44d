"""RLlib's settings of a job: read from spec.algorithm.rllib into RLlib's own config object, or list every
mistake in them.

A setting is a keyword of the config's `training()`, with RLlib's name, type and default.
"""

import inspect
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig

from nitro_api.errors import FieldError
from nitro_api.schema.foreign_names import FOREIGN_NAMES, known_as, plain
from nitro_api.schema.wording import nearest

CONFIGS = {"rllib/ppo": PPOConfig, "rllib/appo": APPOConfig, "rllib/impala": IMPALAConfig}
"""By spec.algorithm.name."""

_ELSEWHERE = {
    "env": "spec.environment.id",
    "env_config": "spec.environment.kwargs",
    "model": "spec.network",
    "num_env_runners": "spec.scaling",
    "num_envs_per_env_runner": "spec.environment.envsPerActor",
    "num_gpus_per_learner": "spec.learner.resources",
    "num_learners": "spec.learner",
    "rollout_fragment_length": "spec.environment.rolloutLength",
    "seed": "spec.seed",
    "train_batch_size": "spec.environment.rolloutLength and spec.scaling",
    "train_batch_size_per_learner": "spec.environment.rolloutLength and spec.scaling",
}
"""RLlib's settings that a job has under another name."""

_ELSEWHERE_OFF_POLICY = {"minibatch_size": "spec.environment.rolloutLength, since a batch is one fragment"}
"""Likewise, for algorithms other than PPO."""

_INEFFECTIVE = frozenset(
    [
        # Settings of RLlib's own sampling, threads and queues, which the learner alone does not have.
        "broadcast_interval",
        "learner_queue_size",
        "learner_queue_timeout",
        "minibatch_buffer_size",
        "num_gpu_loader_threads",
        "num_multi_gpu_tower_stacks",
        "replay_buffer_num_slots",
        "replay_proportion",
        "simple_queue_size",
        "timeout_s_aggregator_manager",
        "timeout_s_sampler_manager",
        # Settings of RLlib's old API stack, or settings that nothing reads.
        "decay",
        "entropy_coeff_schedule",
        "epsilon",
        "lr_schedule",
        "momentum",
        "opt_type",
        "optimizer",
        "target_worker_clipping",
        "use_gae",
        # Python objects.
        "add_default_connectors_to_learner_pipeline",
        "learner_class",
        "learner_config_dict",
        "learner_connector",
    ]
)
_INEFFECTIVE_OFF_POLICY = frozenset(["lambda_", "shuffle_batch_per_epoch"])
"""Likewise, for algorithms other than PPO: V-trace has no lambda, and its batch stays in order."""

_AT_LEAST_ONE = frozenset(
    ["circular_buffer_iterations_per_batch", "circular_buffer_num_batches", "num_epochs"],
)
_AT_MOST_ONE = frozenset(["gamma", "lambda_", "tau"])
_ABOVE_ZERO = frozenset(
    ["clip_param", "vf_clip_param", "vtrace_clip_pg_rho_threshold", "vtrace_clip_rho_threshold"]
)
"""With 0 the policy or the critic would learn nothing."""

_NULLABLE = frozenset(
    [
        "grad_clip",
        "minibatch_size",
        "vf_clip_param",
        "vtrace_clip_pg_rho_threshold",
        "vtrace_clip_rho_threshold",
    ]
)
"""Settings that null switches off. RLlib's types allow null for all settings, but its learners fail with null
in the others, or take it for another value."""


def configure(name: str, settings: Mapping[str, Any], **fixed: Any) -> AlgorithmConfig:
    """RLlib's config of the algorithm `name` with these settings, for a learner in this process.

    `fixed` are further keywords of `training()`, which a job cannot set.
    """
    config = CONFIGS[name]()
    known = keywords(name)
    # RLlib makes integer tensors of whole numbers, which cannot be scaled by 1.5.
    typed = {key: TypeAdapter(known[key]).validate_python(value) for key, value in settings.items()}
    return config.learners(num_learners=0).env_runners(num_env_runners=0).training(**typed, **fixed)


def mistakes(name: str, settings: Mapping[str, Any]) -> list[FieldError]:
    """Every mistake in the settings: unknown names, wrong types, and what RLlib itself refuses."""
    known = keywords(name)
    found = []
    for key, value in settings.items():
        message = _message(name, key, value, known)
        if message:
            found.append(FieldError(f"spec.algorithm.rllib.{key}", value, message))
    if found:
        return found
    try:
        # The batch has the size of a round, so RLlib's check against its own default size says nothing.
        configure(name, settings, train_batch_size_per_learner=2**31).validate()
    except ValueError as error:
        # The second line says how to switch the checks off.
        reason = str(error).splitlines()[0]
        return [FieldError("spec.algorithm.rllib", dict(settings), f"RLlib refuses it: {reason}")]
    return []


def _message(name: str, key: str, value: Any, known: Mapping[str, Any]) -> str | None:
    config = CONFIGS[name]
    elsewhere = _ELSEWHERE | ({} if name == "rllib/ppo" else _ELSEWHERE_OFF_POLICY)
    present = key if key in known else _renamed().get(plain(key), key)
    if present in elsewhere:
        return f"is not set here; remove it and set {elsewhere[present]}"
    if present != key and present in known:
        return f"is {present} in RLlib's {config.__name__}.training(); rename it"
    if present not in known and (present in _INEFFECTIVE or hasattr(config(), present)):
        return "has no effect on RLlib's learner alone; remove it"
    if key not in known:
        foreign = known_as(key)
        close = f"spec.{foreign.field}" if foreign and not foreign.setting else nearest(key, list(known))
        remedy = f"did you mean {close}?" if close else f"known are {', '.join(sorted(known))}"
        return f"is not a setting of RLlib's {config.__name__}.training(); {remedy}"
    if value is None:
        allowed = _readable(known[key])
        return None if key in _NULLABLE else f"must be {allowed}; correct it or leave it out for the default"
    try:
        TypeAdapter(known[key]).validate_python(value, strict=True)
    except ValidationError:
        return f"must be {_readable(known[key])}; correct it"
    return _out_of_range(key, _numbers(value))


def _out_of_range(key: str, numbers: list[float]) -> str | None:
    lowest = 1 if key in _AT_LEAST_ONE else 0
    allowed = f"at least {lowest}"
    if key in _AT_MOST_ONE:
        allowed = "from 0 to 1"
    elif key in _ABOVE_ZERO:
        allowed = "above 0"
    off = ", or null switches it off" if key in _NULLABLE else ""
    if not all(number >= lowest for number in numbers) or (key in _ABOVE_ZERO and 0 in numbers):
        return f"must be {allowed}; raise it{off}"
    if key in _AT_MOST_ONE and max(numbers) > 1:
        return f"must be {allowed}; lower it"
    return f"must be finite; lower it{off}" if math.inf in numbers else None


def _numbers(value: Any) -> list[float]:
    """The number itself, or the numbers of a schedule; an empty list for anything else."""
    if isinstance(value, int | float):
        return [value]
    return [number for step in value for number in step] if isinstance(value, list) else []


def keywords(name: str) -> dict[str, Any]:
    """The settings that a job may make: the keywords of `training()` of the algorithm's config, with their
    types. The keywords of all base classes count, since each class passes on those that it does not know."""
    config = CONFIGS[name]
    found: dict[str, Any] = {}
    for owner in config.__mro__:
        training = vars(owner).get("training")
        if training is None:
            continue
        for keyword in inspect.signature(training).parameters.values():
            # Deprecated keywords have no annotation.
            if keyword.kind is keyword.KEYWORD_ONLY and keyword.annotation is not keyword.empty:
                found.setdefault(keyword.name, keyword.annotation)
    # PPO's annotation says a number, but every algorithm takes a schedule.
    found["entropy_coeff"] = found["lr"]
    left_out = _INEFFECTIVE | _ELSEWHERE.keys()
    if name != "rllib/ppo":
        left_out |= _INEFFECTIVE_OFF_POLICY | _ELSEWHERE_OFF_POLICY.keys()
    return {key: found[key] for key in found if key not in left_out and not key.startswith("_")}


@cache
def _renamed() -> dict[str, str]:
    """RLlib's present names of settings, by all names that they have here and elsewhere."""
    known = {key for name in CONFIGS for key in keywords(name)}
    return {
        plain(name): row.rllib[0]
        for row in reversed(FOREIGN_NAMES)  # the first of those with one name is meant
        if row.rllib and row.setting and row.rllib[0] in known
        for name in (*row.names, row.setting)
    }


def _readable(annotation: Any) -> str:
    words = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    options = typing.get_args(annotation) if union else (annotation,)
    schedule = "a schedule [[step, value], ...]"
    return " or ".join(
        dict.fromkeys(words.get(option, schedule) for option in options if option is not type(None))
    )
