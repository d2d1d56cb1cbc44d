"""The release of Knative Serving in the cluster, if there is one."""

from __future__ import annotations

import re

from nitro_operator.kube.client import ApiError, Kube
from nitro_operator.kube.kinds import DEFINITION, KNATIVE_SERVICE, Object
from nitro_operator.observation.diagnosis import Problem

OLDEST = (1, 21)
"""The first release whose autoscaler follows min-scale and max-scale when they are patched on a Revision."""
VERSION_LABEL = "app.kubernetes.io/version"
NEEDED = f"Knative Serving {OLDEST[0]}.{OLDEST[1]} or newer is needed"
INSTALL = (
    "https://knative.dev/docs/install/yaml-install/serving/ (serving-crds.yaml and "
    "serving-core.yaml; no ingress is "
    "needed), or set spec.backend.type to Local in a new job"
)


class KnativeRelease:
    """The result of the last look. A missing Knative is a condition of jobs; the operator keeps running."""

    def __init__(self) -> None:
        self.problem: Problem | None = None

    async def look(self, kube: Kube) -> None:
        """Look for Knative again."""
        try:
            definition = await kube.get(DEFINITION, None, f"{KNATIVE_SERVICE.plural}.{KNATIVE_SERVICE.group}")
            self.problem = release_problem(definition)
        except ApiError as error:
            if error.status == 404:  # after other errors the last answer still holds
                self.problem = release_problem(None)


def release_problem(definition: Object | None) -> Problem | None:
    """The problem with an installation of Knative, if there is one.

    Releases label their definitions with their version. A build from source has the label `devel`, which
    counts as new enough.

    Args:
        definition: the CustomResourceDefinition of Knative's Services; None if there is none.
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
