"""What a check of an environment has found so far, read from the lines of `nitro_actor.check`.

report = report_of(process.record(10))
report.faults       # change what is learned
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nitro_actor.check_process import GRACE_SECONDS, Record
from nitro_actor.protocol.environment import DescribedEnvironment

NOTHING_YET = "all of it"
"""The part of a check that ended before the environment was built."""
NO_TIME = "there was no time for it"
_ITS_CALLS = ("reset", "step", "get_state", "set_state", "close")
"""Calls of the environment in which a check may hang; in a checker a second copy plays."""
_MORE_SECONDS = 60


@dataclass
class Report:
    """A check's findings, each a sentence.

    Attributes:
        environment: None where the environment was not built.
        error: why it cannot be built; empty where it was, or where that is not known.
        faults: what changes what is learned.
        warnings: what may.
        remarks: on style, of gymnasium's and PettingZoo's checkers.
        unchecked: part of the check -> why it was left out.
        measured: seconds of a reset and of a step, `resumable`, bytes of a state, seconds to go on from one.
        ended: whether nothing more will be found.
    """

    environment: DescribedEnvironment | None = None
    error: str = ""
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    ended: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing is known against the environment."""
        return not self.wrong()

    def wrong(self) -> list[str]:
        """Why the environment cannot be built, and its faults."""
        return [fault for fault in [self.error, *self.faults] if fault]

    def costs(self) -> list[str]:
        """What a step, a reset and a saved state cost, in sentences."""
        told = []
        if seconds := self.measured.get("step_seconds"):
            told.append(f"a step takes {_time(seconds)}, a reset {_time(self.measured['reset_seconds'])}")
        if self.measured.get("resumable") is False:
            told.append(
                "episodes do not go on in the next round, because its state cannot be saved: give it "
                "get_state() and set_state()"
            )
        elif "state_bytes" in self.measured:
            told.append(
                f"episodes go on in the next round: a state has {self.measured['state_bytes']:,} bytes, and "
                f"going on from it takes {_time(self.measured['resume_seconds'])}"
            )
        return told

    def gaps(self) -> list[str]:
        """What was not checked, and why, in sentences."""
        return [f"not checked: {part} ({why})" for part, why in self.unchecked.items()]

    def left_out(self) -> str:
        """What was not checked, and why, as a part of a sentence."""
        return "; ".join(f"{part} ({why})" for part, why in self.unchecked.items())


def report_of(record: Record) -> Report:
    """The report of a check that has ended, or was ended."""
    if not record.died:
        report = read(record.lines, _late(record) if record.call else NO_TIME)
        if not report.ended and record.call in _ITS_CALLS and record.seconds >= GRACE_SECONDS:
            report.faults.append(
                f"{_late(record)}: it hangs, or is too slow for an actor, which has "
                f"spec.actor.timeoutSeconds for all steps of a rollout. "
                f"`nitro check-env --seconds {_MORE_SECONDS}` waits longer"
            )
        return report
    report = read(record.lines, record.died)
    report.unchecked = {}
    if report.environment is None:
        report.error = record.died
    else:
        report.faults.append(f"{record.died}, while it was checked")
    return report


def _late(record: Record) -> str:
    return f"{record.call} had not returned after {record.seconds:.1f} s"


def read(lines: Iterable[str], ending: str = NO_TIME) -> Report:
    """The report of a check that has written these lines.

    Args:
        ending: why there are no more lines, where the check did not come to its end.
    """
    report, stopped, open_parts = Report(), list[str](), dict[str, None]()
    for line in lines:
        try:
            told = json.loads(line)
        except ValueError:  # the last line of a process that was ended
            continue
        if not isinstance(told, dict):
            continue
        if "environment" in told:
            report.environment = DescribedEnvironment.from_json(told["environment"])
        elif "error" in told:
            report.error, report.ended = told["error"], True
        elif "parts" in told:
            open_parts = dict.fromkeys(told["parts"])
        elif "level" in told:
            level, text = told["level"], told["text"]
            findings = {"fault": report.faults, "warning": report.warnings, "remark": report.remarks}
            findings.get(level, stopped).append(text)
        elif "measured" in told:
            report.measured |= told["measured"]
        elif "end" in told:
            report.ended = True
        elif "done" in told:
            open_parts.pop(told["done"], None)
        elif "left" in told:
            open_parts.pop(told["left"], None)
            report.unchecked[told["left"]] = told["why"]
    # What a checker stops at is behind a fault that was found here in more words, or it is one itself.
    (report.remarks if report.faults else report.faults).extend(stopped)
    if not report.ended:
        waiting = list(open_parts) if report.environment is not None else [NOTHING_YET]
        report.unchecked |= dict.fromkeys(waiting, ending)
    return report


def _time(seconds: float) -> str:
    """A time with two or three digits, in the unit that fits."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"
