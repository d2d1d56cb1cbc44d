"""One round after the other: sampling, the update, the evaluation and the accounts of each.

A round k: publish the weights, have I_min actors sample, learn from the detector (which measures round k - 1
meanwhile) how many more there are, start those, gather and update as the algorithm wants to be fed, join the
evaluation. A toggle of sharing is decided at the end of a round, with its fragments, and carried out as the
next one begins, so a run that ends has the policies that it trained. The policy set counts its versions
itself: it has a new one after each round, and after each toggle of sharing.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nitro_api import JobSpec
from nitro_api.spec.stop import Stop
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.backends.cache.base import CacheUnreachable
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling import evaluation
from nitro_learner.sampling.dispatch import ActorSampler
from nitro_learner.sampling.plans import EvaluationResult, RoundPlan, RoundResult
from nitro_learner.training.checkpointing import Checkpointing
from nitro_learner.training.compute import Compute
from nitro_learner.training.costs import Billing
from nitro_learner.training.drafting import draft, info_columns
from nitro_learner.training.evaluations import Evaluations
from nitro_learner.training.listeners import Listeners
from nitro_learner.training.needs import Needs
from nitro_learner.training.round_report import RoundCounters, RoundReport
from nitro_learner.training.rounds import Feed, RoundContext
from nitro_learner.training.scoring import Scoring
from nitro_learner.training.sharing.toggles import Regrouping, Sharing, agent_returns
from nitro_learner.training.state import TrainingState
from nitro_learner.training.stop import KEPT, Progress, forecast
from nitro_learner.training.waiting import Stages, unless

_CACHE_SECONDS = 30.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LearnerParts:
    """What learns."""

    policies: PolicySet
    sharing: Sharing
    feed: Feed
    compute: Compute


@dataclass(kw_only=True)
class RoundRunner:
    """Run the rounds of a training::

    await runner.run(rounds)            # the next round; again and again
    played = await runner.finish()      # or `break_off` and `conclude`
    """

    spec: JobSpec
    run_id: str
    sampler: ActorSampler
    learner: LearnerParts
    scoring: Scoring
    evaluations: Evaluations
    checkpointing: Checkpointing
    state: TrainingState
    """Of the run after its last whole round."""
    billing: Billing
    needs: Needs
    listeners: Listeners
    stop: asyncio.Event
    """Set when the run shall end."""
    _stages: Stages = field(default_factory=Stages, init=False)
    """Of the round that comes, which begins with the toggle of sharing where there is one."""
    _measured: deque[Progress] = field(default_factory=lambda: deque(maxlen=KEPT), init=False)
    """Where the run stood before this sitting's first round and after each, the last of them."""
    _updates: int = field(default=0, init=False)
    """Of the algorithm, up to the end of the last whole round."""

    @property
    def can_conclude(self) -> bool:
        """Whether the state after the last whole round is still there: nothing was learned since then, or it
        was saved or kept."""
        return self.learner.compute.updates == self._updates or self.checkpointing.has(self.state.round)

    async def run(self, limits: Stop) -> None:
        """Train one round.

        Raises:
            Interrupted: the run shall end, and no fragment of the round was learned from.
            RoundFailed, BackendError, CacheError, CheckpointError, OSError, FloatingPointError: as its parts.
        """
        await self._regroup()
        state, spec = self.state, self.spec
        number, stages = state.round + 1, self._stages
        self.learner.policies.begin_round(number, limits.rounds)
        if not self._measured:
            self._measured.append(self._progress())
        plan = RoundPlan(
            run=self.run_id,
            seed=spec.seed,
            round=number,
            weights_version=self.learner.policies.version,
            steps=spec.environment.rollout_length,
            min_actors=spec.scaling.min_actors,
            states=dict(state.end_states),
        )
        evaluating: asyncio.Task[EvaluationResult] | None = None
        saving: asyncio.Task[None] | None = None
        # Every decision is at least I_min, so these slots need not wait for it.
        early = spec.scaling.min_actors if self.scoring.pending else state.actors
        self.needs.sampling(early, self.scoring.foreseen(state.round, state.actors))
        try:
            with stages("dispatch"):
                await self._publish()
                await self.learner.feed.start(plan, early)
            await self._decide(stages, early)
            with stages("dispatch"):
                await self.learner.feed.start(plan, state.actors)
                if state.round and state.round % spec.evaluation.every_rounds == 0:
                    evaluating = self.evaluations.start(self.learner.policies.version)
                    self.needs.evaluating(self.evaluations.requests)
                    evaluating.add_done_callback(lambda _: self.needs.evaluated())
            self._stage_started("sample")
            saving = asyncio.create_task(self.checkpointing.save_if_due(state.round))
            context = RoundContext(
                plan,
                state.actors,
                saving,
                lambda: self.checkpointing.keep(state.round),
                stages,
                self._stage_started,
                lambda: self._sampled(last=number == limits.rounds),
                self.needs.learned,
            )
            result, updates = await self.learner.feed.learn(context)
        except BaseException:
            # A checkpoint is written to its end. This error is reported in place of what either task raises.
            if evaluating:
                evaluating.cancel()
            await asyncio.gather(*filter(None, (evaluating, saving)), return_exceptions=True)
            raise
        with stages("evaluate"):
            evaluated = await self.evaluations.join(evaluating, self.stop)
        report = self._account(result, evaluated, updates, stages, limits)
        self._stages = Stages()
        returns = agent_returns(result.fragments, list(self.learner.policies.agents))
        reason = self.learner.sharing.toggles(number, returns)
        self.scoring.measure(report, updates, ratios=reason is not None)
        if reason:
            await self._decide_groups(number, reason, result.fragments, returns)

    async def finish(self) -> EvaluationResult | None:
        """Score the last round, save its checkpoint and evaluate the final policy."""
        await self.conclude()
        self._stage_started("final")
        self.needs.ending(self.evaluations.requests)
        await (
            self.sampler.dispatcher.close()
        )  # lanes of an off-policy algorithm, which nobody waits for any more
        await self._publish()
        started = self.evaluations.start(self.learner.policies.version)
        played = await unless(self.evaluations.join(started, self.stop), self.stop)
        self.billing.rest(played)
        return played

    async def break_off(self) -> None:
        """Cancel the running requests, and pay for them: actors have worked although nothing was learned."""
        await self.sampler.dispatcher.close()
        try:
            self.billing.rest()
        except OSError as error:  # the run ends for another reason, which must be reported first
            logger.warning("What was broken off is missing in the ledger: %s", error)

    async def conclude(self) -> None:
        """Have the last whole round scored, and save the state after it."""
        await self._settle()
        if not self.scoring.pending:
            await self.checkpointing.save(self.state.round)

    async def _decide_groups(
        self, round: int, reason: str, fragments: Sequence[Fragment], returns: Mapping[str, float]
    ) -> None:
        """Decide on a toggle of sharing after round `round`. The round is measured first: its convexity
        ratios decide whose policies go on. The next round's actors are those for the new groups."""
        with self._stages("detect"):
            ratios = await self.scoring.ratios()
            await self._settle(await self.learner.sharing.decide(round, reason, fragments, returns, ratios))

    async def _regroup(self) -> None:
        """Carry out the toggle that was decided after the last round, if any. That round is saved before it,
        whether or not it is its turn: wherever the run ends, its checkpoint has policies that sampled."""
        if not self.learner.sharing.pending:
            return
        with self._stages("checkpoint"):
            await self.checkpointing.save(self.state.round)
        with self._stages("detect"):
            regrouping = self.learner.sharing.regroup()
            self.state.forget_policies(regrouping.fresh, kept=regrouping.groups)
        self.listeners.tell(lambda listener: listener.on_policies_regrouped(regrouping))

    def _account(
        self,
        result: RoundResult,
        evaluated: EvaluationResult | None,
        updates: Mapping[str, UpdateResult],
        stages: Stages,
        limits: Stop,
    ) -> RoundReport:
        """Add the round to the state and the ledger, and draft its report."""
        state, self._updates = self.state, self.learner.compute.updates
        finished = state.absorb(
            result.fragments,
            self.learner.policies.agents,
            keep_end_states=self.spec.environment.resume_episodes,
            reset_idle_slots=bool(self.spec.environment.reset_idle_slots),
        )
        seconds = stages.total()
        state.seconds += seconds
        own = self.billing.round(state.round, state.actors, result, evaluated, seconds=seconds)
        self._measured.append(self._progress())
        return draft(
            state,
            result,
            evaluated,
            finished,
            self.learner.policies.groups(),
            {name: update.stats for name, update in updates.items()},
            stages,
            seconds,
            self.billing.meter.total,
            own,
            evaluation.columns(self.spec, evaluated) | info_columns(self.spec, result.fragments),
            RoundCounters(
                work=self.billing.meter.work,
                pods=self.billing.meter.pods,
                weights_version=self.learner.policies.version,
                forecast=forecast(self._measured, limits),
            ),
        )

    async def _decide(self, stages: Stages, early: int) -> None:
        """Settle the round before, while `early` slots of this one sample.

        The detector has held up the round only where actors stood free and there turned out to be slots for
        them; the rest of the wait is sampling.
        """
        begin, decides = time.monotonic(), self.scoring.pending
        free = await self.scoring.wait(
            idle=lambda: self.sampler.dispatcher.pending < self.sampler.backend.limit
        )
        await self._settle()
        if decides:
            self.needs.decided(self.state.actors)
        held_up = free if self.state.actors > early else 0.0
        stages.add("detect", held_up)
        stages.add("sample", time.monotonic() - begin - held_up)

    def _sampled(self, last: bool) -> None:
        """Say what is needed after the update: the next round's actors, or those of the last evaluation."""
        expected = self.scoring.foreseen(self.state.round + 1, self.state.actors)
        fewest = self.spec.scaling.min_actors if self.scoring.measures else expected
        if last:
            fewest = expected = self.evaluations.requests
        self.needs.sampled(fewest, expected)

    async def _settle(self, regrouping: Regrouping | None = None) -> None:
        """Have the pending round scored, if there is one."""
        actors = await self.scoring.settle(regrouping)
        if actors is not None:
            self.state.actors = actors

    def _progress(self) -> Progress:
        return self.state.progress(self.billing.meter.total.total)

    async def _publish(self) -> None:
        version, payload = self.learner.policies.version, self.learner.policies.encode(self.run_id)
        try:
            await self.sampler.cache.publish_weights(version, payload)
        except CacheUnreachable:  # a Redis that is started again is back within seconds
            await self.sampler.cache.wait_reachable(_CACHE_SECONDS)
            await self.sampler.cache.publish_weights(version, payload)

    def _stage_started(self, stage: str) -> None:
        number, actors = self.state.round + 1, self.state.actors
        self.listeners.tell(
            lambda listener: listener.on_stage_started(round=number, stage=stage, actors=actors)
        )
