"""The user's own code in the learner, which a job names by `entryPoint`: it is loaded, made, and watched."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

import nitro_learner
from nitro_actor import entry_points, traces
from nitro_actor.config import EnvironmentConfigError
from nitro_api import FieldError, JobInvalid
from nitro_api.errors import ABSENT
from nitro_learner.checkpoints import store

Part = Literal["scaler", "algorithm"]

_BLOCKS: Mapping[Part, str] = {"scaler": "spec.scaling", "algorithm": "spec.algorithm"}
_OURS = Path(nitro_learner.__file__).parent


class OwnCodeError(Exception):
    """The user's own code raised, or gave what it must not; the message says where, and what to do.

    Attributes:
        part: what of the job is the user's own.
        told: the message without the field.
        trace: the traceback; empty if it raised nothing.
    """

    def __init__(self, part: Part, name: str, told: str, trace: str = "") -> None:
        super().__init__(f"{_BLOCKS[part]}.entryPoint: {name}: {told}")
        self.part = part
        self.told = told
        self.trace = trace


@dataclass(frozen=True)
class OwnCode:
    """What an entry point names.

    Attributes:
        part: what of the job it is.
        name: `module:attribute`.
        settings: the constructor's keyword arguments, beside what it gets by place.
    """

    part: Part
    name: str
    settings: Mapping[str, Any]

    def load(self) -> Any:
        """Import it.

        Raises:
            JobInvalid: it cannot be loaded.
        """
        entry_points.find_here()
        try:
            return entry_points.load(self.name, image="the learner's image", ours=_OURS)
        except EnvironmentConfigError as error:
            raise self.invalid(str(error)) from error

    def make(self, made_of: type, *arguments: Any, passing: Sequence[type[Exception]] = ()) -> Any:
        """Make an object of the class that was loaded.

        Args:
            made_of: the class.
            arguments: what it gets by place.
            passing: see `watched`.

        Raises:
            JobInvalid: the arguments do not fit its constructor, or that raises.
        """
        self.check_constructor(made_of, *arguments)
        try:
            with self.watched(f"the constructor of {self.name}", passing):
                return made_of(*arguments, **self.settings)
        except OwnCodeError as error:
            raise self._unmade(error.told) from error

    def check_constructor(self, made_of: Any, *arguments: Any) -> None:
        """Make sure that a class or a function can be called with these arguments and the settings.

        Raises:
            JobInvalid: it cannot.
        """
        try:
            inspect.signature(made_of).bind(*arguments, **self.settings)
        except TypeError as error:
            kind = "the constructor of " if isinstance(made_of, type) else ""
            what = f"do not fit {kind}{self.name}: {error}{traces.defined(made_of)}"
            raise self._of_settings(self.settings or ABSENT, f"{what}; {_REMEDY}") from None

    def state(self, state: Any) -> dict[str, Any]:
        """What its `state_dict` returned.

        Raises:
            OwnCodeError: a checkpoint cannot hold it.
        """
        try:
            store.pack(0, {"state_dict": dict(state)})
        except (TypeError, ValueError) as error:
            told = f"state_dict returned what a checkpoint cannot hold: {error}"
            remedy = "return a dict of numbers, texts, arrays, and lists and dicts of them"
            raise self.error(f"{told}; {remedy}") from error
        return dict(state)

    @contextlib.contextmanager
    def watched(self, where: str, passing: Sequence[type[Exception]] = ()) -> Iterator[None]:
        """Raise OwnCodeError where the user's code raises. Ctrl-C and a cancelled task are not its own.

        Args:
            where: what was called.
            passing: kinds of errors that our own code below may raise; those go on as they are.
        """
        try:
            yield
        except (OwnCodeError, torch.OutOfMemoryError):
            raise
        except (Exception, SystemExit) as error:
            place = traces.raised_at(error, ours=_OURS)
            if not place and isinstance(error, tuple(passing)):
                raise
            raise self.error(f"{where} raised {traces.words(error)}{place}", traces.trace(error)) from error

    def error(self, told: str, trace: str = "") -> OwnCodeError:
        """The error of this code."""
        return OwnCodeError(self.part, self.name, told, trace)

    def invalid(self, message: str) -> JobInvalid:
        """The refusal of a job whose entry point cannot be used."""
        return JobInvalid([FieldError(f"{_BLOCKS[self.part]}.entryPoint", self.name, message)])

    def _unmade(self, told: str) -> JobInvalid:
        message = f"{told}; {_REMEDY}"
        return self._of_settings(self.settings, message) if self.settings else self.invalid(message)

    def _of_settings(self, value: Any, message: str) -> JobInvalid:
        return JobInvalid([FieldError(f"{_BLOCKS[self.part]}.settings", value, message)])


_REMEDY = "correct the settings, or the constructor"
