"""A job's share of the actors: what it requests, what the platform grants, and what is held idle."""

from collections.abc import Collection
from datetime import datetime

from nitro_api.pools.pod_resources import asleep
from nitro_operator.backends import ActorDeployment
from nitro_operator.builders import JobView
from nitro_operator.builders import learner as learner_builder
from nitro_operator.kube.kinds import JobKey, Object
from nitro_operator.observation import reported
from nitro_operator.observation.observed import actors_of, alive, container, learner_done, terminating
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.reconcile.sleep import Sleeping
from nitro_operator.scaling import demand
from nitro_operator.scaling.platform import Platform
from nitro_operator.status.actor_problems import limit_problem

BEGIN_SECONDS = 300.0
"""Time for which actors are there before their learner, whose image may be large."""
MAKING = ("", "ContainerCreating", "PodInitializing")
"""Reasons for which a container waits that will run soon."""


class ActorShares:
    """Divide the platform's actors between jobs, one job at a time."""

    def __init__(self, platform: Platform, sleeping: Sleeping) -> None:
        self._platform = platform
        self._sleeping = sleeping

    def take(self, run: ReconcileContext, view: JobView, deployment: ActorDeployment) -> None:
        """Set the number of actors that the job requests, gets and holds, and whether it must wait. It gets
        none if it waits already."""
        started = run.observed.learner_job is not None
        training = reported.training(run.job)
        run.requested = demand.requested(view.spec, training)
        # A learner that has ended cannot say so; its last report may.
        run.silent = demand.silent(training) if run.heard else None
        run.waiting = None if started else run.waiting or deployment.blocker()
        if run.waiting is not None:
            self._platform.withdraw(run.key)
            return
        held = self._holding(run, view, deployment)
        if not deployment.limited:
            run.granted, run.held = max(run.requested, held), held
            return
        per_pod = view.spec.actor.per_pod
        minimum = view.whole_pods(view.spec.scaling.min_actors)
        wanted, held = view.whole_pods(min(run.requested, held)), view.whole_pods(held)
        if started and not _is_held(run, view, deployment):
            wanted = held = minimum  # a silent learner keeps its place, not its pods
        run.division = self._sleeping.divide(run, view, deployment, held // per_pod)
        if run.division is not None:  # what sleeps gives way to what others use
            wanted = min(wanted, run.division.awake * per_pod)
        score = demand.score(training)
        since = reported.waiting_since(run.job, run.server_now).timestamp()
        run.granted = self._platform.ask(
            run.key,
            minimum,
            wanted,
            score,
            since,
            idle=held - wanted,
            step=per_pod,
            started=started,
        )
        run.held = self._existing(run, view, deployment)
        if run.granted == 0 and not started:
            rooms = self._platform.room(), self._platform.room_in(run.key.namespace)
            run.waiting = limit_problem(minimum, *rooms, per_pod=per_pod)

    def release(self, run: ReconcileContext) -> None:
        """Give back the grant of a job that could not be started. It asks again at the next reconcile."""
        self._platform.withdraw(run.key)
        run.granted = run.held = 0

    def keep(self, run: ReconcileContext) -> None:
        """Keep the actors of a running job whose spec cannot be read: those that its Revision is set to, but
        no more than it was granted, because others than the operator may write to a Revision."""
        run.requested = reported.actors(run.job).requested or 0
        held = run.deployment.held(run.observed) if run.deployment is not None else 0
        held = min(held, self._platform.holds(run.key))
        if held:
            # Its score does not matter, because it requests no more than its minimum.
            since = reported.waiting_since(run.job, run.server_now).timestamp()
            self._platform.ask(run.key, held, held, 0.0, since, started=True)
        else:
            self._platform.withdraw(run.key)
        run.granted = run.held = held

    def actors(self, run: ReconcileContext, view: JobView, deployment: ActorDeployment) -> int:
        """The number of actors to run: those that are held, if any are.

        After an outage of the API server, Knative's activator may not know the actors. It sends them no
        request until their number changes. So one more actor runs while none answers.
        """
        if not _is_held(run, view, deployment):
            return 0
        return run.held + (run.silent is not None and deployment.serving(run.observed) and run.held > 0)

    def count(self, key: JobKey, pods: list[Object], working: Collection[str] = ()) -> None:
        """Note the existing actors, also of a deleted job: other jobs cannot grow until those are gone.
        Sleepers that work, by their uids, count as if they were awake."""
        existing = [pod for pod in pods if alive(pod)]
        awake = [pod for pod in existing if not asleep(pod) or pod["metadata"]["uid"] in working]
        going = sum(actors_of(pod) for pod in awake if terminating(pod))
        self._platform.exist(key, sum(map(actors_of, awake)), going)
        self._platform.have_pods(key, len(existing))

    def _existing(self, run: ReconcileContext, view: JobView, deployment: ActorDeployment) -> int:
        """The number of actors whose pods are to exist: those of the grant, and of the present ones beyond it
        as many as may sleep."""
        if run.division is None:
            return run.granted
        per_pod = view.spec.actor.per_pod
        pods, granted = run.division.pods, run.granted // per_pod
        if self._sleeping.sleepless(run) is None:
            present = deployment.held(run.observed) // per_pod
            granted = self._platform.pods(run.key, granted, min(pods, max(present, granted)))
        return min(pods, granted) * per_pod

    def _holding(self, run: ReconcileContext, view: JobView, deployment: ActorDeployment) -> int:
        times = deployment.times(run.memory.lifetimes.times)
        if times is None:
            return run.requested
        elapsed = run.memory.requests.age(run.now)
        training = reported.training(run.job)
        holding = demand.holding(view.spec, training, elapsed, deployment.held(run.observed), times)
        if holding.seconds is not None:
            run.again.append(holding.seconds + 0.1)
        return holding.actors


def _is_held(run: ReconcileContext, view: JobView, deployment: ActorDeployment) -> bool:
    """Whether actors are held: for a learner that reports, or that did so and may come back."""
    if run.heard or _begins(run):
        return True
    known = run.observed.learner_job is not None and reported.training(run.job) is not None
    if not known or learner_done(run.observed):
        return False
    left = _patience(run, view, deployment) - run.memory.heartbeat.silence(run.now)
    if left > 0:
        run.again.append(left + 0.1)
    return left > 0


def _begins(run: ReconcileContext) -> bool:
    """Whether a learner is about to begin: its pod has a node, and its containers are being made. Its actors
    start at the same time, and sleep until it needs them."""
    pod = run.observed.learner_pod
    if pod is None or terminating(pod) or not (pod.get("spec") or {}).get("nodeName"):
        return False
    state = (container(pod, learner_builder.CONTAINER) or {}).get("state") or {}
    if not (state.keys() <= {"waiting"} and (state.get("waiting") or {}).get("reason", "") in MAKING):
        return False
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    left = BEGIN_SECONDS - (run.server_now - created).total_seconds()
    if left > 0:
        run.again.append(left + 0.1)
    return left > 0


def _patience(run: ReconcileContext, view: JobView, deployment: ActorDeployment) -> float:
    """Seconds for which actors are held without a learner. As for idle ones: no longer than it pays."""
    if not deployment.limited:
        return deployment.patience
    hold = view.spec.scaling.hold
    return run.memory.lifetimes.times.cycle if hold == "auto" else hold
