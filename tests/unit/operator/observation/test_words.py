"""The lines of an ended container's output that name the cause."""

from __future__ import annotations

import json

import pytest

from nitro_operator.observation.words import redis_words, words_of

ROUND = {"time": "2026-01-01T00:00:00.000Z", "level": "info", "message": "round done", "reward": 12.25}
CUT = json.dumps(ROUND)[37:]
REFUSED = {"time": 1.5, "level": "error", "event": "refused", "error": "environment a:B cannot be built: no"}
RAISED = {
    "level": "error",
    "message": "the update hangs",
    "error": "Traceback\n  File x\nTimeoutError: 600 s",
}


def log(*lines: object) -> str:
    return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("", "none."),
        ("spec.environment.id: no such id", '"spec.environment.id: no such id".'),
        ("first\nsecond\nthird\nfourth\nfifth", '"first / second / third / fourth / fifth".'),
        (log(CUT, ROUND, ROUND), "none."),
        (log({"event": "listening", "port": 8080}, REFUSED), '"environment a:B cannot be built: no".'),
        (log(CUT, ROUND, REFUSED), '"environment a:B cannot be built: no".'),
        (log(ROUND, RAISED), '"the update hangs / TimeoutError: 600 s".'),
        (log(ROUND, "Killed by the sandbox"), '"Killed by the sandbox".'),
        ('uilt: TypeError: bad", "trace": "..."}', '"...uilt: TypeError: bad", "trace": "..."}".'),
        (
            log("Traceback (most recent call last):", *(f"  line {n}" for n in range(50)), "KeyError: 'x'"),
            "\"line 47 / line 48 / line 49 / KeyError: 'x'\".",
        ),
    ],
)
def test_the_cause_is_found_and_what_is_logged_while_all_is_well_is_left_out(
    message: str, words: str
) -> None:
    assert words_of({"message": message}) == words


def test_a_long_cause_keeps_its_beginning_and_its_end() -> None:
    words = words_of({"message": f"kwargs {'x' * 5000} is no map"})
    assert words.startswith('"kwargs xxx')
    assert words.endswith('xxx is no map".')
    assert len(words) < 610


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("1:M 28 Nov 2026 12:00:00.123 * Ready to accept connections tcp", None),
        (
            "1:M 28 Nov 2026 12:00:00.123 # Out Of Memory allocating 64 bytes!\n"
            "1:M 28 Nov 2026 12:00:00.124 * Ready to accept connections tcp",
            "1:M 28 Nov 2026 12:00:00.123 # Out Of Memory allocating 64 bytes!",
        ),
        ("*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***\nBad directive", "Bad directive"),
        ("", None),
    ],
)
def test_redis_says_why_only_in_a_warning_or_without_a_log(message: str, words: str | None) -> None:
    assert redis_words({"message": message}) == words
