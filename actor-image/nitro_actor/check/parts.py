"""The parts of a check that play the environment as an actor does."""

import os
import threading
import time
import warnings
from dataclasses import dataclass
from multiprocessing import active_children
from typing import Any

import numpy as np

from nitro_actor import wire
from nitro_actor.check.call_checker import CallChecker
from nitro_actor.check.findings import LITTLE_TIME, SEEDS_DIFFER, Clock, Findings, Skipped
from nitro_actor.check.player import Player, Seen, difference
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.environment import Environment

_SEED = 123
_STEPS = 200
"""Steps of a play, at most."""
_LEAST_STEPS = 10
_SHARE = 0.25
"""Share of the time that is left, for the first of two equal plays."""
_RESUMED_STEPS = 20
_NEVER = 30_000
"""Steps without an end of an episode that are too many: an evaluation plays no more of one."""


def equal_seeds(player: Player, findings: Findings, clock: Clock) -> tuple[float, float]:
    """Play from one seed twice, and look at all that the first play returns.

    Returns:
        Seconds of a reset and of a step.

    Raises:
        EnvironmentCallError: the environment raised, or returned what no environment may.
        Skipped: equal seeds cannot give equal episodes, or there was no time for a step.
    """
    raw = player.environment.raw()
    call_checker = None if raw is None else CallChecker(raw, findings)
    first = _play(player, _STEPS, Clock(_SHARE * clock.left()))
    if call_checker is not None:
        call_checker.end()
    before, steps = player.step_seconds, len(first) - 1
    second = _play(player, steps, clock)
    spent = player.reset_seconds, (player.step_seconds - before) / max(1, len(second) - 1)
    learned = player.environment.spec.stateful_wrappers
    if learned:  # the learner warns of them
        raise SeedsSkipped(goes_on(learned[0]), spent)
    if steps < _LEAST_STEPS and player.episodes == 0:
        raise SeedsSkipped(f"there was time for {steps} steps", spent)
    mismatch = difference(first[: len(second)], second)
    if mismatch is not None:
        _tell_difference(raw, findings, *mismatch)
    return spent


def goes_on(wrapper: str) -> str:
    """Why an environment in this wrapper of gymnasium plays no episode twice."""
    return f"gymnasium.wrappers.{wrapper} goes on from episode to episode"


class SeedsSkipped(Skipped):
    """As `Skipped`, with the result of `equal_seeds`."""

    def __init__(self, why: str, spent: tuple[float, float]) -> None:
        super().__init__(why)
        self.spent = spent


def _play(player: Player, steps: int, clock: Clock) -> list[Seen]:
    player.draw_from(_SEED)
    seen = [player.begin(_SEED)]
    while len(seen) <= steps and not (clock.over() and len(seen) > 1):
        seen.append(player.play())
    return seen


def _tell_difference(raw: Any, findings: Findings, where: str, close: bool) -> None:
    message = f"two plays of seed {_SEED} with equal actions differ: {where}"
    declared = getattr(getattr(raw, "spec", None), "nondeterministic", False)
    if declared or close:
        why = "its registration says nondeterministic" if declared else "in the last digits only"
        findings.tell("warning", f"{message} ({why}). Runs of one seed will differ, too")
        return
    findings.tell(
        "fault",
        f"reset ignores `seed`, or what it seeds is not all that is random: {message}. Call "
        "super().reset(seed=seed) in reset, draw all random numbers from self.np_random, and set back "
        "everything that an episode changes",
        kind=SEEDS_DIFFER,
    )


def resuming(player: Player, findings: Findings, clock: Clock, step_seconds: float) -> dict[str, Any]:
    """Save a state, play on, go back to it and play the same again. Returns what it costs.

    Raises:
        EnvironmentCallError: the environment raised in its steps.
        Skipped: it would take more time than is left.
    """
    environment = player.environment
    if not environment.spec.resumable:
        return {"resumable": False}
    if 2 * _RESUMED_STEPS * step_seconds > clock.left():
        raise Skipped(LITTLE_TIME)
    steps = player.steps
    try:
        with player.calls.during("get_state"):
            saved = environment.snapshot()
        size = sum(array.nbytes for array in saved.values())
        first = _on(player)
        began = time.perf_counter()
        with player.calls.during("set_state"):
            environment.restore(saved)
    except (EnvironmentCallError, wire.WireError, ValueError, KeyError) as error:
        findings.tell("fault", f"its state cannot be saved and restored: {about_one(error)}")
        return {"resumable": True}
    seconds = time.perf_counter() - began
    mismatch = difference(first, _on(player))
    player.steps = steps
    if mismatch is not None and not findings.has(SEEDS_DIFFER):  # otherwise no two plays are equal
        findings.tell(
            "fault",
            f"set_state does not restore all that get_state should have saved: {mismatch[0]}, where both "
            "went on from one state with equal actions. Save everything that step reads or changes",
        )
    return {"resumable": True, "state_bytes": size, "resume_seconds": finite(seconds)}


def _on(player: Player) -> list[Seen]:
    player.draw_from(_SEED + 1)
    return [player.play() for _ in range(_RESUMED_STEPS)]


def ends(player: Player, findings: Findings, clock: Clock) -> None:
    """Play on until an episode ends, unless a time limit is known.

    Raises:
        EnvironmentCallError: see `equal_seeds`.
        Skipped: none ended in the time that there was.
    """
    if player.environment.spec.time_limit is not None:
        return
    while player.episodes == 0:
        if player.steps >= _NEVER:
            findings.tell(
                "fault",
                f"no episode ended within {_NEVER:,} steps of random actions, and no time limit is known: "
                "returns are counted where an episode ends, and an evaluation plays no more steps of one. "
                "Return truncated=True after a number of steps, or wrap it in gymnasium.wrappers.TimeLimit",
            )
            return
        if clock.over():
            raise Skipped(f"{player.steps:,} steps were played, and none of them ended an episode")
        player.play()


@dataclass(frozen=True)
class Before:
    """What ran in this process before the environment was built."""

    threads: set[threading.Thread]
    child: bool
    """Whether there was a child process."""

    @classmethod
    def now(cls) -> "Before":
        return cls(set(threading.enumerate()), _has_child())


def closing(environment: Environment, before: Before, findings: Findings) -> None:
    """Close the environment and look at what it leaves."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        environment.close()
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            findings.tell("warning", about_one(warning.message))
    left = sorted({thread.name for thread in threading.enumerate() if thread not in before.threads})
    if left:
        findings.tell("warning", f"close leaves threads that run on: {', '.join(left)}; end them in close")
    if _has_child() and not before.child:
        findings.tell("warning", "close leaves child processes that run on; end them in close")


def _has_child() -> bool:
    if active_children():
        return True
    try:
        return os.waitpid(-1, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def about_one(error: object) -> str:
    """An error's text without the number of the copy, of which there is one."""
    return str(error).replace("environment 0: ", "").replace(" of environment 0", "")


def finite(seconds: float) -> float:
    """Seconds for JSON."""
    return float(np.round(seconds, 9))
