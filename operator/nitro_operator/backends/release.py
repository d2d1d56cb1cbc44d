"""Which release of Knative Serving is there, if any."""

from __future__ import annotations

import re

from nitro_operator.client import ApiError, Kube
from nitro_operator.diagnosis import Problem
from nitro_operator.kinds import DEFINITION, KNATIVE_SERVICE, Object

OLDEST = (1, 21)
"""Since this release min-scale and max-scale patched on an existing Revision reach its autoscaler."""
VERSION_LABEL = "app.kubernetes.io/version"
NEEDED = f"Knative Serving {OLDEST[0]}.{OLDEST[1]} or newer is needed"
INSTALL = (
    "https://knative.dev/docs/install/yaml-install/serving/ (serving-crds.yaml and "
    "serving-core.yaml; no ingress is "
    "needed), or set spec.backend.type to Local in a new job"
)


class KnativeRelease:
    """What was found at the last look. A missing Knative is a condition of jobs, never a crash of the
    operator."""

    def __init__(self) -> None:
        self.problem: Problem | None = None

    async def look(self, kube: Kube) -> None:
        """Look again."""
        try:
            definition = await kube.get(DEFINITION, None, f"{KNATIVE_SERVICE.plural}.{KNATIVE_SERVICE.group}")
            self.problem = release_problem(definition)
        except ApiError as error:
            if error.status == 404:  # otherwise nobody can tell now: the last answer stands
                self.problem = release_problem(None)


def release_problem(definition: Object | None) -> Problem | None:
    """What is wrong with the installation that made this CustomResourceDefinition; None = nothing is there.

    Releases label their definitions with their version. A build from source says `devel`, which is taken for
    new enough.
    """
    if definition is None or not _established(definition):
        return Problem(
            "KnativeMissing", f"Knative Serving is not installed. {NEEDED}: install it, {INSTALL}."
        )
    label = (definition["metadata"].get("labels") or {}).get(VERSION_LABEL, "")
    found = re.match(r"v?(\d+)\.(\d+)", label)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        return Problem(
            "KnativeTooOld", f"Knative Serving {label} is installed. {NEEDED}: upgrade it, {INSTALL}."
        )
    return None


def _established(definition: Object) -> bool:
    if "deletionTimestamp" in definition["metadata"]:
        return False
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
