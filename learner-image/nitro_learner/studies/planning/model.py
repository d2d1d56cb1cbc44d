"""The seconds of a round by its number of actors: pure functions of what was measured.

On-policy, a round is what comes one after the other:

    seconds(n) = rest + sample(n) + update(n) + late(n) / everyRounds

`sample` is a list schedule: minActors rollouts begin at once, the others when the detector is done, each as
soon as a place is free. `update` is a line. `late` is how much longer an evaluation, which takes the places
that no rollout waits for, lasts than the round beside it. Off-policy, sampling and learning overlap, and the
slower of them is the round.
"""

import heapq
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """base + each * n."""

    base: float
    each: float

    def at(self, n: float) -> float:
        return self.base + self.each * n


@dataclass(frozen=True)
class Times:
    """What the parts of a job's rounds take. Unit of all: seconds.

    Attributes:
        actor: a rollout, by the actor's own clock, where nobody else works beside it.
        crowded: the same while all processes of the measured machine work.
        call: what a rollout takes beyond that: request, transfer and decoding.
        update: by the number of rollouts that it learns from.
        rest: of a round beside sampling, update and the waits for detector and evaluation.
        detector: a measurement for the scaler; 0 where it asks for none.
        evaluation: an evaluation, all its requests together; 0 where none was measured.
        start: until the first round could begin.
        first: that the first round takes beyond later ones: it compiles, and fills caches.
        low, high: of the measured rounds' seconds over what this model gives for them, the interval that has
            four fifths of them.
    """

    actor: float
    crowded: float
    call: float
    update: Line
    rest: float
    detector: float = 0.0
    evaluation: float = 0.0
    start: float = 0.0
    first: float = 0.0
    low: float = 1.0
    high: float = 1.0


@dataclass(frozen=True)
class Room:
    """Where rollouts run.

    Attributes:
        places: rollouts at a time.
        cores: processors that actors and learner share; infinite where actors have their own.
        speed: of an actor, beside the measured machine's.
        crowded: whether an actor is as slow as the measured ones were while all of them worked.
    """

    places: int
    cores: float = math.inf
    speed: float = 1.0
    crowded: bool = False

    def actor_seconds(self, times: Times) -> float:
        """Of a rollout, as it is billed."""
        return (times.crowded if self.crowded else times.actor) / self.speed


@dataclass(frozen=True)
class RoundShape:
    """What a job says of its rounds.

    Attributes:
        early: actors that begin before the detector is done: minActors.
        every: rounds from one evaluation to the next.
        slots: requests of an evaluation at a time.
        overlapping: whether sampling and learning overlap, as off-policy.
    """

    early: int
    every: int
    slots: int = 2
    overlapping: bool = False

    def learned(self, actors: int) -> int:
        """Rollouts that a round learns from."""
        return max(min(self.early, actors), math.ceil(actors / 2)) if self.overlapping else actors


@dataclass(frozen=True)
class RoundTime:
    """A round, on average. Unit of all: seconds.

    Attributes:
        total: its wall time.
        sample: for which actors are needed.
        gap: the rest of it, in which they are not.
        alone: that sampling would take if nothing held it up.
        work: of an actor on its rollout.
        share: of the round in which a place works.
    """

    total: float
    sample: float
    gap: float
    alone: float
    work: float
    share: float


def round_time(times: Times, actors: int, room: Room, rounds: RoundShape) -> RoundTime:
    """The average round of so many actors."""
    work = room.actor_seconds(times)
    places = min(actors, room.places)
    learned = rounds.learned(actors)
    if rounds.overlapping:
        update = times.update.at(learned)
        alone = learned * (work + times.call) / places
        total = max(alone, update, (learned * work + update) / room.cores) + times.rest
        return RoundTime(total, total, 0.0, alone, work, min(1.0, learned * work / places / total))
    slots = makespan(actors, min(rounds.early, actors), times.detector, places, work + times.call)
    sample = max(slots, times.detector, (actors * work + times.detector) / room.cores)
    gap = times.update.at(learned) + times.rest
    late = _late(times, room, rounds, places * sample - actors * work, gap)
    gap += late / rounds.every
    alone = makespan(actors, actors, 0.0, places, work + times.call)
    return RoundTime(sample + gap, sample, gap, alone, work, actors * work / (places * (sample + gap)))


def makespan(slots: int, early: int, decided: float, places: int, seconds: float) -> float:
    """Time until all slots are done: `early` of them may begin at once and the others from `decided` on, each
    as soon as one of the places is free."""
    free = [0.0] * places
    end = 0.0
    for slot in range(slots):
        begun = max(heapq.heappop(free), decided if slot >= early else 0.0)
        end = max(end, begun + seconds)
        heapq.heappush(free, begun + seconds)
    return end


def final_evaluation(times: Times, room: Room, rounds: RoundShape) -> float:
    """Seconds of the evaluation after the last round."""
    return times.evaluation / room.speed / min(rounds.slots, room.places)


def _late(times: Times, room: Room, rounds: RoundShape, free: float, gap: float) -> float:
    """Seconds by which an evaluation ends after its round: what does not fit into the sampling's `free`
    seconds of places runs beside the update, which has a core of its own."""
    left = max(0.0, times.evaluation / room.speed - free)
    beside = min(rounds.slots, room.places, max(1.0, room.cores - 1))
    return max(0.0, left / beside - gap)
