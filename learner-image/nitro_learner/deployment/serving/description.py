"""The service in the words of OpenAPI, made from its routes, its models and the policy's spaces."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from nitro_actor.actions import action_space
from nitro_actor.masks import choices
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.deployment.serving.requests import Refusal

_COMPONENT = "#/components/schemas/"

Schema = dict[str, Any]


@dataclass(frozen=True)
class Route:
    """One request that the service answers.

    Attributes:
        method: GET or POST.
        path: without parameters.
        handler: answers it. The first line of its docstring says what it gives.
        answer: model of its JSON, or the content type of what it gives besides JSON.
        body: model of the JSON that it takes; None where it takes none.
        refusals: statuses with which it refuses, and why.
    """

    method: str
    path: str
    handler: Callable[[web.Request], Any]
    answer: type[BaseModel] | str
    body: type[BaseModel] | None = None
    refusals: Mapping[int, str] | None = None

    @property
    def summary(self) -> str:
        """What it gives."""
        return (self.handler.__doc__ or "").splitlines()[0].rstrip(".")


def described(routes: Iterable[Route], policy: TrainedPolicy, version: str) -> Schema:
    """The OpenAPI document of a service that serves `policy` by `routes`."""
    routes = list(routes)
    models = {model for route in routes for model in (route.answer, route.body) if isinstance(model, type)}
    ordered = sorted(models | {Refusal}, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [(model, "validation") for model in ordered], ref_template=_COMPONENT + "{model}"
    )
    schemas: dict[str, Schema] = definitions["$defs"]
    _fill_in(schemas, policy)
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"A policy for {policy.described.id}",
            "description": f"Trained by Nitro; saved after round {policy.round}.",
            "version": version,
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(route: Route) -> Schema:
    kind, schema = (
        (route.answer, {"type": "string"}) if isinstance(route.answer, str) else _json(route.answer)
    )
    answers = {"200": {"description": route.summary, "content": {kind: {"schema": schema}}}}
    refusal_kind, refusal = _json(Refusal)
    for status, why in (route.refusals or {}).items():
        answers[str(status)] = {"description": why, "content": {refusal_kind: {"schema": refusal}}}
    operation: Schema = {"summary": route.summary, "responses": answers}
    if route.body:
        body_kind, body = _json(route.body)
        operation["requestBody"] = {"required": True, "content": {body_kind: {"schema": body}}}
    return operation


def _json(model: type[BaseModel]) -> tuple[str, Schema]:
    return "application/json", {"$ref": _COMPONENT + model.__name__}


def _fill_in(schemas: dict[str, Schema], policy: TrainedPolicy) -> None:
    """Say of what shape the policy's observations, masks, states and actions are."""
    asked, acted = schemas["Act"]["properties"], schemas["Acted"]["properties"]
    several = policy.described.several

    def of_agents(schema_of: Callable[[str], Schema | None], *, all_of_them: bool = False) -> Schema:
        properties = {agent: schema for agent in policy.agents if (schema := schema_of(agent)) is not None}
        if not several:
            return properties.get(policy.agents[0], {"type": "null"})
        required = {"required": list(properties)} if all_of_them else {}
        return {"type": "object", "properties": properties, "additionalProperties": False, **required}

    asked["observation"] |= of_agents(lambda agent: _batch(_observation(policy, agent)))
    _replace(asked["available"], of_agents(lambda agent: _mask(policy, agent)))
    state = of_agents(lambda agent: _state(policy, agent))
    _replace(asked["state"], state)
    acted["action"] |= of_agents(lambda agent: _batch(_action(policy, agent)))
    acted["state"] = {"description": acted["state"]["description"], **state}


def _replace(field: Schema, schema: Schema) -> None:
    """Give a field that may be null a narrower schema."""
    field["anyOf"] = [schema, {"type": "null"}] if schema != {"type": "null"} else [schema]


def _observation(policy: TrainedPolicy, agent: str) -> Schema:
    observation = policy.of(agent).observation
    item: Schema = {"type": "number"}
    if observation["dtype"] == "uint8":
        item = {"type": "integer", "minimum": 0, "maximum": 255}
    return _array(item, observation["shape"])


def _mask(policy: TrainedPolicy, agent: str) -> Schema | None:
    count = choices(action_space(policy.of(agent).action))
    return _batch(_array({"type": ["boolean", "number"]}, [count])) if count else None


def _state(policy: TrainedPolicy, agent: str) -> Schema | None:
    memory = policy.memory[agent]
    return _batch(_array({"type": "number"}, [memory])) if memory else None


def _action(policy: TrainedPolicy, agent: str) -> Schema:
    action = policy.of(agent).action
    if action["kind"] == "continuous":
        return _array({"type": "number"}, [action["size"]])
    return _array({"type": "integer"}, action.get("shape", []))


def _batch(schema: Schema) -> Schema:
    """One of them, or a list of them."""
    return {"anyOf": [schema, {"type": "array", "items": schema, "minItems": 1}]}


def _array(item: Schema, shape: Iterable[int]) -> Schema:
    """Nested lists of numbers of that shape."""
    schema = item
    for size in reversed(list(shape)):
        schema = {"type": "array", "items": schema, "minItems": size, "maxItems": size}
    return schema
