"""The release of Knative Serving in the cluster, if there is one."""

import re

from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import DEFINITION, KNATIVE_SERVICE, Object
from nitro_operator.observation.diagnosis import Problem

OLDEST = (1, 21)
"""The first release whose autoscaler follows min-scale and max-scale when they are patched on a Revision."""
KUBERNETES = (((1, 22), (1, 34)), ((1, 21), (1, 33)))
"""Releases of Knative, the newest first, each with the oldest Kubernetes on which its programs start.

It is the default minimum of knative.dev/pkg/version, in the version that the release's go.mod names, and was
read for 1.21 to 1.23. A newer release may need more, and none needs less.
"""
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
            self.problem = release_problem(definition, await kube.version())
        except ApiError as error:
            if error.status == 404:  # after other errors the last answer still holds
                self.problem = release_problem(None, "")


def release_problem(definition: Object | None, kubernetes: str) -> Problem | None:
    """The problem with an installation of Knative, or with Kubernetes below it, if there is one.

    Releases label their definitions with their version. A build from source has the label `devel`, which
    counts as new enough.

    Args:
        definition: the CustomResourceDefinition of Knative's Services; None if there is none.
        kubernetes: release of the API server; empty if it is not known.
    """
    if definition is None or not _established(definition):
        return Problem(
            "KnativeMissing", f"Knative Serving is not installed. {NEEDED}: install it, {INSTALL}."
        )
    label = (definition["metadata"].get("labels") or {}).get(VERSION_LABEL, "")
    knative = _numbers(label)
    if knative is not None and knative < OLDEST:
        return Problem(
            "KnativeTooOld", f"Knative Serving {label} is installed. {NEEDED}: upgrade it, {INSTALL}."
        )
    wanted = next((oldest for release, oldest in KUBERNETES if knative and knative >= release), None)
    numbers = _numbers(kubernetes)
    if wanted is not None and numbers is not None and numbers < wanted:
        return Problem(
            "KubernetesTooOld",
            f"the cluster runs Kubernetes {kubernetes}, and Knative Serving {label} does not start below "
            f"{wanted[0]}.{wanted[1]}: upgrade Kubernetes, or install an older Knative Serving (not below "
            f"{OLDEST[0]}.{OLDEST[1]}).",
        )
    return None


def _numbers(release: str) -> tuple[int, int] | None:
    match = re.match(r"v?(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else None


def _established(definition: Object) -> bool:
    if "deletionTimestamp" in definition["metadata"]:
        return False
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
