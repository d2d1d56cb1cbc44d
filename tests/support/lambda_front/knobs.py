"""What a test can set: the function's configuration and what goes wrong."""

import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

KINDS = ("throttled", "service_error", "timeout", "death", "lost")
"""What a fault can be: 429; 500; the invocation hangs until the time-out, and the sandbox is killed; the
sandbox is killed in the midst of it; it runs to its end and the answer is lost on the way."""


@dataclass
class Function:
    """The part of a function's configuration that an invocation depends on.

    `command` is what the image is started with, `environment` the function's variables.
    """

    environment: dict[str, str] = field(default_factory=dict)
    memory_mib: int = 1024
    timeout_seconds: float = 60.0
    command: tuple[str, ...] = (sys.executable, "-m", "awslambdaric", "nitro_actor.lambda_handler.handle")


@dataclass
class Knobs:
    """How the service behaves; may be changed at any time.

    Attributes:
        concurrency: invocations at once; one more is answered with 429 and `reason`.
        cold_start_seconds: before a new sandbox's process starts (the image's download, which is not billed).
        answer_delay_seconds: a slow link: each answer comes so much later.
        bytes_per_second: a thin link: each answer comes at most so fast; 0 is no limit.
        fault_rate: share of invocations that fail, as `faults` says, drawn from `fault_seed`.
        json_logs: the log of the platform is JSON, as a function's logging configuration may say.
        billing_file: every bill is appended to it as a line of JSON.
    """

    concurrency: int = 1000
    reason: str = "ReservedFunctionConcurrentInvocationLimitExceeded"
    cold_start_seconds: float = 0.0
    answer_delay_seconds: float = 0.0
    bytes_per_second: float = 0.0
    fault_rate: float = 0.0
    faults: tuple[str, ...] = KINDS
    fault_seed: int = 0
    json_logs: bool = False
    billing_file: Path | None = None


class Faults:
    """Draws what goes wrong with each invocation."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._random = random.Random(knobs.fault_seed)
        self.script: list[str | None] = []
        """What the next invocations meet, before anything is drawn."""

    def next(self) -> str | None:
        """What goes wrong with the next invocation, None for nothing."""
        if self.script:
            return self.script.pop(0)
        if self._random.random() >= self._knobs.fault_rate:
            return None
        return self._random.choice(self._knobs.faults)
