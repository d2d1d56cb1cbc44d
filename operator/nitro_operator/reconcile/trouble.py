"""Refusals of the API server, as problems that a user can act on."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from nitro_api.spec.code import CODE_PREFIX
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import BEING_TERMINATED, ApiError, over_quota
from nitro_operator.kube.kinds import EVENT, KNATIVE_KINDS, Kind, Object
from nitro_operator.observation.diagnosis import Problem, quota_problem, short
from nitro_operator.observation.observed import alive, condition, holds, terminating
from nitro_operator.observation.reported import moment
from nitro_operator.reconcile.apply import Refused

REFUSED = "Refused"
"""Reason of an object that the API server, or a webhook, will never accept unchanged."""
FEATURE_DISABLED = "KnativeFeatureDisabled"
"""Reason of actors with a setting that Knative takes only after an administrator has allowed it."""

_FEATURES = {
    "nodeSelector": "kubernetes.podspec-nodeselector",
    "tolerations": "kubernetes.podspec-tolerations",
    "affinity": "kubernetes.podspec-affinity",
    "topologySpreadConstraints": "kubernetes.podspec-topologyspreadconstraints",
    "priorityClassName": "kubernetes.podspec-priorityclassname",
    "runtimeClassName": "kubernetes.podspec-runtimeclassname",
    "Persistent volume claim support": "kubernetes.podspec-persistent-volume-claim",
    "Persistent volume write support": "kubernetes.podspec-persistent-volume-write",
    "EmptyDir volume support": "kubernetes.podspec-volumes-emptydir",
}
"""Knative's feature flags, by what its refusal names."""


def troubles(refused: Iterable[Refused]) -> dict[str, Problem]:
    """The first problem of each component: `learner` or `actors`."""
    problems: dict[str, Problem] = {}
    for write in refused:
        component = "actors" if write.kind in KNATIVE_KINDS else "learner"
        problems.setdefault(component, refusal(write.kind, write.name, write.error))
    return problems


def refusal(kind: Kind, name: str, error: ApiError) -> Problem:
    what = f"{kind} {name}"
    if error.over_quota:
        return quota_problem(error.message)
    if error.status == 409 and error.reason != "Conflict":  # a conflict is another write at the same time
        return Problem(
            "NameTaken",
            f"{what} exists and is not this job's ({error.message}). Delete or rename it, or give "
            "the job another name.",
        )
    if error.status == 403:
        return Problem(
            "Forbidden",
            f"the operator may not write {what}: {error.message}. Grant the right in its "
            "ClusterRole, or let the "
            "namespace's admission rules accept it.",
        )
    if error.status in (400, 422):
        flags = features(error.message) if kind in KNATIVE_KINDS else []
        if flags:
            return Problem(
                FEATURE_DISABLED,
                f"Knative refuses {what}: {error.message}. An administrator has to set {' and '.join(flags)} "
                "to enabled in the ConfigMap config-features of Knative's namespace; it is tried again by "
                "itself.",
            )
        return Problem(
            REFUSED,
            f"the API server refuses {what}: {error.message}. Remedy: suspend the job, correct its images, "
            "resources or pod settings, and resume it; other fields need a new job.",
        )
    return Problem(
        "ApiUnavailable", f"{what} cannot be written now: {_cause(error)}; it is tried again by itself."
    )


def _cause(error: ApiError) -> str:
    """Why a write failed, in words that stay the same as long as the cause does: a status that changes is
    written again, and messages can name a port that changes at each try."""
    webhook = re.search(r'failed calling webhook "([^"]+)"', error.message)
    if webhook:
        return f"the webhook {webhook[1]} fails or does not answer"
    if error.status == 0:
        return "no answer from the API server, or from a webhook that it asks"
    return error.reason


def features(message: str) -> list[str]:
    """The feature flags that a refusal of Knative's webhook asks for."""
    named = set(re.findall(r"spec\.template\.spec\.(\w+)", message)) if "must not set" in message else set()
    named |= set(re.findall(r"(\w[\w ]* support) is disabled", message))
    return [flag for name, flag in _FEATURES.items() if name in named]


async def creation_trouble(kube: Kube, learner_job: Object, since: datetime) -> Problem | None:
    """The reason why the Job controller creates no pod, from its events (a quota, an admission rule) since
    the pod was due: an earlier one was overcome."""
    meta = learner_job["metadata"]
    query = f"involvedObject.uid={meta['uid']},reason=FailedCreate"
    try:
        events = await kube.list(EVENT, meta["namespace"], fieldSelector=query)
    except ApiError as error:
        return Problem(
            "ApiUnavailable",
            f"Job {meta['name']} has no pod, and its events, which say why, cannot be read now "
            f"({error.reason}); it is tried again by itself.",
        )
    events = [event for event in events if (_last_seen(event) or since) >= since]
    if not events:
        return None
    message = max(events, key=lambda event: _last_seen(event) or since).get("message", "")
    if BEING_TERMINATED in message:
        return None  # it is deleted with its namespace: nothing has to be corrected
    if over_quota(message):
        return quota_problem(message)
    return Problem(
        "PodRefused",
        f"the pod of the learner's Job {meta['name']} is refused: {message}. Remove the cause; it is tried "
        "again by itself.",
    )


_HINDRANCES = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"}
"""Reasons of a kubelet's events about a pod none of whose containers can begin."""


def held_since(pod: Object) -> datetime | None:
    """Since when a pod has had a node without being able to begin there; None if it has begun, or goes."""
    begins, scheduled = condition(pod, "PodReadyToStartContainers"), condition(pod, "PodScheduled")
    if terminating(pod) or not alive(pod) or (begins or {}).get("status") != "False":
        return None
    return moment((scheduled or {}).get("lastTransitionTime")) if holds(pod, "PodScheduled") else None


async def hindrance(kube: Kube, pod: Object, who: str) -> Problem | None:
    """Why a pod that has a node cannot begin, which only its events say; None if they say nothing, or cannot
    be read now."""
    meta = pod["metadata"]
    query = f"involvedObject.uid={meta['uid']},type=Warning"
    try:
        events = await kube.list(EVENT, meta["namespace"], fieldSelector=query)
    except ApiError:
        return None
    told = [event for event in events if event.get("reason") in _HINDRANCES]
    if not told:
        return None
    newest = max(told, key=lambda event: _last_seen(event) or datetime.min.replace(tzinfo=UTC))
    message = short(newest.get("message", ""))
    remedy = (
        "Create the Secret, ConfigMap or claim that is missing, or correct the volume or the node's network"
    )
    if CODE_PREFIX in message:
        remedy = "Apply what `nitro code` writes for the code that spec.code names"
    if "kube-root-ca.crt" in message:
        remedy = (
            "Kubernetes makes this ConfigMap in each namespace: see whether a ResourceQuota on ConfigMaps "
            "leaves it no room"
        )
    return Problem(
        "PodNotStarted",
        f"the pod {meta['name']} of {who} cannot begin on its node: {message}. {remedy}; the pod then starts "
        "by itself.",
    )


def _last_seen(event: Object) -> datetime | None:
    return moment(event.get("lastTimestamp") or event.get("eventTime"))
