"""What a check's record comes to: a call that hangs is a fault, one that had little time is not."""

import json

import pytest

from learner_support import HOPPER
from nitro_actor.check_process import Record
from nitro_learner.run.checking.report import report_of

BEGUN = [json.dumps({"environment": HOPPER.json}), json.dumps({"parts": ["its steps", "its state"]})]


@pytest.mark.parametrize("call", ["reset", "step", "get_state", "set_state", "close"])
def test_a_call_that_hangs_is_a_fault(call: str) -> None:
    report = report_of(Record(BEGUN, call=call, seconds=12.34))
    (fault,) = report.faults
    assert fault.startswith(f"{call} had not returned after 12.3 s: it hangs, or")
    assert set(report.unchecked) == {"its steps", "its state"}


@pytest.mark.parametrize(("call", "seconds"), [("step", 3.0), ("gymnasium's check_env", 60.0), ("", 0.0)])
def test_a_call_that_is_slow_is_only_named(call: str, seconds: float) -> None:
    report = report_of(Record(BEGUN, call=call, seconds=seconds))
    assert report.sound
    said = f"{call} had not returned after {seconds:.1f} s" if call else "there was no time for it"
    assert report.unchecked == {"its steps": said, "its state": said}


def test_a_check_that_ended_is_not_late() -> None:
    ended = [*BEGUN, json.dumps({"done": "its steps"}), json.dumps({"end": True})]
    report = report_of(Record(ended, call="close", seconds=99.0))
    assert report.sound


def test_a_process_that_died_has_a_fault_or_an_error() -> None:
    died = "its process ended with code 7"
    assert report_of(Record(BEGUN, died)).faults == [f"{died}, while it was checked"]
    assert report_of(Record([], died)).error == died
