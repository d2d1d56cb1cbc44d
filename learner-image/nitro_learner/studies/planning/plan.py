"""The plan of a job: what its training takes and costs on each backend, by number of actors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from nitro_actor.processor import cores
from nitro_api import JobSpec
from nitro_api.costs.pod_prices import pod_vcpu
from nitro_api.costs.pod_use import PodUse
from nitro_api.costs.prices import RoundCost, learner_cost, serverless_cost, vm_cost
from nitro_api.pools.holding import COLD_START_SECONDS, USUAL
from nitro_api.spec.stop import Stop
from nitro_learner.sampling.evaluation import SLOTS
from nitro_learner.studies.planning.model import (
    Room,
    RoundShape,
    RoundTime,
    Times,
    final_evaluation,
    round_time,
)
from nitro_learner.studies.planning.pods import ASLEEP_VCPU, GapUse, gap_use
from nitro_learner.studies.planning.runs import Reached
from nitro_learner.studies.profiling import CORE_MIB
from nitro_learner.training.stop import Progress, forecast

Backend = Literal["local", "knative", "lambda", "pool"]
BACKENDS: tuple[Backend, ...] = ("local", "knative", "lambda", "pool")
"""In the order of the table. `pool` is for comparison: as many pods as actors, awake from start to end."""


@dataclass(frozen=True)
class PlanChoice:
    """One way to run the job: every round has so many actors.

    Attributes:
        seconds: wall clock from the start of actors to the end of the last evaluation.
        dollars: of learner and actors, as the run's ledger would have it.
        round_seconds: of a round, on average.
        sampling_seconds: that its sampling would take if nothing held it up.
        work: share of the round in which an actor works.
        rounds: until the job's stop.
        env_steps: trained on until then.
    """

    backend: Backend
    actors: int
    rounds: int
    env_steps: int
    steps_per_second: float
    round_seconds: float
    sampling_seconds: float
    work: float
    seconds: float
    dollars: float


@dataclass(frozen=True)
class Plan:
    """What a job's training takes.

    Attributes:
        choices: by number of actors, and for each of them by backend.
        times: of the rounds that were measured; `low` and `high` are the interval of each time and price, as
            factors.
        start: the number of actors with which the job begins.
        ends_sooner: the fields of spec.stop that may end it sooner, and that no plan knows.
        target: the return that was asked for.
        reached: when each of the runs that it is made from reached it.
    """

    job: str
    times: Times
    choices: Sequence[PlanChoice]
    start: int
    ends_sooner: Sequence[str] = ()
    target: float | None = None
    reached: Sequence[Reached] = ()

    def of(self, backend: Backend, actors: int | None = None) -> PlanChoice:
        """The choice of a backend and of a number of actors, the job's own by default."""
        wanted = self.start if actors is None else actors
        return next(one for one in self.choices if (one.backend, one.actors) == (backend, wanted))

    @property
    def cheapest(self) -> PlanChoice:
        """The fewest dollars for a step, start and end included; never the pool."""
        return min(self._real, key=lambda one: one.dollars / one.env_steps)

    @property
    def quickest(self) -> PlanChoice:
        """The fewest seconds for a step, start and end included; never the pool."""
        return min(self._real, key=lambda one: one.seconds / one.env_steps)

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON has it."""
        return {
            "job": self.job,
            "interval": {"low": self.times.low, "high": self.times.high},
            "measured": {_camel(name): value for name, value in asdict(self.times).items()},
            "choices": [
                {_camel(name): value for name, value in asdict(one).items()}
                | {"cheapest": one == self.cheapest, "quickest": one == self.quickest}
                for one in self.choices
            ],
            "endsSooner": list(self.ends_sooner),
            "return": None
            if self.target is None
            else {
                "target": self.target,
                "runs": [
                    {_camel(name): value for name, value in asdict(one).items()} for one in self.reached
                ],
            },
        }

    @property
    def _real(self) -> list[PlanChoice]:
        return [one for one in self.choices if one.backend != "pool"]


def make(
    name: str, spec: JobSpec, times: Times, processes: int, backends: Sequence[Backend] = BACKENDS
) -> Plan:
    """The plan of a resolved job.

    Args:
        times: of the rounds that were measured.
        processes: actors that work at a time on this machine.
    """
    sizes = numbers(spec.scaling.max_actors, spec.scaling.initial_actors)
    choices = [choice(spec, times, processes, backend, n) for n in sizes for backend in backends]
    unknown = {"targetReward": spec.stop.target_reward, "patience": spec.stop.patience}
    sooner = [field for field, value in unknown.items() if value is not None]
    return Plan(name, times, choices, spec.scaling.initial_actors, sooner)


def numbers(most: int, *others: int) -> list[int]:
    """1, 2, 4, … and the most, with others among them."""
    doubled = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return sorted({*doubled, most, *others})


def choice(spec: JobSpec, times: Times, processes: int, backend: Backend, actors: int) -> PlanChoice:
    """What the job takes with so many actors in every round."""
    rounds = RoundShape(
        early=spec.scaling.min_actors,
        every=spec.evaluation.every_rounds,
        slots=min(spec.evaluation.episodes, SLOTS),
        overlapping=spec.algorithm.record.feeding == "arrivals",
    )
    room = _room(spec, processes, backend, actors)
    one = round_time(times, actors, room, rounds)
    billed = [one.work] * rounds.learned(actors)
    played = times.evaluation / room.speed
    gap = gap_use(spec, one.gap, actors) if backend == "knative" else GapUse(one.gap)
    cost = _cost(spec, backend, one, gap, actors, [*billed, *_parts(played / rounds.every, rounds.slots)])
    steps = rounds.learned(actors) * spec.environment.rollout_length
    count = _rounds(spec.stop, rounds.learned(actors), steps, cost.total, one.total)
    last = final_evaluation(times, room, rounds)
    ending = RoundTime(last, last, 0.0, 0.0, 0.0, 0.0)
    end = _cost(spec, backend, ending, GapUse(), actors, _parts(played, rounds.slots))
    start = _start(times, backend)
    around = _around(spec, backend, actors, start, times.first)
    return PlanChoice(
        backend=backend,
        actors=actors,
        rounds=count,
        env_steps=count * steps,
        steps_per_second=steps / one.total,
        round_seconds=one.total,
        sampling_seconds=one.alone,
        work=one.share,
        seconds=start + times.first + count * one.total + last,
        dollars=count * cost.total + end.total + around,
    )


def _room(spec: JobSpec, processes: int, backend: Backend, actors: int) -> Room:
    if backend == "local":
        return Room(processes, cores(), crowded=actors >= processes)
    if backend == "lambda":
        memory = 1024 * spec.pricing.actor_memory_gb
        return Room(spec.scaling.max_actors + SLOTS, speed=min(1.0, memory / CORE_MIB))
    return Room(actors)


def _parts(seconds: float, slots: int) -> list[float]:
    return [seconds / slots] * slots if seconds else []


def _start(times: Times, backend: Backend) -> float:
    ready: Mapping[Backend, float] = {
        "local": 0.0,
        "knative": USUAL.start,
        "lambda": COLD_START_SECONDS,
        "pool": USUAL.start,
    }
    return max(times.start, ready[backend])


def _rounds(stop: Stop, learned: int, steps: int, dollars: float, seconds: float) -> int:
    """Rounds until the first of the limits."""
    begun = Progress(round=0, actor_rounds=0, env_steps=0, evaluation_mean=None, cost=0.0, seconds=0.0)
    after = replace(begun, round=1, actor_rounds=learned, env_steps=steps, cost=dollars, seconds=seconds)
    # The limits are of the whole run, which has done one round here.
    left = forecast([begun, after], stop).seconds
    assert left is not None, "spec.stop.rounds of a resolved job is set"
    return 1 + round(left / seconds)


def _cost(
    spec: JobSpec,
    backend: Backend,
    one: RoundTime,
    gap: GapUse,
    actors: int,
    billed: Sequence[float],
) -> RoundCost:
    """What a round costs."""
    pricing = spec.pricing
    if pricing.model == "vm":
        return vm_cost(pricing, one.total)
    if backend in ("local", "lambda"):
        return serverless_cost(pricing, one.total, billed)
    pods = math.ceil(actors / spec.actor.per_pod)
    awake = pods * (one.sample + gap.awake)
    use = _use(spec, awake, pods * gap.asleep, pods * gap.draining)
    return RoundCost(learner_cost(pricing, one.total), use.dollars(pricing, slept=gap.asleep > 0))


def _around(spec: JobSpec, backend: Backend, actors: int, start: float, first: float) -> float:
    """Dollars for what the first round takes beyond others, and for pods before it and after the last one."""
    if spec.pricing.model == "vm":
        return vm_cost(spec.pricing, first).total
    learner = learner_cost(spec.pricing, first)
    if backend not in ("knative", "pool"):
        return learner
    pods = math.ceil(actors / spec.actor.per_pod)
    use = _use(spec, pods * (start + first), 0.0, pods * USUAL.drain)
    return learner + use.dollars(spec.pricing, slept=False)


def _use(spec: JobSpec, awake: float, asleep: float, draining: float) -> PodUse:
    """Pod-seconds in each state as a use of pods."""
    whole = pod_vcpu(spec.actor)
    vcpu = {
        "awake": awake * whole,
        "asleep": asleep * ASLEEP_VCPU,
        "draining": draining * (ASLEEP_VCPU if asleep else whole),
    }
    return PodUse(awake + asleep + draining, vcpu, whole, spec.actor.per_pod)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
