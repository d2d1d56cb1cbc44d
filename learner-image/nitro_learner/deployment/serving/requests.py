"""What a served policy is asked, and what it answers: models that check requests and describe the service."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_SHOWN = 200
"""Characters of what came that an error shows."""


class Act(BaseModel):
    """An observation, or a batch of them. Of several agents each field but `deterministic` is an object by
    agent."""

    model_config = ConfigDict(extra="forbid", strict=True)

    observation: Annotated[Any, Field(description="what the environment shows, or a list of such")]
    available: Annotated[
        dict[str, Any] | list[Any] | None,
        Field(description="which choices of the action are allowed; without it all are"),
    ] = None
    deterministic: Annotated[
        bool, Field(description="the most probable action; otherwise it is drawn, as in training")
    ] = True
    state: Annotated[
        dict[str, Any] | list[Any] | None,
        Field(description="what the last answer of this episode gave; without it an episode begins"),
    ] = None


class Acted(BaseModel):
    """The action for an observation, or the actions for a batch."""

    action: Annotated[Any, Field(description="as the environment takes it")]
    state: Annotated[Any, Field(description="what the next request of this episode gives")] = None


class AgentSpaces(BaseModel):
    """The spaces of one agent."""

    observation: dict[str, Any]
    action: dict[str, Any]
    memory: Annotated[int | None, Field(description="numbers that it remembers of an episode")] = None


class Served(BaseModel):
    """The policy that is served."""

    round: Annotated[int, Field(description="of the run after which it was saved")]
    environment: str
    agents: dict[str, AgentSpaces]


class Welcome(BaseModel):
    """What answers here."""

    service: str
    version: Annotated[str, Field(description="of Nitro")]
    environment: str
    round: int
    requests: Annotated[dict[str, str], Field(description="what may be asked, and what it gives")]


class Refusal(BaseModel):
    """What is wrong with a request, and what to do."""

    error: str


_MUST = {
    "deterministic": "must be true or false",
    "available": "must be a list of bools, or an object with those of each agent",
    "state": "must be numbers, or an object with those of each agent",
}


def parsed(body: bytearray) -> Act:
    """The request that a body holds.

    Raises:
        ValueError: names what is wrong.
    """
    try:
        request = json.loads(body, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the body is no JSON: {error}") from None
    if not isinstance(request, dict) or "observation" not in request:
        raise ValueError('the body must be a JSON object with an observation: {"observation": [...]}')
    known = Act.model_fields
    if unknown := sorted(request.keys() - set(known)):
        raise ValueError(f"unknown: {str(unknown)[:_SHOWN]}; known are {', '.join(known)}")
    try:
        asked = Act.model_validate(request)
    except ValidationError as error:
        field = str(error.errors(include_url=False, include_input=False)[0]["loc"][0])
        raise ValueError(f"{field}: {_MUST[field]}") from None
    # NumPy gives each number of a list the room of the list's longest string. A name has two quotation marks.
    objects = [request, *(part for part in request.values() if isinstance(part, dict))]
    if body.count(b'"') > 2 * sum(map(len, objects)):
        raise ValueError(
            "observation, available and state: must be numbers, none of them in quotation marks, and no name "
            "of an object may come twice"
        )
    return asked


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
