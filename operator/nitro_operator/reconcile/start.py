"""The start of a run: its children are created and corrected, the learner last."""

import logging
import secrets
from datetime import datetime

from nitro_operator.backends import ActorDeployment, KnativeRelease
from nitro_operator.builders import (
    JobView,
    checkpoint_claim,
    credentials_secret,
    learner_access,
    learner_job,
    network_policies,
    redis_service,
)
from nitro_operator.kube import names
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import (
    KNATIVE_KINDS,
    LEARNER_JOB,
    POD,
    REVISION,
    SECRET,
    VOLUME_CLAIM,
    JobKey,
    Object,
    kind_of,
)
from nitro_operator.kube.secrets import find, get_or_create
from nitro_operator.observation import reported
from nitro_operator.observation.observed import (
    Observed,
    containers,
    holds,
    named_secret,
    observe,
    queued,
    terminating,
)
from nitro_operator.reconcile.apply import Applier
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.reconcile.ending import delete_learner, noting
from nitro_operator.reconcile.memory import JobMemory
from nitro_operator.reconcile.trouble import (
    FEATURE_DISABLED,
    REFUSED,
    creation_trouble,
    held_since,
    hindrance,
    refusal,
    troubles,
)
from nitro_operator.status.phase import seconds_left

WAIT_SECONDS = 2.0
"""Time between two looks at objects that are being deleted."""
PODLESS_SECONDS = 10.0
"""Time after which a Job without a pod is stuck; its events say why."""
HELD_SECONDS = 15.0
"""Time after which a pod that has a node and does not begin is stuck; its events say why."""
DEADLINE_TOLERANCE_SECONDS = 5


class Starter:
    """Bring the children of an active job to the state that the builders describe."""

    def __init__(self, kube: Kube, cache: Cache, release: KnativeRelease) -> None:
        self._kube = kube
        self._cache = cache
        self._release = release
        self._applier = Applier(kube, cache)

    def forget(self, key: JobKey) -> None:
        """Forget the state of a job that is gone."""
        self._applier.forget(key)

    async def start(self, run: ReconcileContext, view: JobView, deployment: ActorDeployment) -> None:
        """Create and correct the children. The learner comes last, when everything that it needs is there."""
        if run.observed.learner_job is None and (run.observed.foreign or run.observed.former_pods):
            await self._remove_orphans(run)
            run.again.append(WAIT_SECONDS)
            return
        if run.observed.learner_job is None and await self._renew(run, view, deployment):
            return
        if view.has_secret and not await self._has_secret(run, view):
            run.again.append(WAIT_SECONDS)
            return
        refused = await self._applier.apply(run.key, self._children(view, deployment))
        if any(refusal.kind in KNATIVE_KINDS and refusal.error.status == 404 for refusal in refused):
            await self._release.look(self._kube)  # Knative has been removed: the condition says so
        run.memory.trouble |= troubles(refused)
        actors = run.memory.trouble.get("actors")
        refusals = (REFUSED, FEATURE_DISABLED)
        if run.observed.learner_job is None and actors is not None and actors.reason in refusals:
            # A learner, perhaps with a GPU, would run and cost money without ever getting an actor.
            run.memory.trouble.setdefault("learner", actors)
        present = self._cache.get(LEARNER_JOB, run.key, names.learner(view.name)) is not None
        if run.observed.learner_job is not None and not present:
            # It went during this look. Its actors may be outdated, which the next look asks first.
            run.again.append(WAIT_SECONDS)
        elif "learner" not in run.memory.trouble:
            left = seconds_left(run.job, run.server_now)
            learner = learner_job(view, None if left is None else int(left), run.source)
            run.memory.trouble |= troubles(await self._applier.apply(run.key, [learner]))
            await self._follow_deadline(run, left)
            await self._find_pod(run)
        await self._find_hindrance(run)
        observed = observe(self._cache, run.job)
        run.observed = run.memory.learner_pods.present(observed, run.job, run.server_now)
        # The learner may have begun to run since the first look.
        run.memory.heartbeat.see(run.job, run.observed, run.now)
        run.heard = run.memory.heartbeat.heard(run.now)

    async def _remove_orphans(self, run: ReconcileContext) -> None:
        """Delete what has no owner: `kubectl delete --cascade=orphan` and the restore of a backup remove the
        owners, so nobody else would. The garbage collector is about to delete the rest."""
        for child in [*run.observed.foreign, *run.observed.former_pods]:
            kind, meta = kind_of(child), child["metadata"]
            part = "learner" if meta["labels"].get(names.COMPONENT_LABEL) == names.LEARNER else "actors"
            if kind is VOLUME_CLAIM or meta.get("ownerReferences") or terminating(child):
                continue
            if not names.made_for(child, run.key.name):
                continue  # a stranger's: the condition names it, and only its owner may delete it
            with noting(run, part, kind, child):  # only what owns others is deleted after them
                await self._kube.delete(kind, child, foreground=kind is not POD)

    async def _has_secret(self, run: ReconcileContext, view: JobView) -> bool:
        """Whether the Secret exists. If it was deleted, so is the learner's Job, which was made with it."""
        try:
            if await ensure_secret(self._kube, view, run.memory, run.observed, run.now):
                return True
        except ApiError as error:
            if error.namespace_terminating:
                raise
            run.memory.trouble["learner"] = refusal(SECRET, view.credentials, error)
            return False
        learner = run.observed.learner_job
        if learner is not None:
            await delete_learner(self._kube, run, learner)
            run.leaving = [f"{LEARNER_JOB} {learner['metadata']['name']}"]
        return False

    def _children(self, view: JobView, deployment: ActorDeployment) -> list[Object]:
        claim = checkpoint_claim(view)
        return [
            *learner_access(view),
            *network_policies(view),
            *([redis_service(view)] if view.has_redis else []),
            *([claim] if claim is not None else []),
            *(deployment.children(view) if deployment.blocker() is None else []),
        ]

    async def _renew(self, run: ReconcileContext, view: JobView, deployment: ActorDeployment) -> bool:
        """Before the learner starts, delete actors of another image, and a resumed run's failed Revision.

        So learner and actors are always of one release. Returns whether the learner has to wait.
        """
        resumed = "startTime" in reported.status(run.job)
        old = deployment.outdated(view, run.observed, resumed=resumed)
        service, revisions = run.observed.actor_service, self._cache.children(REVISION, run.key)
        leaving = service is not None and terminating(service)
        gone = service is None and revisions
        if old is not None and not leaving:
            kind = kind_of(old)
            with noting(run, "actors", kind, old):
                await self._kube.delete(kind, old, foreground=True)
        if old is not None or leaving or gone:
            run.again.append(WAIT_SECONDS)
            left = [*([service] if service is not None else []), *revisions]
            run.leaving = [f"{kind_of(obj)} {obj['metadata']['name']}" for obj in left]
            return True
        return False

    async def _follow_deadline(self, run: ReconcileContext, left: float | None) -> None:
        """Set the deadline on the Job too, so that it holds while the operator does not run."""
        job = run.observed.learner_job
        if job is None or terminating(job):
            return
        started = (job.get("status") or {}).get("startTime")
        if started is None:
            return
        elapsed = (run.server_now - datetime.fromisoformat(started)).total_seconds()
        wanted = None if left is None else int(left + elapsed)
        seconds = job["spec"].get("activeDeadlineSeconds")
        same = wanted == seconds or (
            wanted is not None and seconds is not None and abs(wanted - seconds) <= DEADLINE_TOLERANCE_SECONDS
        )
        if not same:
            name, patch = job["metadata"]["name"], {"spec": {"activeDeadlineSeconds": wanted}}
            try:
                await self._kube.merge(LEARNER_JOB, run.key.namespace, name, patch)
            except ApiError as error:
                if error.namespace_terminating:
                    raise
                run.memory.trouble.setdefault("learner", refusal(LEARNER_JOB, name, error))

    async def _find_pod(self, run: ReconcileContext) -> None:
        """Find out why there is no pod, when it is late."""
        job, pod, end = run.observed.learner_job, run.observed.learner_pod, run.observed.learner_end
        if job is None or terminating(job) or holds(job, "Complete") or queued(run.observed):
            return
        if pod is not None and (end is None or end.next_start is None):
            return
        since = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
        due = since
        if end is not None and end.at is not None and end.next_start is not None:
            since, due = end.at, end.next_start
        age = (run.server_now - due).total_seconds()
        if age < PODLESS_SECONDS:
            run.again.append(PODLESS_SECONDS - age + 0.1)
            return
        problem = await creation_trouble(self._kube, job, since)
        if problem is not None:
            run.memory.trouble["learner"] = problem

    async def _find_hindrance(self, run: ReconcileContext) -> None:
        """Find out why a pod that has a node does not begin there, when that lasts."""
        learner = run.observed.learner_pod
        parts = (
            ("learner", "the learner", [learner] if learner is not None else []),
            ("actors", "an actor", run.observed.actor_pods),
        )
        for part, who, pods in parts:
            held = [(since, pod) for pod in pods if (since := held_since(pod)) is not None]
            if not held or part in run.memory.trouble:
                continue
            since, pod = min(held, key=lambda item: item[0])
            left = HELD_SECONDS - (run.server_now - since).total_seconds()
            problem = await hindrance(self._kube, pod, who) if left <= 0 else None
            if problem is not None:
                run.memory.trouble[part] = problem
            else:
                run.again.append(left + 0.1 if left > 0 else HELD_SECONDS)


logger = logging.getLogger(__name__)

CHECK_SECONDS = 120.0
CHECK_SECONDS_WHILE_STARTING = 10.0
NOT_STARTED = {"ContainerCreating", "PodInitializing", "CreateContainerConfigError"}
"""A pod in these states may wait for the Secret: a missing volume shows only as an event."""


async def ensure_secret(kube: Kube, view: JobView, memory: JobMemory, observed: Observed, now: float) -> bool:
    """Create the Secret before the first pods; later look whether it still exists.

    It is looked for before the learner starts, while a pod does not start, and every two minutes.

    Returns:
        False if pods were made with a Secret that is deleted. The memory then has the name of the next one,
        and learner and actors have to be made again: new pods would get the deleted Secret's content by the
        same name.
    """
    starting = any(_waits(pod) for pod in (*observed.actor_pods, observed.learner_pod) if pod is not None)
    rest = CHECK_SECONDS_WHILE_STARTING if starting else CHECK_SECONDS
    if observed.learner_job is not None and now - memory.secret_checked < rest * memory.jitter:
        return True
    wanted = credentials_secret(view)
    if named_secret(observed) != view.credentials:
        await get_or_create(kube, wanted)
    elif await find(kube, wanted) is None:
        logger.warning("%s: Secret %s was deleted: its pods are replaced", view.key, view.credentials)
        memory.name_secret(names.credentials(view.name, secrets.token_hex(4)))
        return False
    memory.secret_checked = now
    return True


def _waits(pod: Object) -> bool:
    states = ((status.get("state") or {}).get("waiting") or {} for status in containers(pod))
    return any(waiting.get("reason") in NOT_STARTED for waiting in states)
