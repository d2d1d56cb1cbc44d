"""A toggle of sharing in the output of `nitro train`."""

import io
import json

from nitro_learner.run.views.table import JsonLines, PlainLines
from nitro_learner.training.sharing.toggles import Regrouping
from shared_runs import PAIRED

EVENT = Regrouping(1, 6, True, PAIRED, frozenset({"agent_2"}), "the round was drawn", 7)


def test_people_read_a_sentence() -> None:
    out = io.StringIO()
    PlainLines(out).on_policies_regrouped(EVENT)
    assert out.getvalue() == f"{EVENT.sentence}\n"
    assert "agent_1, agent_2" in EVENT.sentence
    assert "the round was drawn" in EVENT.sentence


def test_programs_read_an_object() -> None:
    out = io.StringIO()
    JsonLines(out).on_policies_regrouped(EVENT)
    assert json.loads(out.getvalue()) == {
        "event": "sharing",
        "round": 6,
        "shared": True,
        "groups": {"agent_0": ["agent_0"], "agent_2": ["agent_1", "agent_2"]},
        "reason": "the round was drawn",
    }
