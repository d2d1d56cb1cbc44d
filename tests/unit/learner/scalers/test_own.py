"""Scalers of a user's own: how they are made, and what is refused of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import own_scalers
from learner_support import job
from nitro_api import JobInvalid
from nitro_learner import scalers
from nitro_learner.algorithms.own_code import OwnCodeError
from nitro_learner.scalers import Decision, RoundOutcome, Scaler, Wish
from nitro_learner.training.failures import TrainingFailed, as_training_failure

FILE = str(Path(own_scalers.__file__))
RANGE = {"minActors": 2, "maxActors": 6, "initialActors": 3}


def make(name: str = "Plateau", settings: dict[str, Any] | None = None) -> Scaler:
    entry = name if ":" in name else f"own_scalers:{name}"
    given = {} if settings is None else {"settings": settings}
    return scalers.make(job(scaling={**RANGE, "entryPoint": entry, **given}).spec)


def outcome(round: int = 1, actors: int = 3, reward: float | None = 0.0) -> RoundOutcome:
    return RoundOutcome(round=round, actors=actors, reward_mean=reward)


def line_of(text: str) -> int:
    lines = Path(FILE).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_it_decides_with_its_settings_and_goes_on_from_its_state() -> None:
    rewards = [1.0, 4.0, 4.1, 4.2, 4.2, 9.0, 9.0, 9.0]

    def decided(scaler: Scaler, first: int, last: int, actors: int) -> list[int]:
        found = []
        for k in range(first, last + 1):
            actors = scaler.decide(outcome(k, actors, rewards[k - 1])).actors
            found.append(actors)
        return found

    settings = {"patience": 2, "weight": 1.0}
    whole, first, second = (make(settings=settings) for _ in range(3))
    expected = decided(whole, 1, 8, whole.initial)
    assert len(set(expected)) > 1, "nothing to see"
    begun = decided(first, 1, 4, first.initial)
    second.load_state_dict(first.state_dict())
    assert begun + decided(second, 5, 8, begun[-1]) == expected
    assert second.state_dict() == whole.state_dict()
    assert (whole.initial, whole.foreseen(1), whole.resumed(1, 5), whole.needs) == (3, None, 5, frozenset())


@pytest.mark.parametrize(
    ("name", "settings", "path", "told"),
    [
        ("nowhere:Plateau", None, "entryPoint", "cannot be loaded (No module named 'nowhere'); run nitro in"),
        ("own_scalers:Plato", None, "entryPoint", "correct what stands after the colon"),
        ("own_scalers:NUMBER", None, "entryPoint", "of nitro_learner.scalers.Scaler, and names 3; derive"),
        ("pathlib:Path", None, "entryPoint", "and names <class 'pathlib.Path'>; derive your class"),
        ("Undecided", None, "entryPoint", f"a class without a method decide ({FILE}:"),
        ("Plateau", {"patiense": 2}, "settings", "unexpected keyword argument 'patiense'"),
        ("Forgetful", {"patience": 2}, "settings", "do not fit the constructor of own_scalers:Forgetful"),
        ("Refusing", {"patience": 0}, "settings", "raised ValueError: patience is 0 ("),
        ("Refusing", None, "entryPoint", "raised ValueError: patience is 1 ("),
        (
            "Forgetful",
            None,
            "entryPoint",
            "initial raised AttributeError: 'Forgetful' object has no attribute",
        ),
        ("Needy", None, "entryPoint", "it must be a set of 'curvature' and 'gradient-noise', or of one"),
        ("Large", None, "entryPoint", "initial gave 1000 actors, which is no whole number from minActors, 2"),
    ],
)
def test_what_cannot_be_made_is_refused_with_its_field_and_a_remedy(
    name: str, settings: dict[str, Any] | None, path: str, told: str
) -> None:
    with pytest.raises(JobInvalid) as refused:
        make(name, settings)
    (error,) = refused.value.errors
    assert error.path == f"spec.scaling.{path}"
    assert told in error.message
    assert error.value == (settings if path == "settings" else name if ":" in name else f"own_scalers:{name}")


def test_in_a_pod_the_learners_image_must_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(JobInvalid, match="install its package in the learner's image"):
        make("nowhere:Plateau")


def test_the_line_of_the_users_code_is_told() -> None:
    with pytest.raises(JobInvalid) as refused:
        make("Refusing", {"patience": 0})
    line = line_of('raise ValueError(f"patience')
    assert f"({FILE}:{line} in __init__); correct the settings, or the constructor" in str(refused.value)
    scaler = make("Odd", {"raises": 3})
    with pytest.raises(OwnCodeError) as raised:
        scaler.decide(outcome(3))
    line = line_of("no number comes to mind")
    assert str(raised.value) == (
        "spec.scaling.entryPoint: own_scalers:Odd: decide after round 3 raised RuntimeError: no number comes "
        f"to mind ({FILE}:{line} in decide)"
    )
    assert "Traceback" in raised.value.trace


def test_the_users_line_counts_where_a_method_of_the_base_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(self: Scaler, outcome: RoundOutcome) -> Decision:
        return Decision(self.clip(math.nan * outcome.actors))

    monkeypatch.setattr(own_scalers.Plateau, "decide", decide)
    with pytest.raises(OwnCodeError, match=r"test_own.py:\d+ in decide"):
        make().decide(outcome())


@pytest.mark.parametrize("actors", [7, 1, 0, -3, 2.5, 3.0, math.nan, True, "4", None, [3]])
def test_a_number_that_no_round_can_have_is_refused(actors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_scalers.Plateau, "decide", lambda *_: Decision(actors))
    with pytest.raises(OwnCodeError) as refused:
        make().decide(outcome(4))
    told = str(refused.value)
    assert told.startswith("spec.scaling.entryPoint: own_scalers:Plateau: decide after round 4 gave ")
    assert "which is no whole number from minActors, 2, to maxActors, 6; self.clip(actors)" in told


def test_numpys_whole_numbers_are_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    decision = Decision(np.int64(4), np.float32(0.5))  # type: ignore[arg-type]
    monkeypatch.setattr(own_scalers.Plateau, "decide", lambda *_: decision)
    decided = make().decide(outcome())
    assert (type(decided.actors), decided.actors, type(decided.score)) == (int, 4, float)


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (5, "returned 5; return a Decision"),
        (None, "returned None; return a Decision"),
        (Decision(4, math.nan), "whose scores are not all finite numbers"),
        (Decision(4, 0.5, {"default": Wish(math.inf, 4.0)}), "whose scores are not all finite numbers"),
        (Decision(4, 0.5, {"mine": Wish(0.5, 4.0)}), "a wish of mine, which "),
    ],
)
def test_what_is_no_decision_is_refused(decision: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_scalers.Plateau, "decide", lambda *_: decision)
    with pytest.raises(OwnCodeError) as refused:
        make().decide(outcome())
    assert told in str(refused.value)


def test_a_state_that_no_checkpoint_holds_and_one_that_is_not_read_are_refused() -> None:
    scaler = make("Odd", {"decision": 3})
    with pytest.raises(
        OwnCodeError, match=r"state_dict returned what a checkpoint cannot hold: .* is a object"
    ):
        scaler.state_dict()
    with pytest.raises(OwnCodeError, match="load_state_dict raised KeyError: 'best'"):
        scaler.load_state_dict({"best": 1})


def test_its_failure_ends_the_run_and_no_resume_helps() -> None:
    with pytest.raises(TrainingFailed) as failed, as_training_failure():
        make("Odd", {"raises": 1}).decide(outcome())
    assert (failed.value.own, failed.value.resumable) == ("scaler", False)


def test_a_module_of_the_current_folder_is_found_as_actors_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from nitro_learner.scalers import Decision, Scaler\n\n"
        "class Same(Scaler):\n    def decide(self, outcome):\n        return Decision(outcome.actors)\n"
    )
    (tmp_path / "beside.py").write_text(code)
    (tmp_path / "broken.py").write_text("import nitro_learner\n\n1 / 0\n")
    monkeypatch.syspath_prepend("/nonexistent")  # restores the path after the test
    monkeypatch.chdir(tmp_path)
    assert make("beside:Same").decide(outcome(actors=5)).actors == 5
    with pytest.raises(JobInvalid) as refused:
        make("broken:Same")
    told = f"raised ZeroDivisionError: division by zero ({tmp_path}/broken.py:3 in <module>)"
    assert told in str(refused.value)
