"""Lambda's report of an invocation, in the last line of its log: billed time and used memory.

The log comes back with `X-Amz-Log-Type: Tail`, at most its last 4 KB, in one of two forms that the function's
logging configuration chooses: a line of text, or one JSON object per line.

The init phase is billed. "Billed Duration" holds it on the invocation that met a cold start: always so for
container images, since August 2025 for all functions (AWS Compute Blog, "AWS Lambda standardizes billing for
INIT Phase"). So this figure alone is the bill; "Init Duration" only says how much of it was the start.
"""

import base64
import binascii
import json
import math
import re
from dataclasses import dataclass
from typing import Any

_FIELD = re.compile(r"(Billed Duration|Memory Size|Max Memory Used): ([0-9.]+) (?:ms|MB)")


@dataclass(frozen=True)
class InvocationReport:
    """One invocation's bill.

    Attributes:
        billed_seconds: what is paid for, the init phase included.
        memory_mib: of the function.
        used_mib: most that the sandbox ever used.
    """

    billed_seconds: float
    memory_mib: int
    used_mib: int


def parse(log: str | None) -> InvocationReport | None:
    """Read the header X-Amz-Log-Result; None where it holds no whole report."""
    try:
        text = base64.b64decode(log or "", validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return None
    for line in reversed(text.splitlines()):
        if line.startswith("REPORT RequestId:"):
            return _report({name: float(value) for name, value in _FIELD.findall(line)})
        if '"platform.report"' in line:
            return _from_json(line)
    return None


def paid_seconds(report: InvocationReport | None, wall: float) -> float:
    """The seconds that are paid for. Where the report is lost, the time of the request is the estimate."""
    return wall if report is None else report.billed_seconds


def _from_json(line: str) -> InvocationReport | None:
    try:
        metrics = json.loads(line)["record"]["metrics"]
        names = {
            "Billed Duration": "billedDurationMs",
            "Memory Size": "memorySizeMB",
            "Max Memory Used": "maxMemoryUsedMB",
        }
        return _report({name: float(metrics[key]) for name, key in names.items()})
    except (ValueError, TypeError, KeyError):
        return None


def _report(values: dict[str, Any]) -> InvocationReport | None:
    try:
        report = InvocationReport(
            billed_seconds=values["Billed Duration"] / 1e3,
            memory_mib=round(values["Memory Size"]),
            used_mib=round(values["Max Memory Used"]),
        )
    except KeyError:
        return None
    return report if math.isfinite(report.billed_seconds) else None
