"""A learner of the user's own, the class or the training loop that spec.algorithm.entryPoint names.

What it raises and what it returns is checked here, so that the rest of the learner meets an algorithm like
any other.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from nitro_actor import traces
from nitro_actor.protocol.weights import PolicyWeights
from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_api.algorithms.record import Feeding
from nitro_api.errors import ABSENT
from nitro_learner.algorithms.agents.team import Team, TeamMisfit
from nitro_learner.algorithms.base import (
    Learner,
    OffPolicyLearner,
    OnPolicyLearner,
    StateMisfit,
    UpdateResult,
)
from nitro_learner.algorithms.own.loop import OwnLoop
from nitro_learner.algorithms.own.ppo import OwnPpo
from nitro_learner.algorithms.own_code import OwnCode, OwnCodeError
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.architecture import NetworkMisfit

_PASSING = (FloatingPointError, JobInvalid, NetworkMisfit, StateMisfit, TeamMisfit)
"""What our own code below the user's class raises with a sentence of its own."""
_PROTOCOLS: Mapping[Feeding, type] = {"rounds": OnPolicyLearner, "arrivals": OffPolicyLearner}


def load(spec: JobSpec, needs: Collection[str] = ()) -> Any:
    """Import the class or the loop, and check it and its settings as far as no environment is needed.

    Args:
        needs: what the job's scaler asks to be measured.

    Raises:
        JobInvalid: it cannot be loaded, is no learner, or does not take the settings.
    """
    code = _code_of(spec)
    loaded, record = code.load(), spec.algorithm.record
    if not isinstance(loaded, type):
        _check_loop(spec, code, loaded, needs)
        return loaded
    protocol = _PROTOCOLS[record.feeding]
    members = sorted(_methods(Learner) | _methods(protocol))
    if lacking := [name for name in members if not callable(getattr(loaded, name, None))]:
        what = (
            f"names a class without {', '.join(lacking)}{traces.defined(loaded)}, which "
            f"{protocol.__name__} of nitro_learner.algorithms.base has, by whose methods "
            f"name: {record.name} is fed"
        )
        raise code.invalid(f"{what}; {_FORMS}")
    if issubclass(loaded, OwnPpo) and spec.network.recurrent:
        message = "is not for a subclass of OwnPpo; remove it"
        raise JobInvalid([FieldError("spec.network.recurrent", spec.network.recurrent.to_dict(), message)])
    _check_settings(code, loaded)
    code.check_constructor(loaded, None, "cpu")
    return loaded


def make(spec: JobSpec, team: Team, device: str) -> Learner:
    """The learner of a resolved job whose algorithm is the user's own.

    Raises:
        JobInvalid: as `load`, or the class cannot be made.
        NetworkMisfit: the network does not fit the observations.
    """
    code = _code_of(spec)
    loaded = load(spec)
    if not isinstance(loaded, type):
        return OwnLoop(code, loaded, team, device)
    kind = OwnOnPolicy if spec.algorithm.record.feeding == "rounds" else OwnOffPolicy
    return kind(code, loaded, team, device)


_FORMS = "derive it from nitro_learner.algorithms.own.OwnPpo, or give it all of these methods"
_TWO = (
    "name a class, which is an algorithm, or a function of the two parameters (sampler, run), which is a "
    "training loop"
)


class OwnLearner:
    """See `Learner`. Every method raises OwnCodeError where the user's raises or returns what it must not."""

    def __init__(self, code: OwnCode, made_of: type[Any], team: Team, device: str) -> None:
        self._code = code
        self._learner: Any = code.make(made_of, team, device, passing=_PASSING)
        try:
            self.policies: tuple[str, ...] = tuple(self._call("policies"))
            self.agents: Mapping[str, str] = dict(self._call("agents"))
        except OwnCodeError as error:
            raise code.invalid(error.told) from error

    def weights(self) -> dict[str, PolicyWeights]:
        weights = self._call("weights")
        sound = isinstance(weights, dict) and all(isinstance(w, PolicyWeights) for w in weights.values())
        if sound and set(weights) == set(self.policies):
            return cast("dict[str, PolicyWeights]", weights)
        remedy = f"return PolicyWeights by policy, of {', '.join(self.policies)}"
        raise self._code.error(f"weights returned {traces.shown(weights)}; {remedy}")

    def begin_round(self, round: int, rounds: int) -> None:
        self._call("begin_round", round, rounds)

    def state_dict(self) -> dict[str, Any]:
        return self._code.state(self._call("state_dict"))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._call("load_state_dict", state)

    def adopt(self, state: dict[str, Any]) -> None:
        self._call("adopt", state)

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        self._call("copy_slots", sources)

    def _call(self, member: str, *arguments: Any, where: str = "") -> Any:
        """What a member of the user's learner gives."""
        with self._code.watched(where or member, _PASSING):
            value = getattr(self._learner, member)
            return value(*arguments) if callable(value) else value

    def _results(self, member: str, results: Any) -> dict[str, UpdateResult]:
        sound = isinstance(results, dict) and all(isinstance(r, UpdateResult) for r in results.values())
        if sound and set(results) == set(self.policies):
            return cast("dict[str, UpdateResult]", results)
        remedy = f"return an UpdateResult by policy, of {', '.join(self.policies)}"
        raise self._code.error(f"{member} returned {traces.shown(results)}; {remedy}")


class OwnOnPolicy(OwnLearner):
    """See `OnPolicyLearner`."""

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        where = f"update of round {round}"
        return self._results(where, self._call("update", fragments, round, where=where))


class OwnOffPolicy(OwnLearner):
    """See `OffPolicyLearner`."""

    @property
    def max_staleness(self) -> int:
        return int(self._call("max_staleness"))

    def take(self, fragments: list[Fragment]) -> None:
        self._call("take", fragments)

    def replay(self) -> bool:
        return bool(self._call("replay"))

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        where = f"end_round of round {round}"
        return self._results(where, self._call("end_round", round, where=where))


def _check_loop(spec: JobSpec, code: OwnCode, loop: Any, needs: Collection[str]) -> None:
    """Make sure that a training loop can be called, fed and scaled.

    Raises:
        JobInvalid: it cannot.
    """
    if not callable(loop):
        raise code.invalid(f"names {traces.shown(loop)}; {_TWO}")
    try:
        inspect.signature(loop).bind(None, None)
    except TypeError as error:
        raise code.invalid(f"names what cannot be called so: {error}{traces.defined(loop)}; {_TWO}") from None
    code.check_constructor(loop, None, None)
    if spec.algorithm.record.feeding != "rounds":
        message = "is not for a training loop of your own, which gets whole rounds; set it to ppo"
        raise JobInvalid([FieldError("spec.algorithm.name", spec.algorithm.name, message)])
    if needs:
        message = (
            f"needs the objective's {' and '.join(sorted(needs))}, which is not known of a training loop of "
            "your own; choose fixed, schedule, growth or a scaler of your own"
        )
        raise JobInvalid([FieldError("spec.scaling.scaler", spec.scaling.decider, message)])


def _code_of(spec: JobSpec) -> OwnCode:
    assert spec.algorithm.entry_point, "who calls this asks for it"
    return OwnCode("algorithm", spec.algorithm.entry_point, spec.algorithm.settings or {})


def _methods(protocol: type) -> set[str]:
    """The names of a protocol's own methods, without its properties."""
    return {name for name, value in vars(protocol).items() if callable(value) and not name.startswith("_")}


def _check_settings(code: OwnCode, loaded: type[Any]) -> None:
    """Check the settings by the class's model `Settings`, where it has one.

    Raises:
        JobInvalid: names each field that is wrong.
    """
    model = getattr(loaded, "Settings", None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return
    path = "spec.algorithm.settings"
    known = {field.alias or name for name, field in model.model_fields.items()}
    has = f"{code.name} has {', '.join(sorted(known)) or 'none'}"
    errors = [
        FieldError(f"{path}.{name}", value, f"is no setting; {has}: correct it, or add it to Settings")
        for name, value in code.settings.items()
        if name not in known and model.model_config.get("extra") != "allow"
    ]
    try:
        model.model_validate({name: value for name, value in code.settings.items() if name in known})
    except ValidationError as error:
        for item in error.errors():
            place = ".".join([path, *map(str, item["loc"])])
            value = ABSENT if item["type"] == "missing" else item["input"]
            errors.append(FieldError(place, value, f"{item['msg']}; correct it{traces.defined(model)}"))
    if errors:
        raise JobInvalid(errors)
