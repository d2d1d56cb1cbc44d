"""The model behind `nitro plan`: against rounds computed by hand, and against a simulation of a round."""

import math
import random
from dataclasses import replace

import pytest

from nitro_api import JobSpec, load_job, resolve
from nitro_learner.studies.planning import plan, view
from nitro_learner.studies.planning.fitting import ObservedRound, fit
from nitro_learner.studies.planning.model import Line, Room, RoundShape, Times, round_time
from nitro_learner.studies.planning.pods import gap_use

TIMES = Times(actor=2.0, crowded=3.0, call=0.5, update=Line(1.0, 0.25), rest=0.1, detector=1.0, start=4.0)
PRICES = {
    "learnerDollarsPerHour": 3.6,  # 0.001 a second
    "lambdaGBSecond": 1e-5,
    "lambdaRequest": 1e-6,
    "podGBSecond": 1e-4,
    "podVCPUSecond": 1e-3,
    "actorMemoryGB": 1.0,
}


def spec(**changes: object) -> JobSpec:
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "planned"},
        "spec": {
            "environment": {"id": "CartPole-v1", "rolloutLength": 100},
            "scaling": {"scaler": "fixed", "minActors": 1, "maxActors": 4, "initialActors": 4},
            "evaluation": {"everyRounds": 1000},
            "stop": {"rounds": 10},
            "pricing": PRICES,
            **changes,
        },
    }
    return resolve(load_job(job)).spec


def test_a_round_by_hand() -> None:
    # Two of five begin at once on two processes and end at 3.5. The detector is done by then, so the other
    # three come at 3.5, 3.5 and 7, and the last of them ends at 10.5. The update takes 1 + 5/4, the rest 0.1.
    one = round_time(TIMES, 5, Room(2, crowded=True), RoundShape(early=2, every=1000))
    assert (one.sample, one.gap) == pytest.approx((10.5, 2.35))
    assert one.share == pytest.approx(5 * 3.0 / (2 * 12.85))
    # With a place for each, three wait for the detector's second.
    apart = round_time(TIMES, 5, Room(5), RoundShape(early=2, every=1000))
    assert apart.sample == pytest.approx(1.0 + 2.5)
    # An evaluation of 12 s on one place that is free for 0.5 s of the sampling: 11.5 s beside a gap of 1.35.
    late = round_time(
        replace(TIMES, evaluation=12.0, detector=0.0), 1, Room(1), RoundShape(early=1, every=2, slots=2)
    )
    assert late.total == pytest.approx(2.5 + 1.35 + (11.5 - 1.35) / 2)


def test_off_policy_the_slower_of_sampling_and_learning_is_the_round() -> None:
    rounds = RoundShape(early=1, every=1000, overlapping=True)
    assert round_time(TIMES, 4, Room(4), rounds).total == pytest.approx(0.1 + 1.0 + 2 * 0.25)
    slow = replace(TIMES, actor=20.0)
    assert round_time(slow, 4, Room(4), rounds).total == pytest.approx(0.1 + 2 * 20.5 / 4)


def simulated(slots: int, early: int, detector: int, places: int, task: int) -> int:
    """Milliseconds of a round's sampling, tick by tick."""
    clock, waiting, working = 0, slots, [0] * places
    while waiting or any(working) or clock < detector:
        ready = waiting if clock >= detector else max(0, early - (slots - waiting))
        for place in range(places):
            if not working[place] and ready:
                working[place], waiting, ready = task, waiting - 1, ready - 1
        working = [max(0, left - 1) for left in working]
        clock += 1
    return clock


def test_sampling_takes_what_a_simulation_takes() -> None:
    chance = random.Random(5)
    for _ in range(60):
        slots, places = chance.randint(1, 12), chance.randint(1, 6)
        early, detector, task = chance.randint(1, slots), chance.randint(0, 90), chance.randint(1, 40)
        times = Times(task / 1000, task / 1000, 0.0, Line(0.0, 0.0), 0.0, detector=detector / 1000)
        one = round_time(times, slots, Room(places), RoundShape(early, 1000))
        assert one.sample == pytest.approx(simulated(slots, early, detector, places, task) / 1000)


def test_the_times_of_rounds_that_follow_the_model_are_found() -> None:
    room, rounds = Room(2, crowded=True), RoundShape(early=1, every=1000)
    measured = []
    for actors in (1, 1, 2, 8, 1, 2, 8):
        here = replace(room, crowded=actors >= 2)
        one = round_time(TIMES, actors, here, rounds)
        update = TIMES.update.at(actors)
        measured.append(
            ObservedRound(actors, actors, one.total, one.sample, update, 0.0, 0.0, one.work, TIMES.detector)
        )
    measured[0] = replace(measured[0], update=99.0, seconds=measured[0].seconds + 97.75)  # it compiles
    found = fit([measured], room, rounds, TIMES.start)
    assert (found.actor, found.crowded, found.call) == pytest.approx((2.0, 3.0, 0.5))
    assert (found.update.base, found.update.each, found.rest) == pytest.approx((1.0, 0.25, 0.1))
    assert (found.low, found.high, found.first) == pytest.approx((1.0, 1.0, 97.75))


def test_a_job_s_time_and_dollars_by_hand() -> None:
    times = replace(TIMES, detector=0.0)
    local = plan.choice(spec(), times, 2, "local", 4)
    # Two waves of 3.5 s, 2 s of update and 0.1 s of rest; four invocations of 3 s and 1 GB.
    assert local.round_seconds == pytest.approx(9.1)
    assert local.seconds == pytest.approx(4 + 10 * 9.1)
    assert local.dollars == pytest.approx(10 * (9.1 * 0.001 + 4 * (3.0 * 1e-5 + 1e-6)))
    assert (local.rounds, local.env_steps) == (10, 4000)
    pool = plan.choice(spec(), times, 2, "pool", 4)
    # 4.6 s a round, 10 s until the pods are ready and 30 s until they are gone, with 0.275 vCPU each.
    assert pool.seconds == pytest.approx(10 + 10 * 4.6)
    assert pool.dollars == pytest.approx(0.046 + 4 * (10 * 4.6 + 10 + 30) * (1e-4 + 0.275e-3))
    compiling = plan.choice(spec(), replace(times, first=5.0), 2, "local", 4)
    assert compiling.seconds == pytest.approx(local.seconds + 5)
    assert compiling.dollars == pytest.approx(local.dollars + 0.005)
    function = plan.choice(spec(), times, 2, "lambda", 4)
    # 1 GB is 1024/1769 of a core.
    seconds = 2.0 * 1769 / 1024
    assert function.round_seconds == pytest.approx(seconds + 0.5 + 2.1)
    billed = math.ceil(1000 * seconds) / 1000
    assert function.dollars == pytest.approx(
        10 * ((seconds + 2.6) * 0.001 + 4 * (billed * 1e-5 + 1e-6)), rel=1e-6
    )


def test_the_first_limit_ends_the_job() -> None:
    times = replace(TIMES, detector=0.0)
    for stop, rounds in (
        ({"rounds": 10, "envSteps": 1201}, 4),
        ({"rounds": 10, "actorRounds": 8}, 2),
        ({"rounds": 10, "duration": "20s"}, 3),
        ({"rounds": 10, "budgetDollars": 0.03}, 4),
        ({"rounds": 1}, 1),
    ):
        assert plan.choice(spec(stop=stop), times, 2, "local", 4).rounds == rounds, stop


def test_pods_sleep_in_a_gap_and_are_back_before_its_end() -> None:
    job = spec()
    assert gap_use(job, 0.5, 4).asleep == 0.0
    # They are woken 2.5 s before the next round: 2 s to wake, and half a second until the learner knows.
    used = gap_use(job, 20.0, 4)
    assert used.asleep > 16
    assert 2.5 <= used.awake <= 4.0
    assert used.asleep + used.awake == pytest.approx(20.0)
    asleep = gap_use(spec(scaling={"scaler": "fixed", "initialActors": 4, "sleep": "never"}), 20.0, 4).asleep
    assert asleep == 0.0
    # For an hour they go.
    assert gap_use(job, 3600.0, 4).draining == 30.0


def test_numbers_of_actors_double_up_to_the_most() -> None:
    assert plan.numbers(6, 4) == [1, 2, 4, 6]
    assert plan.numbers(24, 3) == [1, 2, 3, 4, 8, 16, 24]
    assert plan.numbers(1) == [1]


def test_the_table_marks_the_best_and_says_how_sure_it_is() -> None:
    job = spec(stop={"rounds": 10, "targetReward": 475})
    made = plan.make("planned", job, replace(TIMES, low=0.9, high=1.2), 2)
    shown = view.table(made)
    assert shown.count("cheapest") == shown.count("quickest") == 1
    assert "fixed pool" in shown
    assert "0.90 to 1.20" in view.notes(made)
    assert "spec.stop.targetReward may end the run sooner" in view.notes(made)
    assert "sampling takes 45% of a round" in view.advice(made)
    as_json = made.to_dict()
    assert [one["actors"] for one in as_json["choices"]] == [n for n in (1, 2, 4) for _ in range(4)]
    assert sum(one["cheapest"] for one in as_json["choices"]) == 1
