"""A scaler of the user's own, the class that spec.scaling.entryPoint names::

    class Plateau(Scaler):
        def __init__(self, spec, patience=3):       # spec.scaling.settings: {patience: 5}
            super().__init__(spec)
            self.patience, self.best, self.waited = patience, -math.inf, 0

        def decide(self, outcome): ...

What it raises and what it returns is checked here, so that the rest of the learner meets a scaler like any
other.
"""

import contextlib
import inspect
import math
from collections.abc import Iterator
from numbers import Integral, Real
from pathlib import Path
from typing import Any, get_args

import nitro_learner
from nitro_actor import entry_points, traces
from nitro_actor.config import EnvironmentConfigError
from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_api.errors import ABSENT
from nitro_learner.checkpoints import store
from nitro_learner.scalers.base import Decision, Need, RoundOutcome, Scaler, Wish

_ENTRY_POINT, _SETTINGS = "spec.scaling.entryPoint", "spec.scaling.settings"
_OURS = Path(nitro_learner.__file__).parent


class ScalerError(Exception):
    """A user's scaler raised, or returned what it must not; the message says where, and what to do.

    Attributes:
        told: the message without the field.
        trace: the traceback; empty if it raised nothing.
    """

    def __init__(self, name: str, told: str, trace: str = "") -> None:
        super().__init__(f"{_ENTRY_POINT}: {name}: {told}")
        self.told = told
        self.trace = trace


class OwnScaler(Scaler):
    """A user's scaler. Every method raises ScalerError where the user's raises or returns what it must not.

    Raises:
        JobInvalid: the class cannot be loaded, is no scaler, or cannot be made with its settings.
    """

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        assert spec.scaling.entry_point, "the job's validation asks for it"
        self._name = spec.scaling.entry_point
        self._scaler = _made(_loaded(self._name), spec)
        try:
            self.needs = self._checked_needs()
            self._initial = self._number("initial", self._call("initial"))
        except ScalerError as error:
            raise JobInvalid([FieldError(_ENTRY_POINT, self._name, error.told)]) from error

    @property
    def initial(self) -> int:
        return self._initial

    def decide(self, outcome: RoundOutcome) -> Decision:
        where = f"decide after round {outcome.round}"
        decision = self._call("decide", outcome, where=where)
        if not isinstance(decision, Decision):
            told = f"{where} returned {traces.shown(decision)}; return a Decision, as Decision(actors=4)"
            raise ScalerError(self._name, told)
        actors = self._number(where, decision.actors)
        score = decision.score
        wishes = {name: wish for name, wish in decision.policies.items() if _sound(wish)}
        if (score is not None and not _finite(score)) or wishes.keys() != decision.policies.keys():
            told = f"{where} returned {traces.shown(decision)}, whose scores are not all finite numbers"
            raise ScalerError(self._name, f"{told}; give none where there is none")
        if unknown := sorted(wishes.keys() - outcome.policies.keys()):
            told = (
                f"{where} returned a wish of {', '.join(unknown)}, which {'/'.join(outcome.policies)} lacks"
            )
            raise ScalerError(self._name, f"{told}; name policies of outcome.policies alone")
        return Decision(actors, None if score is None else float(score), wishes)

    def foreseen(self, round: int) -> int | None:
        known = self._call("foreseen", round)
        return None if known is None else self._number("foreseen", known)

    def resumed(self, round: int, actors: int) -> int:
        return self._number("resumed", self._call("resumed", round, actors))

    def state_dict(self) -> dict[str, Any]:
        state = self._call("state_dict")
        try:
            store.pack(0, {"state_dict": dict(state)})
        except (TypeError, ValueError) as error:
            told = f"state_dict returned what a checkpoint cannot hold: {error}"
            remedy = "return a dict of numbers, texts, arrays, and lists and dicts of them"
            raise ScalerError(self._name, f"{told}; {remedy}") from error
        return dict(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._call("load_state_dict", state)

    def _call(self, member: str, *arguments: Any, where: str = "") -> Any:
        """What a member of the user's scaler gives."""
        with _watched(self._name, where or member):
            value = getattr(self._scaler, member)
            return value(*arguments) if callable(value) else value

    def _checked_needs(self) -> frozenset[Need]:
        needs = self._call("needs")
        known = get_args(Need)
        if not isinstance(needs, set | frozenset) or not needs <= set(known):
            told = f"needs is {traces.shown(needs)}; it must be a set of {' and '.join(map(repr, known))}"
            raise ScalerError(self._name, f"{told}, or of one of them")
        return frozenset(needs)

    def _number(self, where: str, value: Any) -> int:
        """A number of actors that the user's scaler gave."""
        fewest, most = self.scaling.min_actors, self.scaling.max_actors
        whole = not isinstance(value, bool) and isinstance(value, Integral)
        if whole and fewest <= int(value) <= most:
            return int(value)
        told = (
            f"{where} gave {traces.shown(value)} actors, which is no whole number from minActors, {fewest}, "
        )
        remedy = "self.clip(actors) makes one"
        raise ScalerError(self._name, f"{told}to maxActors, {most}; {remedy}")


def _loaded(name: str) -> type[Scaler]:
    entry_points.find_here()
    try:
        loaded = entry_points.load(name, image="the learner's image", ours=_OURS)
    except EnvironmentConfigError as error:
        raise _invalid(_ENTRY_POINT, name, str(error)) from error
    if not isinstance(loaded, type) or not issubclass(loaded, Scaler):
        what = f"must name a subclass of nitro_learner.scalers.Scaler, and names {traces.shown(loaded)}"
        raise _invalid(_ENTRY_POINT, name, f"{what}; derive your class from Scaler")
    if lacking := sorted(loaded.__abstractmethods__):
        what = f"names a class without a method {' and '.join(lacking)}{_defined(loaded)}"
        raise _invalid(_ENTRY_POINT, name, f"{what}; define it")
    return loaded


def _made(made_of: type[Scaler], spec: JobSpec) -> Scaler:
    """The scaler, made with its settings, which are the constructor's keyword arguments behind the spec."""
    name, settings = str(spec.scaling.entry_point), spec.scaling.settings or {}
    remedy = "correct the settings, or the constructor"
    try:
        inspect.signature(made_of).bind(spec, **settings)
    except TypeError as error:
        what = f"do not fit the constructor of {name}: {error}{_defined(made_of)}"
        raise _invalid(_SETTINGS, settings or ABSENT, f"{what}; {remedy}") from None
    try:
        with _watched(name, f"the constructor of {name}"):
            return made_of(spec, **settings)
    except ScalerError as error:
        path, value = (_SETTINGS, settings) if settings else (_ENTRY_POINT, name)
        raise _invalid(path, value, f"{error.told}; {remedy}") from error


@contextlib.contextmanager
def _watched(name: str, where: str) -> Iterator[None]:
    """Raise ScalerError where the user's code raises. Ctrl-C and a cancelled task are not its own."""
    try:
        yield
    except (Exception, SystemExit) as error:
        told = f"{where} raised {traces.words(error)}{traces.raised_at(error, ours=_OURS)}"
        raise ScalerError(name, told, traces.trace(error)) from error


def _invalid(path: str, value: Any, message: str) -> JobInvalid:
    return JobInvalid([FieldError(path, value, message)])


def _defined(made_of: type) -> str:
    """Where a class is defined, as the end of a message; empty if that is not known."""
    try:
        return f" ({inspect.getsourcefile(made_of)}:{inspect.getsourcelines(made_of)[1]})"
    except (OSError, TypeError):
        return ""


def _sound(wish: Any) -> bool:
    return isinstance(wish, Wish) and _finite(wish.score) and _finite(wish.actors)


def _finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
