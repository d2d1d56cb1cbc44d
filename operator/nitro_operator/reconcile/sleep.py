"""Actors of a job that sleep: how many of its pods are awake, and the patches that bring them to that."""

import asyncio
import logging
import math

from nitro_api.costs.pod_prices import pod_vcpu
from nitro_api.costs.prices import pod_cost
from nitro_api.pools.pod_resources import SLEEPING_VCPU, asleep, to_sleep
from nitro_api.pools.sleeping import Division, PodPrices, PoolNeed, Slopes, divide
from nitro_api.quantities import amount_of
from nitro_api.spec.status import MOST_ADDRESSES
from nitro_operator.backends import ActorDeployment
from nitro_operator.builders import JobView
from nitro_operator.builders.actors import actor_cpu
from nitro_operator.config import Config
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import POD, Object
from nitro_operator.observation import reported
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.heartbeat import LATE_SECONDS
from nitro_operator.observation.observed import actors_of, learner_running, ready, terminating
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.sleeping import plan
from nitro_operator.sleeping.owners import Owners
from nitro_operator.sleeping.plan import Plan, PodPhases, Target, first_to_go, pending, restarts, uid_of
from nitro_operator.sleeping.resizer import Refusal, Resizer

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
"""Time for which a wake may be deferred before a condition says so."""
WORD_SECONDS = 0.5
"""Time from a report of the operator until the learner has acted on it, on a busy cluster."""
BATCH = 32
"""Pods that are patched in one reconcile. The next one first reads what the learner says by then."""


class Sleeping:
    """Divide a job's pods between awake and asleep ones.

    A pod that is to sleep first leaves the published addresses, and is patched after that: the learner, which
    writes to the same object, either has said before that it needs the pod, or knows that it may not use it.
    """

    def __init__(self, kube: Kube, cache: Cache, config: Config) -> None:
        self._kube = kube
        self._enabled = config.resizes_per_second > 0
        self._resizer = Resizer(kube, cache, config.resizes_per_second or 1.0)
        self._owners = Owners(kube)

    def divide(
        self, run: ReconcileContext, view: JobView, deployment: ActorDeployment, pods: int
    ) -> Division | None:
        """How the pods of a job are to be divided; None where all that exist are to be awake.

        Args:
            pods: to be held between rounds.
        """
        memory = run.memory.sleep
        memory.see(run.observed.actor_pods, run.now)
        training = reported.training(run.job)
        memory.clock.see(training, run.now, run.server_now)
        if not deployment.sleeps:
            return None
        need = self._need(run, view)
        if need is None:
            return None
        prices = _prices(view, asleep=self.sleepless(run) is None)
        times = run.memory.lifetimes.times
        slopes = Slopes.of(prices, times, self._resizer.seconds(pods), WORD_SECONDS)
        division = divide(need, pods, slopes, let_go=view.spec.scaling.hold == "auto")
        memory.clock.hold(division.pods, need.now, run.now)
        if division.seconds is not None:
            run.again.append(division.seconds + 0.05)
        return division

    def sleepless(self, run: ReconcileContext) -> Problem | None:
        """Why the pods of a job cannot sleep; None if they can."""
        pods = len(run.observed.actor_pods)
        view = run.memory.view
        if view is None or view.spec.scaling.sleep == "never" or not self._enabled:
            return NEVER
        if pods > MOST_ADDRESSES:
            return Problem(
                "TooManyPods",
                f"actors do not sleep in jobs of more than {MOST_ADDRESSES} pods: only so many addresses fit "
                "into a job's status. Use larger pods (spec.actor.perPod) in a new job.",
            )
        if amount_of(actor_cpu(view)) <= SLEEPING_VCPU:
            return NEVER  # there is nothing that a sleeper could give back
        if any(restarts(pod) for pod in run.observed.actor_pods):
            return Problem(
                "ResizeRestarts",
                "actors do not sleep, because a change of their CPU would restart them: something has set "
                "resizePolicy RestartContainer in their pods.",
            )
        return run.memory.sleep.off

    async def addresses(self, run: ReconcileContext) -> None:
        """Find out which addresses are published, and what the status says of sleepers."""
        memory, cpu = run.memory.sleep, _cpu(run)
        if cpu is None:
            return
        phases = await self._phases(run, cpu)
        problem = self.sleepless(run)
        rests = bool(phases.resting or phases.waking)
        run.sleepless = problem if problem is not NEVER and (rests or memory.clock.known) else None
        self._defer(run, phases)
        silent = memory.clock.said_nothing and learner_running(run.observed)
        if not run.judgement.running or (not rests and (problem is not None or silent)):
            memory.order = []
            return
        moves = self._plan(run, phases, cpu)
        memory.order = [uid_of(pod) for pod in moves.order]
        run.addresses = plan.addresses(moves.published)

    async def carry_out(self, run: ReconcileContext) -> None:
        """Patch the pods of a job after its status was published."""
        memory, cpu = run.memory.sleep, _cpu(run)
        if cpu is None:
            return
        memory.clock.see(reported.training(run.job), run.now, run.server_now)  # it may have said more
        phases = await self._phases(run, cpu)
        if memory.off is not None and memory.off.reason in UNABLE:
            await self._replace(run, phases.resting, "they cannot be woken any more")
            return
        moves = self._plan(run, phases, cpu)
        due = [pod for pod in moves.wake if memory.refused.get(uid_of(pod), ("", run.now))[1] <= run.now]
        tasks: list[tuple[Object, str | int | None]] = [(pod, cpu) for pod in due]
        tasks += [(pod, None) for pod in (moves.sleep if self.sleepless(run) is None else ())]
        if len(tasks) > BATCH:
            run.again.append(0.0)
        answers = await asyncio.gather(*(self._resize(pod, to) for pod, to in tasks[:BATCH]))
        for (pod, to), refused in zip(tasks, answers, strict=False):
            self._note(run, pod, refused, wakes=to is not None)
        await self._replace(run, moves.replace, "their nodes have had no room for their CPU")

    async def before(self, run: ReconcileContext, view: JobView, actors: int) -> None:
        """Before the number of pods shrinks: have those go first that sleep, then the last to get work. The
        next round may begin before the ReplicaSet has chosen."""
        deployment, memory, cpu = run.deployment, run.memory.sleep, _cpu(run)
        if deployment is None or cpu is None:
            return
        held, left = deployment.held(run.observed), math.ceil(actors / view.spec.actor.per_pod)
        if not 0 < actors < held or memory.clock.need(view.spec.actor.per_pod, run.now) is None:
            return
        pods = [pod for pod in await self._own(run) if not terminating(pod)]
        going = first_to_go(PodPhases.of(pods, amount_of(cpu)), memory.order, len(pods), left)
        await self._resizer.let_go_first(going, pods)

    async def wake_all(self, run: ReconcileContext) -> None:
        """Wake all pods of a job at once, because the operator ends, and publish their addresses."""
        cpu = _cpu(run)
        if cpu is None:
            return
        pods = await self._own(run)
        resting = PodPhases.of(pods, amount_of(cpu)).resting
        if not resting:
            return
        await asyncio.gather(*(self._resize(pod, cpu, hurry=True) for pod in resting))
        there = plan.in_order([pod for pod in pods if ready(pod)], run.memory.sleep.order)
        run.addresses = plan.addresses(there)

    def _need(self, run: ReconcileContext, view: JobView) -> PoolNeed | None:
        """What the learner needs; None where all pods are to be awake, because nobody says it."""
        if not learner_running(run.observed):
            return PoolNeed(0)  # nobody is there who could use them
        if reported.training(run.job) is None:
            return PoolNeed(0)  # a learner reports before it begins
        if run.memory.heartbeat.silence(run.now) > LATE_SECONDS:
            return None  # it may sample and be unable to say so
        return run.memory.sleep.clock.need(view.spec.actor.per_pod, run.now)

    def _plan(self, run: ReconcileContext, phases: PodPhases, cpu: str | int) -> Plan:
        memory, view, pods = run.memory.sleep, run.memory.view, len(run.observed.actor_pods)
        need = self._need(run, view) if view is not None else None
        awake = pods  # also those beyond the grant, which are about to go
        if need is not None and run.division is not None and self.sleepless(run) is None and view is not None:
            allowed = math.ceil(run.granted / view.spec.actor.per_pod)
            awake = min(max(run.division.awake, need.now), allowed)
        working = pods if need is None else need.now
        target = Target(awake, working, amount_of(cpu), run.memory.lifetimes.times.cycle)
        return plan.plan(phases, memory.order, target, memory.deferred(run.now))

    async def _resize(self, pod: Object, cpu: str | int | None, *, hurry: bool = False) -> Refusal | None:
        """Wake a pod with this CPU for its actor, or put it to sleep."""
        return await self._resizer.resize(pod, self._owners.requests(pod, cpu), hurry=hurry)

    def _defer(self, run: ReconcileContext, phases: PodPhases) -> None:
        """Note how many pods are to wake and cannot, and what took the room."""
        memory = run.memory.sleep
        waiting = {uid_of(pod): pending(pod) for pod in [*phases.waking, *phases.starting]}
        late = {uid: why[1] for uid, why in waiting.items() if why is not None}
        refused = {uid: why for uid, (why, _) in memory.refused.items() if uid not in late}
        resting = {uid_of(pod) for pod in phases.resting}
        late |= {uid: why for uid, why in refused.items() if uid in resting}
        run.deferred = sum(actors_of(pod) for pod in run.observed.actor_pods if uid_of(pod) in late)
        seconds = memory.deferred(run.now)
        if max((seconds.get(uid, 0.0) for uid in late), default=0.0) >= PATIENCE_SECONDS:
            run.taken = next(iter(sorted(late.values())))

    async def _phases(self, run: ReconcileContext, cpu: str | int) -> PodPhases:
        return PodPhases.of(await self._own(run), amount_of(cpu), run.memory.sleep.been_ready)

    async def _own(self, run: ReconcileContext) -> list[Object]:
        """The pods that the job's Revision owns, of those with its labels."""
        memory, revision = run.memory.sleep, run.observed.revision
        if revision is None or self._nothing_to_find(run):
            return []
        for pod in run.observed.actor_pods:
            uid = uid_of(pod)
            if uid in memory.own or uid in memory.strangers:
                continue
            try:
                mine = await self._owners.owns(revision, pod)
            except ApiError as error:
                if error.status == 403:
                    why = f"the operator may not read who owns actor pods: {error.message}."
                    problem = Problem("ResizeForbidden", f"{why} Grant it that, as the chart does.")
                    memory.turn_off(problem, run.now)
                    break
                run.again.append(1.0)
                continue
            (memory.own if mine else memory.strangers).add(uid)
        return [pod for pod in run.observed.actor_pods if uid_of(pod) in memory.own]

    def _nothing_to_find(self, run: ReconcileContext) -> bool:
        """Whether no pod sleeps, and none may: then their owners need not be read."""
        return self.sleepless(run) is not None and not any(map(_sleeps, run.observed.actor_pods))

    def _note(self, run: ReconcileContext, pod: Object, refused: Refusal | None, *, wakes: bool) -> None:
        """Note what came of a patch."""
        memory = run.memory.sleep
        if refused is None:
            memory.refused.pop(uid_of(pod), None)
            return
        if refused.lasting is not None:
            if memory.off is None:
                logger.warning("%s: its actors do not sleep: %s", run.key, refused.lasting.message)
                memory.turn_off(refused.lasting, run.now)
                run.again.append(0.1)
        elif wakes:
            memory.refuse(pod, refused.error.message, run.now)
            run.again.append(memory.refused[uid_of(pod)][1] - run.now)
        else:
            run.again.append(1.0)

    async def _replace(self, run: ReconcileContext, pods: list[Object], why: str) -> None:
        """Delete pods, in place of which their ReplicaSet makes others."""
        if pods:
            logger.info("%s: %d sleeping actor pods are replaced: %s", run.key, len(pods), why)
        for pod in pods[:BATCH]:
            try:
                await self._kube.delete(POD, pod)
            except ApiError as error:
                logger.warning("%s: cannot delete %s: %s", run.key, pod["metadata"]["name"], error)
                run.again.append(1.0)


UNABLE = ("ResizeMissing", "ResizeForbidden")
"""Reasons for which sleepers cannot be woken either."""
NEVER = Problem("", "the job or the chart does not let actors sleep", warning=False)


def _sleeps(pod: Object) -> bool:
    """Whether a pod sleeps, or is asked to."""
    return asleep(pod) or to_sleep(pod)


def _cpu(run: ReconcileContext) -> str | int | None:
    """CPU that the operator's own template requests for a pod's actor; None for actors that are no pods. Of a
    job whose spec cannot be read its Revision has it."""
    if run.deployment is None or not run.deployment.sleeps:
        return None
    if run.memory.view is not None:
        return actor_cpu(run.memory.view)
    containers = ((run.observed.revision or {}).get("spec") or {}).get("containers") or [{}]
    cpu: str | int | None = ((containers[0].get("resources") or {}).get("requests") or {}).get("cpu")
    return cpu


def _prices(view: JobView, *, asleep: bool) -> PodPrices:
    """What a second of a pod costs, by the job's prices."""
    pricing, actor = view.spec.pricing, view.spec.actor
    memory, awake = pricing.actor_memory_gb * actor.per_pod, pod_vcpu(actor)
    less = awake - amount_of(actor_cpu(view)) + SLEEPING_VCPU
    if pod_cost(pricing, memory, awake) > 0:
        asleep_gb = memory * less / awake
        awake, less = (
            pod_cost(pricing, memory, awake),
            pod_cost(pricing, memory, less, awake_gb_seconds=asleep_gb),
        )
    return PodPrices(awake, less if asleep else None)  # pods without a price: what they take of their node
