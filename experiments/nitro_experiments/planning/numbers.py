"""Numbers of an experiment's file: integral ones are integers, but for an environment's keyword arguments."""

from __future__ import annotations

from typing import Any

from nitro_api.loading import yamlfile


def as_stored(data: dict[str, Any]) -> dict[str, Any]:
    """A copy in which 2.0 is 2, as in a job. In keyword arguments of an environment a float stays a float."""
    known: dict[str, Any] = yamlfile.as_stored(data)
    if "job" in data:
        known["job"] = yamlfile.as_stored(data["job"])
    if "set" in data:
        known["set"] = _by_path(data["set"])
    if isinstance(variants := data.get("variants"), dict):
        known["variants"] = {name: _by_path(fields) for name, fields in variants.items()}
    search = data.get("search")
    if isinstance(search, dict) and isinstance(space := search.get("space"), dict):
        known["search"]["space"] = {path: _tried(path, parameter) for path, parameter in space.items()}
    return known


def _by_path(fields: Any) -> Any:
    """Values by the paths of their fields."""
    if not isinstance(fields, dict):
        return fields
    return {path: yamlfile.as_stored(value, str(path).split(".")) for path, value in fields.items()}


def _tried(path: Any, parameter: Any) -> Any:
    """The values that a search tries for a field."""
    if not isinstance(parameter, dict):
        return parameter
    return {name: yamlfile.as_stored(value, str(path).split(".")) for name, value in parameter.items()}
