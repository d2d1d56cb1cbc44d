"""Listeners that fail: the run goes on, and a warning says so once."""

import logging
from typing import Any

import pytest

from nitro_api.costs.prices import RoundCost
from nitro_learner.training.listeners import Listeners
from nitro_learner.training.needs import ActorNeed
from nitro_learner.training.round_report import Listener, Outcome
from report_support import report

_EVENTS = [name for name in vars(Listener) if name.startswith("on_")]


class Failing(Listener):
    """A listener all of whose methods raise."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def fail(*_: Any, **__: Any) -> None:
            self.told.append(name)
            raise UnicodeEncodeError("ascii", "→", 0, 1, "ordinal not in range(128)")

        return fail


class Essential(Failing):
    """The same of one that the run needs."""

    essential = True


def _tell(listeners: Listeners, event: str) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "on_run_started": {"round": 0, "rounds": 1, "history": []},
        "on_round_requested": {"round": 1, "actors": 2},
        "on_stage_started": {"round": 1, "stage": "sample", "actors": 2},
        "on_need_changed": {"need": ActorNeed(2)},
        "on_round_done": {"report": report(1)},
        "on_policies_regrouped": {"regrouping": None},
        "on_cache_measured": {"used": 1, "limit": 0},
        "on_checkpoint_saved": {"round": 1, "location": "x"},
        "on_checkpoint_missed": {"round": 1, "why": "x"},
        "on_tracking_failed": {"tracker": "wandb"},
        "on_run_ended": {"outcome": Outcome("RoundsDone", "", True, 1, RoundCost(0.0, 0.0), 0.0)},
    }
    listeners.tell(lambda listener: getattr(listener, event)(**arguments[event]))


def test_a_listener_that_fails_is_told_everything_and_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing = Failing()
    listeners = Listeners([failing])
    for event in _EVENTS:
        _tell(listeners, event)
    assert failing.told == _EVENTS
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert warning.getMessage().startswith("Failing failed (UnicodeEncodeError: 'ascii' codec can't encode")
    assert "ordinal not in range" in warning.fields["traceback"]  # type: ignore[attr-defined]


def test_what_a_resumed_run_needs_must_be_written() -> None:
    listeners = Listeners([Essential()])
    for event in _EVENTS:
        with pytest.raises(UnicodeEncodeError):
            _tell(listeners, event)
