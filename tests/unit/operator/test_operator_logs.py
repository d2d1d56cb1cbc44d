"""The operator's log has the time in the form that learner and actors have."""

import json
import os
import re
import subprocess
import sys

import pytest

OPERATOR = """
import logging, kopf
from nitro_operator.__main__ import run
kopf.run = lambda **_: logging.getLogger("nitro_operator").warning("told")
run()
"""
LEARNER = """
import logging
from nitro_learner.run import logs
logs.configure(structured=True)
logging.getLogger("nitro_learner").warning("told")
"""
ACTOR = """
from nitro_actor.logs import log
log("told")
"""

VARIABLES = {**os.environ, **{f"NITRO_{name}_IMAGE": "x:1" for name in ("ACTOR", "LEARNER", "REDIS")}}


@pytest.mark.parametrize("program", [OPERATOR, LEARNER, ACTOR], ids=["operator", "learner", "actor"])
def test_all_logs_have_one_form_of_time(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=VARIABLES
    )
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "told" in line]
    entry = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])
    assert "timestamp" not in entry
