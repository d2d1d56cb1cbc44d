"""Errors of a job, field by field."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class _Absent:
    """The value of a field that is not there."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


@dataclass(frozen=True)
class FieldError:
    """One mistake: where it is, what was found there, what is allowed, and the remedy."""

    path: str
    """Full camelCase path such as `spec.scaling.minActors`; empty when it concerns the whole file."""

    value: Any
    """What was found there; ABSENT when nothing was."""

    message: str
    """What is allowed, and the remedy."""

    def __str__(self) -> str:
        value = "" if self.value is ABSENT else f"{_shown(self.value)}; "
        return f"{self.path}: {value}{self.message}" if self.path else f"{value}{self.message}"


class JobInvalid(ValueError):  # noqa: N818
    """A job was refused. `errors` holds every mistake found; `str()` gives one line for each."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        self.errors = list(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


_FOLDERS = {"experiments": "./experiments", "search": "./experiments", "rllib": "./rllib"}
"""Extras of the learner that bring another package of this repository -> its folder."""


def installing(*extras: str) -> str:
    """The remedy where the learner lacks packages: how to install these extras of it.

    The packages of a release are on no index, so that only a checkout has them.
    """
    folders = ["./actor-image", *(_FOLDERS[extra] for extra in extras if extra in _FOLDERS)]
    return f"in a checkout run pip install {' '.join(folders)} './learner-image[{','.join(extras)}]'"


def _shown(value: Any, limit: int = 60) -> str:
    """The value in JSON, cut to `limit` characters, so that an error stays one line."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
