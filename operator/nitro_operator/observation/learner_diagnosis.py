"""Why a learner does not run, with cause and remedy, and when the next one starts.

Pure functions of observed objects. The evidence is the present pod's alone, see learner_pods.
"""

import signal

from nitro_operator.builders import learner as learner_builder
from nitro_operator.builders import redis as redis_builder
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.diagnosis import (
    Problem,
    mend,
    not_started,
    short,
    terminated,
    unschedulable,
)
from nitro_operator.observation.learner_pods import disruption
from nitro_operator.observation.observed import (
    LearnerEnd,
    Observed,
    condition,
    holds,
    learner_exit,
    left_running,
    redis_status,
    terminating,
)
from nitro_operator.observation.words import redis_words, words_of

KILLED = 128 + signal.SIGKILL
REVIVE = mend("remove the cause (images, resources and pod settings can change now)")


def learner_problem(observed: Observed, backoff_limit: int) -> Problem | None:
    """The reason why the learner does not run, if there is one."""
    pod, end = observed.learner_pod, observed.learner_end
    if end is not None:
        return _ended(observed, end, backoff_limit)
    if pod is None:
        return None
    where = "spec.learner.resources, nodeSelector, tolerations or affinity"
    return (
        _without_class(observed, pod)
        or unschedulable(pod, "the learner", where)
        or not_started(pod, "the learner")
        or _redis(observed)
    )


def starting(observed: Observed) -> str:
    """What the learner waits for while nothing is wrong."""
    end, pod = observed.learner_end, observed.learner_pod
    if pod is not None and terminating(pod):
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        rest = f" on node {node}; if that node is lost: kubectl delete node {node}" if node else ""
        return f"the learner's former pod {name} has to end first{rest}"
    if end is not None and not end.by_itself:
        return f"the learner's pod {end.pod['metadata']['name']} was deleted. {_next(end)}"
    return "the learner's pod is being started"


def finished_message(job: Object, end: LearnerEnd | None) -> Problem:
    """Why a learner's Job failed, with the learner's last words."""
    failed = condition(job, "Failed") or {}
    ended = learner_exit(end.pod if end is not None else None) or {}
    if failed.get("reason") == "DeadlineExceeded":
        return deadline_problem()
    code = ended.get("exitCode")
    if failed.get("reason") == "PodFailurePolicy" or code == learner_builder.INVALID_JOB_EXIT_CODE:
        remedy = (
            "Remedy: delete the job, correct this and create the job again. If the image is at fault, "
            "set spec.suspend to true, correct it (spec.learner.image), and set spec.suspend to false."
        )
        return Problem("InvalidJob", f"the learner refused the job: {words_of(ended)} {remedy}")
    tries = f"{failed.get('reason') or 'Failed'}: {failed.get('message') or 'the learner Job failed'}"
    last = f"At last {_how(ended)}" if ended else "Its last pod is gone, and its last words with it."
    return Problem("LearnerFailed", f"{tries}. {last} {REVIVE}")


def deadline_problem() -> Problem:
    return Problem(
        "DeadlineExceeded",
        "the job did not finish within spec.activeDeadlineSeconds. Remedy: raise it, then set "
        "spec.suspend to true and back to false; the run continues from its last checkpoint.",
    )


def _ended(observed: Observed, end: LearnerEnd, backoff_limit: int) -> Problem | None:
    """Why the newest learner pod has ended; None if it is done, or if somebody deleted it."""
    if not end.by_itself:
        cause = disruption(end.pod)
        return None if cause is None else _taken(end, cause)
    ended = learner_exit(end.pod)
    if ended is None or ended.get("exitCode") == 0:
        return None
    failures = ((observed.learner_job or {}).get("status") or {}).get("failed", 0)
    others = left_running(observed.learner_pod)
    if failures > backoff_limit:
        rest = "No retry is left, so the job fails."
    elif others:
        rest = f"The operator ends its pod, in which {', '.join(others)} would run on. {_next(end)}"
    else:
        rest = _next(end)
    if ended.get("reason") == "OOMKilled":
        return Problem(
            "LearnerOOMKilled",
            f"the learner was killed for memory (failure {failures}). It used more memory than its limit. "
            f"{mend('raise spec.learner.resources.limits.memory')} {rest}",
        )
    return Problem(
        "LearnerCrashed",
        f"{_how(ended)} {rest} (Failure {failures}; {backoff_limit} retries are allowed.)",
    )


def _how(ended: Object) -> str:
    """How a learner ended, and its last words if it had the time for any."""
    code = ended.get("exitCode")
    if code == KILLED:
        return (
            f"the learner was killed by SIGKILL (exit code {code}), so it has no last words: by somebody, or "
            "by a node that was short of memory."
        )
    return f"the learner ended with exit code {code}. Last words: {words_of(ended)}"


def _taken(end: LearnerEnd, cause: str) -> Problem:
    meta, node = end.pod["metadata"], (end.pod.get("spec") or {}).get("nodeName")
    free = " That costs no retry." if holds(end.pod, "DisruptionTarget") else ""
    lost = ""
    if end.next_start is None and node:
        lost = f" If that node is lost: kubectl delete node {node}."
    place = f" on node {node}" if node else ""
    return Problem(
        "LearnerDisrupted",
        f"the learner's pod {meta['name']}{place} had to end: {short(cause)}.{free} {_next(end)}{lost}",
        warning=False,
    )


def _next(end: LearnerEnd) -> str:
    """When the next learner starts."""
    if end.next_start is None:
        return "The next learner starts from the last checkpoint when that pod has ended."
    return (
        f"The next learner starts from the last checkpoint at about {end.next_start:%H:%M:%S} UTC: "
        "Kubernetes waits 10 s after the first pod that ends, twice as long after each further one, and at "
        "most 10 minutes."
    )


def _redis(observed: Observed) -> Problem | None:
    status = redis_status(observed)
    if status is None:
        return None
    state = status.get("state") or {}
    ended = terminated(status)
    crashing = (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff" or (
        ended and not status.get("started")
    )
    if not crashing:
        return None
    return Problem(
        "RedisUnreachable",
        f"Redis beside the learner is not reachable: {redis_words(ended) or _end_of_redis(ended)}. Check the "
        f"operator's Redis image ({status.get('image')}) and the learner pod's {redis_builder.CONTAINER} "
        "container; it restarts by itself.",
    )


def _end_of_redis(ended: Object) -> str:
    if ended.get("reason") == "OOMKilled":
        return "it used more memory than its limit and was killed"
    return (
        f"it ended with exit code {ended['exitCode']}" if "exitCode" in ended else "it ends again and again"
    )


def _without_class(observed: Observed, pod: Object) -> Problem | None:
    """The problem of a claim without a storage class: no volume is made for it."""
    scheduled, claim = condition(pod, "PodScheduled") or {}, observed.claim
    if scheduled.get("reason") != "Unschedulable" or claim is None:
        return None
    spec = claim["spec"]
    if spec.get("storageClassName") or spec.get("volumeName"):
        return None
    size = spec["resources"]["requests"]["storage"]
    return Problem(
        "Unschedulable",
        f"no node can take the learner: its claim {claim['metadata']['name']} of {size} gets no volume, "
        "because it names no storage class and the cluster has no default one. (A job without "
        "spec.learner.checkpoint has such a claim, of 1Gi.) There are three remedies: make one of the "
        "cluster's classes (kubectl get storageclass) the default, and the job starts by itself; or delete "
        "the job and the claim, and create the job with spec.learner.checkpoint.pvc.storageClassName; or "
        "create it with checkpoint.pvc.claimName, a claim that is there already, or with checkpoint.s3.",
    )
