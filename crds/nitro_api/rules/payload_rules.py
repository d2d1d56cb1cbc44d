"""What travels in the payload of a Lambda invocation, and what cannot: 6 MB each way is Lambda's limit.

A job is refused here only if its messages cannot fit even with good compression. Other messages, such as
frames of pixels, may or may not fit. The learner finds that out with the first ones, and reports it in the
same words.
"""

import itertools
import json
import math

from nitro_api.errors import FieldError
from nitro_api.resolution.resolve import resolve
from nitro_api.spec.job import JobSpec, NitroTrainingJob
from nitro_api.spec.network import image_sizes

LIMIT_BYTES = 6 * 2**20
"""Lambda's limit of a request and of a response."""

VARIABLES_BYTES = 4 * 2**10
"""Lambda's limit of all environment variables of a function."""

ENVELOPE_BYTES = 8 * 2**10
"""Set aside for what is no tensor: metadata, JSON, and the log tail's header."""

CAPACITY_BYTES = (LIMIT_BYTES - ENVELOPE_BYTES) // 4 * 3
"""Most bytes of a message: Lambda takes JSON, so a message is written in base64, 4 characters for 3 bytes."""

WEIGHTS_PATH = "spec.network.hiddenSizes"
FRAGMENT_PATH = "spec.environment.rolloutLength"
"""The field to change if weights or fragments are too large."""

_FLOAT_BYTES = 4
# The share of float32 tensors that is left after zstd level 1, rounded down. Measured: 0.92 of weights (they
# are noise), 0.68 to 0.95 of the observations and actions of MuJoCo tasks.
# tests/unit/api/rules/test_payload_rules.py measures again.
_WEIGHTS_LEFT, _FRAGMENT_LEFT = 0.9, 0.6

SPACES: dict[str, tuple[int, int]] = {
    # gymnasium id: numbers in an observation, numbers in a continuous action (0 = discrete)
    "Ant-v5": (105, 8),
    "CartPole-v1": (4, 0),
    "HalfCheetah-v5": (17, 6),
    "Hopper-v5": (11, 3),
    "Humanoid-v5": (348, 17),
    "HumanoidStandup-v5": (348, 17),
    "InvertedDoublePendulum-v5": (9, 1),
    "InvertedPendulum-v5": (4, 1),
    "Pusher-v5": (23, 7),
    "Reacher-v5": (10, 2),
    "Swimmer-v5": (8, 2),
    "Walker2d-v5": (17, 6),
}
"""Shapes that are known without the environment. For any other id, the least possible is assumed."""


def too_large(what: str, size: int, remedy: str) -> str:
    """The sentence for a message that does not fit; `size` is in bytes, compressed, before base64."""
    return (
        f"needs {size / 1e6:.1f} MB for {what}, but with transport: Payload Lambda takes "
        f"{CAPACITY_BYTES / 1e6:.1f} MB (6 MB as base64); {remedy}, or set spec.backend.lambda.transport: "
        "Redis"
    )


def mistakes(job: NitroTrainingJob) -> list[FieldError]:
    """Errors of a Lambda job whose settings or messages Lambda cannot take, each at the field to change."""
    function = job.spec.backend.lambda_
    if function is None:
        return []
    spec = resolve(job).spec
    errors = []
    variable = f"NITRO_ENVIRONMENT={json.dumps(spec.environment.to_actor())}"
    if function.manage and len(variable) > VARIABLES_BYTES:
        text = (
            f"must be smaller: the function's environment variables would have {len(variable)} bytes, and "
            f"Lambda takes {VARIABLES_BYTES}; put data into a file of the actor image and name it here"
        )
        errors.append(FieldError("spec.environment.kwargs", "...", text))
    if function.transport != "Payload":
        return errors
    weights, fragment = least_weights(spec), least_fragment(spec)
    if weights > CAPACITY_BYTES:
        text = too_large("a request with the weights", weights, "lower hiddenSizes")
        errors.append(FieldError(WEIGHTS_PATH, spec.network.hidden_sizes, text))
    if fragment > CAPACITY_BYTES:
        text = too_large("a response with the transitions", fragment, "lower rolloutLength")
        errors.append(FieldError(FRAGMENT_PATH, spec.environment.rollout_length, text))
    return errors


def least_weights(spec: JobSpec) -> int:
    """Fewest bytes that the policy of a resolved job takes, compressed."""
    observation, action = spaces(spec)
    if spec.network.type == "conv":
        filters, inputs = _convolutions(spec)
    else:
        filters, inputs = 0, observation * spec.environment.frame_stack
    widths = [inputs, *spec.network.hidden_sizes]
    numbers = filters + sum(before * after for before, after in itertools.pairwise(widths))
    memory = spec.network.memory_size
    # A recurrent layer has three gates, each of which sees the features and the memory.
    numbers += 3 * memory * (widths[-1] + memory) + (memory or widths[-1]) * action
    return int(numbers * _FLOAT_BYTES * _WEIGHTS_LEFT)


def least_fragment(spec: JobSpec) -> int:
    """Fewest bytes that a rollout of a resolved job takes, compressed: observations, actions, and their mean
    where the algorithm wants the distribution."""
    observation, action = spaces(spec)
    mean = action if "distribution" in spec.algorithm.tensors else 0
    numbers = spec.environment.rollout_length * (observation + action + mean)
    return int(numbers * _FLOAT_BYTES * _FRAGMENT_LEFT)


def _convolutions(spec: JobSpec) -> tuple[int, int]:
    """How many numbers the filters have, and how many features the last layer gives. For images of unknown
    size, the least possible number of features."""
    atari, layers = spec.environment.atari, spec.network.conv_layers or []
    channels = [spec.environment.frame_stack if atari else 1, *(layer.channels for layer in layers)]
    filters = sum(
        before * layer.kernel**2 * layer.channels for before, layer in zip(channels, layers, strict=False)
    )
    sizes = image_sizes(atari.frame_size, atari.frame_size, layers) if atari else [(1, 1)]
    return filters, channels[-1] * math.prod(sizes[-1])


def spaces(spec: JobSpec) -> tuple[int, int]:
    """Numbers in an observation and in a continuous action; (0, 0) where they are not known."""
    environment = spec.environment
    if environment.entry_point is None and not environment.kwargs:
        return SPACES.get(environment.id, (0, 0))
    return 0, 0
