"""Check the environment of NITRO_ENVIRONMENT: `python -m nitro_actor.check SECONDS FILE`.

It is built as an actor builds it, which takes as long as it takes. Then it is checked for so many seconds, or
fewer. What is found goes to standard output, see `findings`; what the environment prints to standard error.
FILE is an open descriptor, to which the call that is running is written, see `Calls`.
The process ends when its standard input does.
"""

import contextlib
import os
import signal
import sys
import threading
from typing import TextIO

import nitro_actor.startup  # noqa: F401 - before numpy loads
from nitro_actor import entry_points
from nitro_actor.agents.tuples import TupleEnvironment
from nitro_actor.check.checkers import gymnasium_checks, petting_zoo_checks
from nitro_actor.check.findings import (
    CALLS,
    CLOSING,
    ENDS,
    GYMNASIUM,
    PETTING_ZOO,
    RESUMING,
    SEEDS,
    Clock,
    Findings,
    Skipped,
)
from nitro_actor.check.parts import (
    Before,
    SeedsSkipped,
    about_one,
    closing,
    ends,
    equal_seeds,
    finite,
    goes_on,
    resuming,
)
from nitro_actor.check.player import Player
from nitro_actor.check_process import Calls
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.environment import Environment
from nitro_actor.make_env import make_env, raw_factory

_NICENESS = 10
"""A training starts beside the check, and goes first."""


def main() -> None:
    """Check, and end the process with all that the environment has left in it."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    check(os.environ.get("NITRO_ENVIRONMENT", ""), float(sys.argv[1]), answers, Calls(int(sys.argv[2])))
    os._exit(0)  # whatever threads there are


def check(settings: str, seconds: float, out: TextIO, calls: Calls) -> None:
    """Check an environment.

    Args:
        settings: as `EnvironmentConfig.from_json` takes them.
        out: for what is found, see `findings`.
    """
    findings = Findings(out)
    before = Before.now()
    try:
        entry_points.find_code()
        config = EnvironmentConfig.from_json(settings)
        environment = make_env(config)
    except EnvironmentConfigError as error:
        findings.write(error=about_one(error))
        return
    findings.write(environment=environment.spec.to_json())
    _check(config, environment, findings, Clock(seconds), before, calls)
    findings.write(end=True)


def _check(
    config: EnvironmentConfig,
    environment: Environment,
    findings: Findings,
    clock: Clock,
    before: Before,
    calls: Calls,
) -> None:
    several = environment.spec.several
    # Tuples of spaces for several agents have no checker: gymnasium's wants one reward.
    make = None if isinstance(environment.raw(), TupleEnvironment) else raw_factory(config)
    checker = PETTING_ZOO if several else GYMNASIUM
    own = [] if make is None else [checker]
    findings.write(parts=[CALLS, SEEDS, *own, RESUMING, ENDS, CLOSING])
    player = Player(environment, calls)
    try:
        spent = 0.0, 0.0
        with findings.part(SEEDS):
            try:
                spent = equal_seeds(player, findings, clock)
            except SeedsSkipped as skipped:
                spent = skipped.spent
                raise
        findings.write(done=CALLS)
        findings.write(measured={"reset_seconds": finite(spent[0]), "step_seconds": finite(spent[1])})
        if make is not None:
            with findings.part(checker), calls.during(checker):
                if not several and environment.available:
                    raise Skipped("it plays actions that the masks do not allow")
                if learned := environment.spec.stateful_wrappers:
                    raise Skipped(goes_on(learned[0]))
                (petting_zoo_checks if several else gymnasium_checks)(make, findings, clock, spent)
        with findings.part(RESUMING):
            findings.write(measured=resuming(player, findings, clock, spent[1]))
        with findings.part(ENDS):
            ends(player, findings, clock)
        with findings.part(CLOSING), calls.during("close"):
            closing(environment, before, findings)
    except EnvironmentCallError as error:
        findings.tell("fault", about_one(error))


def _end_with_parent() -> None:
    """End the process, and those that its environment has started, when nobody holds its input any more."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdin.buffer.read()
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
