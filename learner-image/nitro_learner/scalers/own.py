"""A scaler of the user's own, the class that spec.scaling.entryPoint names::

    class Plateau(Scaler):
        def __init__(self, spec, patience=3):       # spec.scaling.settings: {patience: 5}
            super().__init__(spec)
            self.patience, self.best, self.waited = patience, -math.inf, 0

        def decide(self, outcome): ...

What it raises and what it returns is checked here, so that the rest of the learner meets a scaler like any
other.
"""

import math
from numbers import Integral, Real
from typing import Any, get_args

from nitro_actor import traces
from nitro_api import JobSpec
from nitro_learner.algorithms.own_code import OwnCode, OwnCodeError
from nitro_learner.scalers.base import Decision, Need, RoundOutcome, Scaler, Wish


class OwnScaler(Scaler):
    """A user's scaler. Every method raises OwnCodeError where the user's raises or returns what it must not.

    Raises:
        JobInvalid: the class cannot be loaded, is no scaler, or cannot be made with its settings.
    """

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        assert spec.scaling.entry_point, "the job's validation asks for it"
        self._code = OwnCode("scaler", spec.scaling.entry_point, spec.scaling.settings or {})
        self._scaler: Scaler = self._code.make(_loaded(self._code), spec)
        try:
            self.needs = self._checked_needs()
            self._initial = self._number("initial", self._call("initial"))
        except OwnCodeError as error:
            raise self._code.invalid(error.told) from error

    @property
    def initial(self) -> int:
        return self._initial

    def decide(self, outcome: RoundOutcome) -> Decision:
        where = f"decide after round {outcome.round}"
        decision = self._call("decide", outcome, where=where)
        if not isinstance(decision, Decision):
            told = f"{where} returned {traces.shown(decision)}; return a Decision, as Decision(actors=4)"
            raise self._code.error(told)
        actors = self._number(where, decision.actors)
        score = decision.score
        wishes = {name: wish for name, wish in decision.policies.items() if _sound(wish)}
        if (score is not None and not _finite(score)) or wishes.keys() != decision.policies.keys():
            told = f"{where} returned {traces.shown(decision)}, whose scores are not all finite numbers"
            raise self._code.error(f"{told}; give none where there is none")
        if unknown := sorted(wishes.keys() - outcome.policies.keys()):
            told = (
                f"{where} returned a wish of {', '.join(unknown)}, which {'/'.join(outcome.policies)} lacks"
            )
            raise self._code.error(f"{told}; name policies of outcome.policies alone")
        return Decision(actors, None if score is None else float(score), wishes)

    def foreseen(self, round: int) -> int | None:
        known = self._call("foreseen", round)
        return None if known is None else self._number("foreseen", known)

    def resumed(self, round: int, actors: int) -> int:
        return self._number("resumed", self._call("resumed", round, actors))

    def state_dict(self) -> dict[str, Any]:
        return self._code.state(self._call("state_dict"))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._call("load_state_dict", state)

    def _call(self, member: str, *arguments: Any, where: str = "") -> Any:
        """What a member of the user's scaler gives."""
        with self._code.watched(where or member):
            value = getattr(self._scaler, member)
            return value(*arguments) if callable(value) else value

    def _checked_needs(self) -> frozenset[Need]:
        needs = self._call("needs")
        known = get_args(Need)
        if not isinstance(needs, set | frozenset) or not needs <= set(known):
            told = f"needs is {traces.shown(needs)}; it must be a set of {' and '.join(map(repr, known))}"
            raise self._code.error(f"{told}, or of one of them")
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
        raise self._code.error(f"{told}to maxActors, {most}; {remedy}")


def _loaded(code: OwnCode) -> type[Scaler]:
    loaded = code.load()
    if not isinstance(loaded, type) or not issubclass(loaded, Scaler):
        what = f"must name a subclass of nitro_learner.scalers.Scaler, and names {traces.shown(loaded)}"
        raise code.invalid(f"{what}; derive your class from Scaler")
    if lacking := sorted(loaded.__abstractmethods__):
        what = f"names a class without a method {' and '.join(lacking)}{traces.defined(loaded)}"
        raise code.invalid(f"{what}; define it")
    return loaded


def _sound(wish: Any) -> bool:
    return isinstance(wish, Wish) and _finite(wish.score) and _finite(wish.actors)


def _finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
