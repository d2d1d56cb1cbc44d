"""`nitro learn` in this process, as it runs in a learner's pod, but for its API server."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nitro_learner.cli import learn

RUN = "u"


def trained(patch: pytest.MonkeyPatch, client: Any, reporter: Callable[..., Any], folder: Path) -> int:
    """Run the command on the job that a client gets, and return its exit code.

    Args:
        client: in place of the API server's.
        reporter: makes what is used as a StatusReporter, from the client and the job's status.
        folder: of the run.
    """
    variables = {
        "NITRO_JOB_NAMESPACE": "team",
        "NITRO_JOB_NAME": "small",
        "NITRO_RUN": RUN,
        "NITRO_RUN_DIR": str(folder),
        "NITRO_ACTOR_URL": "http://127.0.0.1:9",
        "NITRO_REDIS_URL": "redis://127.0.0.1:9",
    }
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    with patch.context() as here:
        for name, value in variables.items():
            here.setenv(name, value)
        here.delenv("NITRO_METRICS_PORT", raising=False)
        here.setattr("nitro_learner.cluster.job.JobClient", lambda *_: client)
        here.setattr("nitro_learner.cluster.status_reporter.StatusReporter", reporter)
        here.setattr("nitro_learner.run.logs.configure", lambda **_: None)
        try:
            return learn.run(argparse.Namespace())
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
