"""gymnasium's and PettingZoo's own checkers of environments, which play copies of their own."""

import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nitro_actor import traces
from nitro_actor.check.findings import LITTLE_TIME, SEEDS_DIFFER, Clock, Findings, Skipped
from nitro_actor.engines.failures import close

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_RESETS, _STEPS = 12, 8
"""Calls that gymnasium's checker makes."""
_CYCLES = 100
"""Steps of PettingZoo's test, of two episodes."""

_EQUAL = "equal seeds give equal episodes all the same"
_NO_FAULT = (
    ("`options`", "options are never given here"),
    ("random", _EQUAL),
    ("infos returned by", "infos are not kept here"),
    ("share an object", "observations are copied here"),
    ("cannot be revived", "agents may come back here"),
)
"""What a checker stops at, and why it is no fault in a training."""
_LEFT_OUT = ("is different from the unwrapped version",)
"""Remarks on what Nitro does itself."""


def gymnasium_checks(
    make: Callable[[], Any], findings: Findings, clock: Clock, spent: tuple[float, float]
) -> None:
    """Run gymnasium's check_env.

    Raises:
        Skipped: it would take more time than is left.
    """
    from gymnasium.utils.env_checker import check_env

    if _RESETS * spent[0] + _STEPS * spent[1] > clock.left():
        raise Skipped(LITTLE_TIME)
    environment = _second(make)
    with _reporting("gymnasium's check_env", findings):
        check_env(environment, skip_render_check=True, skip_close_check=True)
    close(environment, 0)


def petting_zoo_checks(
    make: Callable[[], Any], findings: Findings, clock: Clock, spent: tuple[float, float]
) -> None:
    """Run PettingZoo's parallel_api_test. Arguments and errors as `gymnasium_checks`."""
    try:
        from pettingzoo.test import parallel_api_test  # type: ignore[import-untyped]
        from pettingzoo.utils.conversions import aec_to_parallel_wrapper  # type: ignore[import-untyped]
    except ImportError:
        raise Skipped("PettingZoo is not installed") from None
    environment = _second(make)
    if isinstance(getattr(environment, "unwrapped", environment), aec_to_parallel_wrapper):
        raise Skipped("it refuses what aec_to_parallel makes")
    steps = min(_CYCLES, int((clock.left() - 3 * spent[0]) / (4 * spent[1] + 1e-9)))
    if steps < 1:
        raise Skipped(LITTLE_TIME)
    with _reporting("PettingZoo's parallel_api_test", findings):
        parallel_api_test(environment, num_cycles=steps)
    close(environment, 0)


def _second(make: Callable[[], Any]) -> Any:
    """A copy beside the one that is played.

    Raises:
        Skipped: it cannot be built, as where a port or a licence serves one copy.
    """
    try:
        return make()
    except Exception as error:
        raise Skipped(f"a second copy cannot be built: {_sentence(error)}") from None


@contextmanager
def _reporting(checker: str, findings: Findings) -> Iterator[None]:
    """Tell what a checker warns of as remarks, and what it stops at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except BaseException as error:
            if not traces.of_its_code(error):
                raise
            text = _sentence(error)
            harmless = next((why for part, why in _NO_FAULT if part in text), "")
            if harmless == _EQUAL and findings.has(SEEDS_DIFFER):
                harmless = ""
            level = "warning" if harmless else "checker"
            findings.tell(level, f"{checker}: {text}{harmless and f' ({harmless})'}")
    for warning in caught:
        text = _uncoloured(str(warning.message))
        if issubclass(warning.category, UserWarning) and not any(part in text for part in _LEFT_OUT):
            findings.tell("remark", f"{checker}: {text}")


def _sentence(error: BaseException) -> str:
    """What a checker says; the condition itself, where it says nothing."""
    text = _uncoloured(traces.text(error))
    if isinstance(error, AssertionError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        return text or f"{last.line} (line {last.lineno} of {last.filename})"
    return f"{traces.words(error)}{traces.raised_at(error)}"


def _uncoloured(text: str) -> str:
    return _COLOUR.sub("", text).removeprefix("WARN: ").strip()
