"""A long training does not fall by default, and what is shorter or has begun keeps its learning rate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_api import JobSpec, NitroTrainingJob, load_job, resolve, resolve_stored, warnings
from nitro_api.resolution.known_end import known_rounds, least_steps
from nitro_learner.studies.resolved_job import resolved_job

RATE = "spec.algorithm.hyperparameters.learningRateAnneal"
LONG = "spec.stop.rounds=489"
"""Rounds of 4 actors with 512 steps each: 1,001,472 steps."""


def plain(*, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "walker2d"},
        "spec": {"environment": {"id": "Walker2d-v5"}, **spec},
        **({"status": status} if status else {}),
    }


def job(*changes: str) -> NitroTrainingJob:
    return load_job(plain(), list(changes))


def spec_of(*changes: str) -> JobSpec:
    return resolve(job(*changes)).spec


def anneals(*changes: str) -> bool:
    return spec_of(*changes).algorithm.anneals


def told(*changes: str) -> list[str]:
    return [warning for warning in warnings(job(*changes)) if "constant learning rate" in warning]


def test_the_rate_of_a_long_training_falls_and_the_resolved_job_says_so() -> None:
    resolved = resolve(job(LONG))
    assert resolved.spec.algorithm.hyperparameters.learning_rate_anneal is True
    assert resolve(resolved).to_dict() == resolved.to_dict()
    assert not told(LONG)
    assert anneals("spec.stop.rounds=733", "spec.stop.envSteps=1500000"), "the limit of rounds is the end"


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["spec.stop.rounds=488"],
        [LONG, "spec.stop.envSteps=999999"],
        [LONG, "spec.stop.actorRounds=1950"],
        [LONG, f"{RATE}=false"],
        [LONG, "spec.algorithm.preset=paper"],
        [LONG, "spec.algorithm.name=impact"],
        [LONG, "spec.algorithm.hyperparameters.klCoefficient=0.2"],
        [LONG, "spec.scaling={scaler: fixed, initialActors: 9}"],
        [LONG, "spec.scaling={scaler: schedule, schedule: [4, 8, 16]}"],
        [LONG, "spec.scaling={scaler: growth, maxActors: 32}"],
        ["spec.stop.rounds=1000", "spec.stop.envSteps=1500000"],
        [LONG, "spec.stop.budgetDollars=2.5"],
        [LONG, "spec.stop.duration=2h"],
    ],
    ids=lambda changes: " ".join(changes).replace("spec.", ""),
)
def test_other_jobs_keep_their_rate(changes: list[str]) -> None:
    assert not anneals(*changes)


@pytest.mark.parametrize("take", ["Policies", "Run"])
def test_what_begins_with_another_run_has_the_default_that_this_one_had(take: str) -> None:
    assert anneals(LONG, f"spec.resumeFrom={{job: other, take: {take}}}")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([LONG, f"{RATE}=false"], f"{RATE}: with a constant learning rate, returns fall again in a training "
         "of 1,001,472 steps with at most 4 actors a round (experiments/results/long-trainings.md); set it "
         "to true, or leave it out"),
        (["spec.stop.rounds=9999", "spec.stop.envSteps=1500000"], "spec.stop.rounds: the learning rate would "
         "fall over 9999 rounds, and training ends after 733; with a constant learning rate, returns fall "
         "again in a training of 1,500,000 steps with at most 4 actors a round "
         "(experiments/results/long-trainings.md); set stop.rounds: 733, over which the rate then falls"),
        (["spec.stop.rounds=700", "spec.stop.envSteps=1200000", "spec.scaling.scaler=kungfu"],
         "and the end is not known in rounds; have stop.rounds end it"),
    ],
)  # fmt: skip
def test_settings_that_are_known_to_fall_are_warned_of(changes: list[str], sentence: str) -> None:
    (warning,) = told(*changes)
    assert sentence in warning


@pytest.mark.parametrize(
    "changes",
    [
        ["spec.stop.rounds=488"],
        [LONG, "spec.algorithm.preset=paper"],
        [LONG, "spec.stop.budgetDollars=2.5"],
        [LONG, "spec.scaling={scaler: growth, maxActors: 32}"],
        [LONG, "spec.algorithm.hyperparameters.klCoefficient=0.2", f"{RATE}=false"],
    ],
)
def test_no_other_job_is_warned_of(changes: list[str]) -> None:
    assert not told(*changes)


def test_the_end_in_rounds_by_hand() -> None:
    schedule = "spec.scaling={scaler: schedule, schedule: [4, 4, 8]}"
    assert known_rounds(spec_of("spec.stop={rounds: 90}")) == 90
    assert known_rounds(spec_of("spec.stop={rounds: 90, actorRounds: 41}")) == 11
    assert known_rounds(spec_of("spec.stop={rounds: 90, envSteps: 2049}")) == 2
    assert known_rounds(spec_of("spec.stop={rounds: 90, actorRounds: 5}", schedule)) == 2
    assert known_rounds(spec_of("spec.stop={rounds: 90, actorRounds: 33}", schedule)) == 6
    assert known_rounds(spec_of("spec.stop={rounds: 9, actorRounds: 72}", "spec.scaling.scaler=nitro")) == 9
    assert (
        known_rounds(spec_of("spec.stop={rounds: 9, actorRounds: 60}", "spec.scaling.scaler=nitro")) is None
    )
    assert known_rounds(spec_of("spec.stop={rounds: 90, duration: 5m}")) is None
    off = [
        "spec.algorithm.name=impact",
        "spec.scaling.scaler=fixed",
        "spec.stop={rounds: 90, actorRounds: 41}",
    ]
    assert known_rounds(spec_of(*off)) is None, "which actors of a round answer is not known"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 200))
def test_the_known_end_is_where_training_ends(schedule: list[int], rounds: int, limit: int) -> None:
    spec = spec_of(
        f"spec.scaling={{scaler: schedule, schedule: {schedule}}}",
        f"spec.stop={{rounds: {rounds}, actorRounds: {limit}}}",
    )
    done = round = 0
    while round < rounds and done < limit:
        done += schedule[min(round, len(schedule) - 1)]
        round += 1
    assert known_rounds(spec) == round
    assert least_steps(spec) == 512 * min(done, limit)


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("rounds", [100, 800])
def test_a_stored_job_whose_run_has_begun_keeps_its_rate(falls: bool, rounds: int) -> None:
    """Whatever spec.stop says now."""
    status = {"training": {"round": 3, "learningRateAnneal": falls}}
    stored = plain(stop={"rounds": rounds}, status=status)
    assert resolve_stored(stored).spec.algorithm.anneals is falls


def test_a_stored_job_that_has_not_begun_has_the_default() -> None:
    assert resolve_stored(plain(stop={"rounds": 800})).spec.algorithm.anneals
    assert resolve_stored(plain(stop={"rounds": 800}, status={"training": {}})).spec.algorithm.anneals


def test_a_stored_game_keeps_the_rate_that_its_preset_gave() -> None:
    status = {"training": {"round": 3, "learningRateAnneal": True}}
    stored = plain(environment={"id": "ALE/Pong-v5"}, status=status)
    assert resolve_stored(stored).spec.algorithm.anneals


@pytest.mark.parametrize("falls", [True, False])
def test_a_run_on_this_machine_keeps_its_rate(falls: bool) -> None:
    begun = resolve(job(LONG, f"{RATE}={str(falls).lower()}")).to_dict()
    assert resolved_job(plain(stop={"rounds": 600}), [], begun).spec.algorithm.anneals is falls
    assert resolved_job(plain(stop={"rounds": 600}), [f"{RATE}=true"], begun).spec.algorithm.anneals
