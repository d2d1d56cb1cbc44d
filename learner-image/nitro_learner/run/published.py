"""A job as others may see it: without the values of its variables, which may be secret."""

from collections.abc import Mapping
from typing import Any


def published_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """The job without the values of variables, and without what the cluster keeps in it. It stays a valid
    job."""
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {"name": job["metadata"]["name"]},
        "spec": published_spec(job["spec"]),
    }


def published_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with the names alone of its variables: an entry may lack a value."""
    published = dict(spec)
    for part in ("actor", "learner"):
        settings = published.get(part) or {}
        if settings.get("env"):
            published[part] = {
                **settings,
                "env": [{"name": variable["name"]} for variable in settings["env"]],
            }
    return published
