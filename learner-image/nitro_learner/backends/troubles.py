"""Why slots of a round failed: the last error of each, and the message about all of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nitro_learner.backends.base import NO_EVIDENCE, Evidence, RetryableError


@dataclass(frozen=True)
class Trouble:
    """The last error of one slot."""

    text: str
    evidence: Evidence = NO_EVIDENCE

    @staticmethod
    def of(error: RetryableError) -> "Trouble":
        """Make the trouble of a backend's error. An error of the environment itself needs no prefix."""
        return Trouble(error.message if error.evidence.environment else str(error), error.evidence)

    def __str__(self) -> str:
        return self.text


UNANSWERED = Trouble("no answer yet")
"""The trouble of a slot whose request still waits, often behind others that fail."""


def causes(troubles: Sequence[Trouble]) -> str:
    """The most frequent troubles, and the last output of an actor that met the first of them."""
    met = [trouble for trouble in troubles if trouble is not UNANSWERED] or [UNANSWERED]
    counted = Counter(trouble.text for trouble in met).most_common(3)
    told = counted[0][0] if len(counted) == 1 else "; ".join(f"{count} x {text}" for text, count in counted)
    output = next((t.evidence.output for t in met if t.text == counted[0][0] and t.evidence.output), ())
    return told + shown(output)


def shown(output: Sequence[str]) -> str:
    """An actor's last output, to be put behind a message; empty where it printed nothing."""
    return "".join(f"\n  {line}" for line in ("the actor's last output:", *output)) if output else ""


def evidence(troubles: Sequence[Trouble]) -> Evidence:
    """The evidence of all of them: whether the environment is at fault for each, and one traceback."""
    met = [trouble.evidence for trouble in troubles if trouble is not UNANSWERED]
    at_fault = bool(met) and all(trouble.environment for trouble in met)
    return Evidence(at_fault, trace=next((trouble.trace for trouble in met if trouble.trace), ""))
