"""What an invocation costs and what its log says of it, as Lambda writes both."""

import base64
import json
import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Bill:
    """One line of the front's own account.

    Attributes:
        billed_ms: handler and init phase together, rounded up to a millisecond.
        reported: whether the caller got to see it.
        outcome: "ok", "timeout", "death", "error" or "lost".
    """

    request_id: str
    seconds: float
    init_seconds: float | None
    memory_mib: int
    used_mib: int
    reported: bool
    outcome: str

    @property
    def billed_ms(self) -> int:
        return max(1, math.ceil(round(1e3 * (self.seconds + (self.init_seconds or 0.0)), 3)))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "billed_ms": self.billed_ms}

    def report(self, *, as_json: bool) -> str:
        """The log's last line."""
        status = {"timeout": "timeout", "death": "error"}.get(self.outcome)
        if as_json:
            metrics = {
                "durationMs": round(1e3 * self.seconds, 3),
                "billedDurationMs": self.billed_ms,
                "memorySizeMB": self.memory_mib,
                "maxMemoryUsedMB": self.used_mib,
            }
            if self.init_seconds is not None:
                metrics["initDurationMs"] = round(1e3 * self.init_seconds, 3)
            record = {"requestId": self.request_id, "status": status or "success", "metrics": metrics}
            return json.dumps({"type": "platform.report", "record": record})
        fields = [
            f"REPORT RequestId: {self.request_id}",
            f"Duration: {1e3 * self.seconds:.2f} ms",
            f"Billed Duration: {self.billed_ms} ms",
            f"Memory Size: {self.memory_mib} MB",
            f"Max Memory Used: {self.used_mib} MB",
        ]
        if self.init_seconds is not None:
            fields.append(f"Init Duration: {1e3 * self.init_seconds:.2f} ms")
        if status:
            fields.append(f"Status: {status}")
        return "\t".join(fields) + "\t"


def tail(lines: list[str], report: str) -> str:
    """The header X-Amz-Log-Result: the log's last 4 KB in base64."""
    text = "\n".join([*lines, report, ""]).encode()
    return base64.b64encode(text[-4096:]).decode()
