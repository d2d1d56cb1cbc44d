"""The training loop with the production cache, actor and environment, all in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_backend import MemoryBackend, Request
from nitro_actor.protocol.fragment import FragmentContainer
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_api import JobInvalid, load_job, resolve
from nitro_api.algorithms.registry import RECORDS
from nitro_api.costs.ledger import Entry, Ledger
from nitro_api.costs.pod_use import PodUse
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.backends.base import FatalError, RetryableError
from nitro_learner.backends.cache.base import CacheUnreachable
from nitro_learner.backends.cache.memory_cache import MemoryCache
from nitro_learner.checkpoints.store import CheckpointStore, load, pack
from nitro_learner.sampling.plans import EvaluationResult
from nitro_learner.scalers import Decision, RoundOutcome, Scaler
from nitro_learner.training.adoption import RESUME_FROM, Source
from nitro_learner.training.builder import Sitting
from nitro_learner.training.costs import Meter
from nitro_learner.training.failures import TrainingFailed
from nitro_learner.training.round_report import Listener, Outcome, RoundReport, Row
from nitro_learner.training.state import TrainingState
from nitro_learner.training.stop import StopReason
from nitro_learner.training.trainer import Trainer
from train_support import job

STEPS = 24
ENVIRONMENT = {"id": "Walk-v0", "entryPoint": "actor_support:Walk", "rolloutLength": STEPS, "envsPerActor": 1}
SMALL: dict[str, Any] = {
    "environment": ENVIRONMENT,
    "algorithm": {"hyperparameters": {"epochs": 1, "minibatchSize": 24}},
    "network": {"hiddenSizes": [8]},
    "scaling": {"scaler": "nitro", "minActors": 2, "maxActors": 4, "initialActors": 3},
    "evaluation": {"episodes": 3, "everyRounds": 2},
    "stop": {"rounds": 3},
}
IMPACT = {"name": "impact", "hyperparameters": {"batchSize": STEPS, "epochs": 1, "minibatchSize": 24}}


class RecordingListener(Listener):
    """A listener that records the events of a run in their order."""

    essential = True  # what a test finds wrong must end the run

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.requests: list[tuple[int, int]] = []
        self.reports: list[RoundReport] = []
        self.checkpoints: list[int] = []
        self.on_stage: Callable[[int, str], None] = lambda *_: None

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:
        self.events.append(("started", round, rounds, len(history)))

    def on_round_requested(self, *, round: int, actors: int) -> None:
        self.requests.append((round, actors))

    def on_stage_started(self, *, round: int, stage: str, actors: int) -> None:
        self.events.append((stage, round, actors))
        self.on_stage(round, stage)

    def on_round_done(self, report: RoundReport) -> None:
        self.events.append(("round done", report.round))
        self.reports.append(report)

    def on_checkpoint_saved(self, *, round: int, location: str) -> None:
        assert Path(location).exists()
        self.checkpoints.append(round)

    def on_run_ended(self, outcome: Outcome) -> None:
        self.events.append(("ended", outcome.rounds))


class Run:
    """A run in a folder; `sitting` is the trainer of its next sitting."""

    def __init__(self, folder: Path, stack: ExitStack, **spec: Any) -> None:
        self.spec = spec
        self.store = CheckpointStore(folder / "checkpoints", keep_last=100)
        self.ledger = stack.enter_context(Ledger(folder / "ledger.jsonl"))

    def sitting(
        self,
        more: Sequence[Listener] = (),
        history: Sequence[Row] = (),
        source: Source | None = None,
        metered: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Trainer:
        resolved = resolve(load_job(job(**(SMALL | self.spec))))
        self.backend, self.listener = MemoryBackend(resolved.spec), RecordingListener()
        return Trainer(
            Sitting(resolved, "run", self.store, self.store.latest(), history, source),
            self.backend,
            Meter(self.ledger, resolved.spec.pricing, **(metered or {})),
            listeners=[self.listener, *more],
            **options,
        )

    def requested(self, kind: str, round: int) -> list[Request]:
        return [r for r in self.backend.requests if (r["kind"], r["round"]) == (kind, round)]

    def paid(self, round: int) -> list[Entry]:
        return [entry for entry in self.ledger.entries if entry.round == round]


NewRun = Callable[..., Run]


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[NewRun]:
    with ExitStack() as stack:
        numbers = iter(range(100))

        def make(**spec: Any) -> Run:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            return Run(folder, stack, **spec)

        yield make


def learned(reports: list[RoundReport]) -> list[tuple[Any, ...]]:
    """What tells two runs apart, and is equal to the bit where they are equal."""
    return [
        (r.round, r.env_steps, r.actors, r.reward_round, r.evaluation_mean, r.kl, r.policy_loss, r.value_loss)
        for r in reports
    ]


def failing(when: Callable[[Request], bool], error: Exception) -> Any:
    """What a backend does before a request: raise for some of them."""

    async def before(request: Request) -> None:
        if when(request):
            raise error

    return before


def broken() -> RetryableError:
    """An environment's own error, billed with half a second."""
    return RetryableError("environment", "the wheel came off", 0.5, estimated=False, deterministic=True)


# The flow of rounds.


async def test_the_time_left_is_that_of_the_nearest_stop_also_of_one_that_changes(new_run: NewRun) -> None:
    scaling = {"scaler": "fixed", "minActors": 2, "maxActors": 2}
    run = new_run(stop={"rounds": 2000, "envSteps": 4 * 2 * STEPS}, scaling=scaling)
    trainer = run.sitting()
    assert (await trainer.run()).reason == "EnvStepsDone"
    reports = run.listener.reports
    assert [bool(_eta(report)) for report in reports] == [True, True, True, False]
    # Three rounds like the first, and after the third one like a round of those three.
    assert _eta(reports[0]) == pytest.approx(3 * reports[0].seconds_total)
    assert _eta(reports[2]) in [pytest.approx(report.seconds_total) for report in reports[:3]]

    now = resolve(load_job(job(**SMALL))).spec.stop  # three rounds
    run = new_run(stop={"rounds": 2000}, scaling=scaling)
    await run.sitting(limits=lambda: now).run()
    assert _eta(run.listener.reports[-1]) == 0.0


def _eta(report: RoundReport) -> float | None:
    assert report.counters.forecast is not None
    return report.counters.forecast.seconds


def test_trainer_samples_only_the_tensors_that_its_algorithm_learns_from(new_run: NewRun) -> None:
    """The log-probabilities and the distribution of PPO, the log-probabilities alone of IMPACT."""
    sizes = {}
    for name, algorithm in (("ppo", SMALL["algorithm"]), ("impact", IMPACT)):
        fragments: list[FragmentContainer] = []

        class Listening(MemoryCache):
            def put(self, key: str, value: bytes, heard: list[FragmentContainer] = fragments) -> None:
                heard.append(FragmentContainer.decode(value))
                super().put(key, value)

        run = new_run(algorithm=algorithm)
        trainer = run.sitting()
        run.backend.new_cache = Listening
        assert asyncio.run(trainer.run()).finished
        requests = [request for request in run.backend.requests if request["kind"] == "rollout"]
        rollouts = [one for one in fragments if one.kind == "rollout"]
        wanted = RECORDS[name].tensors
        assert {tuple(request["optionalTensors"]) for request in requests} == {tuple(sorted(wanted))}
        for one in rollouts:
            assert {n for n in OPTIONAL_TENSORS if f"agent/{n}" in one.tensors} == wanted
        sizes[name] = min(len(one.encode()) for one in rollouts), max(len(one.encode()) for one in rollouts)
    assert sizes["impact"][1] < sizes["ppo"][0]


async def test_trainer_samples_each_round_with_the_weights_of_the_round_before(new_run: NewRun) -> None:
    run = new_run()
    outcome = await run.sitting().run()
    assert (outcome.reason, outcome.finished, outcome.rounds) == ("RoundsDone", True, 3)
    steps = 0
    for number, report in enumerate(run.listener.reports, 1):
        requests = run.requested("rollout", number)
        assert {request["weights"]["version"] for request in requests} == {number - 1}
        assert sorted(request["slot"] for request in requests) == list(range(report.actors))
        steps += STEPS * report.actors
        assert (report.round, report.env_steps) == (number, steps)
    assert [report.actors for report in run.listener.reports][1:] == [
        r.next_actors for r in run.listener.reports
    ][:-1]
    assert run.backend.closed
    assert run.backend.running == 0


async def test_trainer_reports_events_in_order(new_run: NewRun) -> None:
    run = new_run(stop={"rounds": 2}, scaling={"scaler": "fixed", "minActors": 2, "maxActors": 2})
    await run.sitting(history=[{"round": 1.0}]).run()
    assert run.listener.events == [
        ("started", 0, 2, 1),
        ("sample", 1, 2),
        ("update", 1, 2),
        ("round done", 1),
        ("sample", 2, 2),
        ("update", 2, 2),
        ("round done", 2),
        ("final", 3, 2),
        ("ended", 2),
    ]


async def test_trainer_announces_the_first_rounds_actors_and_reports_those_of_the_others(
    new_run: NewRun,
) -> None:
    run = new_run()
    await run.sitting().run()
    reports = run.listener.reports
    assert run.listener.requests == [(1, 3)]
    assert [later.actors for later in reports[1:]] == [report.next_actors for report in reports[:-1]]


class Scripted(Scaler):
    """Decides what it is told to."""

    def __init__(self, spec: Any, actors: list[int]) -> None:
        super().__init__(spec)
        self._actors = actors
        self.outcomes: list[RoundOutcome] = []

    @property
    def initial(self) -> int:
        return self._actors[0]

    def decide(self, outcome: RoundOutcome) -> Decision:
        self.outcomes.append(outcome)
        return Decision(self._actors[outcome.round])

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert not state


async def test_trainer_samples_with_as_many_actors_as_the_scaler_decides(new_run: NewRun) -> None:
    run, actors = new_run(), [4, 2, 3, 2]
    scaler = Scripted(resolve(load_job(job(**SMALL))).spec, actors)
    await run.sitting(scaler=scaler).run()
    assert [len(run.requested("rollout", round)) for round in (1, 2, 3)] == actors[:3]
    assert [(o.round, o.actors) for o in scaler.outcomes] == [(1, 4), (2, 2), (3, 3)]
    assert [o.cost for o in scaler.outcomes] == [report.cost_total for report in run.listener.reports]
    assert [report.next_actors for report in run.listener.reports] == actors[1:]


async def test_a_scaler_is_told_what_each_round_cost_by_itself(new_run: NewRun) -> None:
    """What is paid between two sittings is no round's: here the evaluation at the first one's end."""
    run, told = new_run(), []
    for rounds in (3, 5):
        run.spec["stop"] = {"rounds": rounds}
        scaler = Scripted(resolve(load_job(job(**SMALL))).spec, [2] * 6)
        await run.sitting(scaler=scaler).run()
        told += scaler.outcomes
    assert [o.round for o in told] == [1, 2, 3, 4, 5]
    assert sum(entry.cost.total for entry in run.paid(0)) > 0
    for outcome in told:
        (entry,) = run.paid(outcome.round)
        assert outcome.round_cost == pytest.approx(entry.cost.total)
    assert told[3].cost - told[2].cost > 1.01 * told[3].round_cost


@pytest.mark.parametrize("resume", [True, False])
async def test_trainer_continues_the_episodes_of_the_round_before_if_the_job_wants_it(
    new_run: NewRun, resume: bool
) -> None:
    run = new_run(environment=ENVIRONMENT | {"resumeEpisodes": resume}, stop={"rounds": 2})
    await run.sitting().run()
    assert not any(request["state"] for request in run.requested("rollout", 1))
    sampled = {request["slot"] for request in run.requested("rollout", 1)}
    for request in run.requested("rollout", 2):
        assert bool(request["state"]) == (resume and request["slot"] in sampled)


@pytest.mark.parametrize("reset", [True, False])
async def test_trainer_resets_slots_that_the_round_before_did_not_use_if_the_job_wants_it(
    new_run: NewRun, reset: bool
) -> None:
    given: dict[str, Any] = {
        "environment": ENVIRONMENT | {"resetIdleSlots": reset},
        "scaling": {"scaler": "schedule", "schedule": [3, 2, 3], "minActors": 2},
    }
    run, resumed = new_run(**given), new_run(**given, stop={"rounds": 2})
    await run.sitting().run()
    went_on = {request["slot"]: bool(request["state"]) for request in run.requested("rollout", 3)}
    assert went_on == {0: True, 1: True, 2: not reset}
    await resumed.sitting().run()
    first = learned(resumed.listener.reports)
    resumed.spec["stop"] = {"rounds": 3}
    await resumed.sitting().run()
    assert first + learned(resumed.listener.reports) == learned(run.listener.reports)


async def test_trainer_evaluates_every_other_version_and_the_final_policy(new_run: NewRun) -> None:
    run = new_run(stop={"rounds": 5})
    outcome = await run.sitting().run()
    versions = [r["weights"]["version"] for r in run.backend.requests if r["kind"] == "evaluate"]
    assert sorted(set(versions)) == [2, 4, 5]
    means = [report.evaluation_mean is not None for report in run.listener.reports]
    assert means == [False, False, True, False, True], "of version 2 in round 3, of version 4 in round 5"
    assert len(outcome.evaluation) == 3


@pytest.mark.parametrize("name", ["ppo", "impact"])
async def test_trainer_pays_for_every_invocation(new_run: NewRun, name: str) -> None:
    run = new_run(algorithm={"name": name, "hyperparameters": {"epochs": 1, "minibatchSize": 24}})
    outcome = await run.sitting().run()
    assert [entry.round for entry in run.ledger.entries] == [1, 2, 3, 0], "the last is the final evaluation"
    assert sum(entry.details["invocations"] for entry in run.ledger.entries) == len(run.backend.requests)
    assert outcome.cost == run.ledger.total
    assert outcome.cost.total == pytest.approx(sum(entry.cost.total for entry in run.ledger.entries))


async def test_trainer_learns_the_same_of_the_same_seed(new_run: NewRun) -> None:
    first, second, other = new_run(), new_run(), new_run(seed=8)
    outcomes = [await run.sitting().run() for run in (first, second, other)]
    assert learned(first.listener.reports) == learned(second.listener.reports)
    assert outcomes[0].evaluation == outcomes[1].evaluation
    assert learned(first.listener.reports) != learned(other.listener.reports)


# Stop conditions.


@pytest.mark.parametrize(
    ("limit", "reason", "rounds"),
    [
        ({"rounds": 2}, "RoundsDone", 2),
        ({"rounds": 50, "actorRounds": 5}, "ActorRoundsDone", 2),
        ({"rounds": 50, "envSteps": 3 * STEPS + 1}, "EnvStepsDone", 2),
        ({"rounds": 50, "budgetDollars": 1e-12}, "BudgetSpent", 1),
        ({"rounds": 50, "targetReward": -1e6}, "TargetReached", 3),
        ({"rounds": 2, "targetReward": 1e6}, "RoundsDone", 2),
    ],
)
async def test_trainer_stops_after_the_round_in_which_a_limit_is_reached(
    new_run: NewRun, limit: dict[str, Any], reason: str, rounds: int
) -> None:
    run = new_run(stop=limit)
    outcome = await run.sitting().run()
    assert (outcome.reason, outcome.finished, outcome.rounds) == (reason, True, rounds)
    assert len(run.listener.reports) == rounds
    assert run.store.rounds()[-1] == rounds


@pytest.mark.parametrize("cut", [False, True])
async def test_patience_counts_rounds_without_a_better_evaluation_and_a_resume_counts_on(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch, *, cut: bool
) -> None:
    means = iter([1.0, 3.0, 3.0, 2.0, 9.0, 9.0])  # of the policies after rounds 1, 2, 3, 4 ...
    take = TrainingState.take_evaluation

    def taking(state: TrainingState, result: EvaluationResult) -> None:
        take(state, replace(result, returns=np.full_like(result.returns, next(means))))

    monkeypatch.setattr(TrainingState, "take_evaluation", taking)
    run = new_run(
        stop={"rounds": 50, "patience": 2},
        evaluation={"episodes": 2, "everyRounds": 1},
        learner={"checkpoint": {"everyRounds": 1}},
    )
    if cut:
        trainer = run.sitting()
        run.listener.on_stage = lambda round, _: trainer.interrupt() if round == 4 else None
        assert not (await trainer.run()).finished
    outcome = await run.sitting().run()
    assert (outcome.reason, outcome.rounds) == ("NoBetterEvaluation", 5)
    assert "better than 3, of round 2, in the 2 rounds" in outcome.message


@pytest.mark.parametrize("algorithm", [{}, IMPACT])
async def test_a_run_ends_as_asked_with_its_last_evaluation_and_goes_on_later(
    new_run: NewRun, algorithm: dict[str, Any]
) -> None:
    run = new_run(stop={"rounds": 6}, algorithm=SMALL["algorithm"] | algorithm)

    class Ending(Listener):
        def on_round_done(self, report: RoundReport) -> None:
            if report.round == 2:
                trainer.end(StopReason("CallbackStopped", "enough"))

    trainer = run.sitting(more=[Ending()])
    outcome = await trainer.run()
    assert (outcome.reason, outcome.message, outcome.finished) == ("CallbackStopped", "enough", True)
    # An off-policy round that has begun may have learned already, so it is finished.
    assert outcome.rounds == (3 if algorithm else 2)
    assert len(outcome.evaluation) == 3
    assert run.store.rounds()[-1] == outcome.rounds
    again = await run.sitting().run()
    assert (again.reason, again.rounds) == ("RoundsDone", 6)


async def test_an_interruption_that_comes_with_an_end_is_an_interruption(new_run: NewRun) -> None:
    run = new_run(stop={"rounds": 6})
    trainer = run.sitting()
    trainer.end(StopReason("CallbackStopped", "enough"))
    trainer.interrupt("the user's wish; interrupted")
    outcome = await trainer.run()
    assert (outcome.reason, outcome.finished) == ("Interrupted", False)
    assert outcome.message.startswith("the user's wish; interrupted in the first round")


async def test_a_wish_to_end_in_the_last_round_changes_nothing(new_run: NewRun) -> None:
    run = new_run(stop={"rounds": 2})

    class Ending(Listener):
        def on_round_done(self, report: RoundReport) -> None:
            if report.round == 2:
                trainer.end(StopReason("CallbackStopped", "enough"))

    trainer = run.sitting(more=[Ending()])
    outcome = await trainer.run()
    assert (outcome.reason, outcome.finished, len(outcome.evaluation)) == ("RoundsDone", True, 3)


async def test_trainer_stops_by_the_limits_of_now_where_they_have_changed(new_run: NewRun) -> None:
    run = new_run(stop={"rounds": 50})
    changed = resolve(load_job(job(**(SMALL | {"stop": {"rounds": 2}})))).spec.stop
    outcome = await run.sitting(limits=lambda: changed if run.listener.reports else None).run()
    assert (outcome.reason, outcome.rounds) == ("RoundsDone", 2)


ANNEALED: dict[str, Any] = {
    "ppo": {"hyperparameters": SMALL["algorithm"]["hyperparameters"] | {"learningRateAnneal": True}},
    "impact": {
        "name": "impact",
        "hyperparameters": {"batchSize": STEPS, "epochs": 1, "minibatchSize": 24, "learningRateAnneal": True},
    },
}


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rate of each update, in parts of the job's."""
    found: list[float] = []
    for name in ("update", "end_round"):
        original = getattr(PolicySet, name)

        def listening(policies: Any, *arguments: Any, original: Any = original) -> Any:
            results = original(policies, *arguments)
            (result,) = results.values()
            (learner,) = policies.learners
            found.append(result.stats["learning_rate"] / learner.settings.learning_rate)
            return results

        monkeypatch.setattr(PolicySet, name, listening)
    return found


@pytest.mark.parametrize("algorithm", ANNEALED)
async def test_a_learning_rate_falls_over_the_rounds_of_now_where_they_have_changed(
    new_run: NewRun, rates: list[float], algorithm: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = new_run(algorithm=ANNEALED[algorithm], stop={"rounds": 2})
    changed = resolve(load_job(job(**(SMALL | {"stop": {"rounds": 4}})))).spec.stop
    await run.sitting(limits=lambda: changed if rates else None).run()
    assert rates == pytest.approx([1, 0.75, 0.5, 0.25])
    warnings = [record.getMessage() for record in caplog.records if "falls to zero" in record.getMessage()]
    assert warnings == [
        "Its learning rate falls to zero over 2 rounds, and spec.stop.rounds is 4 now. The run goes on all "
        "the same, at the rate that a run of 4 rounds has there."
    ]


async def test_a_constant_learning_rate_gives_no_warning_when_the_rounds_change(
    new_run: NewRun, rates: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    run = new_run(stop={"rounds": 1})
    changed = resolve(load_job(job(**(SMALL | {"stop": {"rounds": 2}})))).spec.stop
    await run.sitting(limits=lambda: changed if rates else None).run()
    assert rates == [1, 1]
    assert not [record for record in caplog.records if "rounds" in record.getMessage()]


@pytest.mark.parametrize("algorithm", ANNEALED)
async def test_a_run_that_goes_on_to_other_rounds_has_their_learning_rate_at_once(
    new_run: NewRun, rates: list[float], algorithm: str
) -> None:
    run = new_run(algorithm=ANNEALED[algorithm], stop={"rounds": 2})
    await run.sitting().run()
    run.spec["stop"] = {"rounds": 4}
    await run.sitting().run()
    assert rates == pytest.approx([1, 0.5, 0.5, 0.25])


async def test_trainer_that_is_resumed_at_its_end_does_no_more_rounds(new_run: NewRun) -> None:
    run = new_run()
    first = await run.sitting().run()
    again = await run.sitting().run()
    assert (again.reason, again.rounds, run.listener.reports) == ("RoundsDone", 3, [])
    assert again.evaluation == first.evaluation


# Interruption.


async def test_trainer_interrupted_while_it_samples_ends_at_once_and_resumes_to_the_same_result(
    new_run: NewRun,
) -> None:
    calm, struck = new_run(stop={"rounds": 4}), new_run(stop={"rounds": 4})
    expected = await calm.sitting().run()
    trainer = struck.sitting()

    async def interrupt(request: Request) -> None:
        if (request["kind"], request["round"]) == ("rollout", 3):
            trainer.interrupt()
            await asyncio.Event().wait()

    struck.backend.before = interrupt
    outcome = await trainer.run()
    assert (outcome.reason, outcome.finished, outcome.rounds) == ("Interrupted", False, 2)
    assert outcome.evaluation == ()
    assert struck.store.rounds()[-1] == 2
    assert (struck.backend.closed, struck.backend.running) == (True, 0)
    (broken_off,) = struck.paid(0)
    assert broken_off.details["invocations"] >= 1, "what was cancelled is paid"
    reports = struck.listener.reports
    resumed = await struck.sitting().run()
    assert struck.listener.events[0] == ("started", 2, 4, 0)
    assert resumed.evaluation == expected.evaluation
    assert learned(reports + struck.listener.reports) == learned(calm.listener.reports)


async def test_trainer_interrupted_in_its_first_round_claims_no_checkpoint(new_run: NewRun) -> None:
    run = new_run()
    trainer = run.sitting()

    async def interrupt(_: Request) -> None:
        trainer.interrupt()
        await asyncio.Event().wait()

    run.backend.before = interrupt
    outcome = await trainer.run()
    assert outcome.message == "interrupted in the first round; a resumed run begins with it"
    assert run.store.rounds() == []


@pytest.mark.parametrize("name", ["ppo", "impact"])
async def test_trainer_interrupted_in_an_update_ends_the_round(new_run: NewRun, name: str) -> None:
    run = new_run(algorithm={"name": name, "hyperparameters": {"epochs": 1, "minibatchSize": 24}})
    trainer = run.sitting()
    run.listener.on_stage = lambda round, stage: (
        trainer.interrupt() if (round, stage) == (2, "update") else None
    )
    outcome = await trainer.run()
    assert (outcome.reason, outcome.rounds) == ("Interrupted", 2)
    assert [report.round for report in run.listener.reports] == [1, 2], "the last one is scored"
    assert run.requested("rollout", 3) == []
    assert run.store.rounds()[-1] == 2


REPLAYING: dict[str, Any] = {
    # One actor, so that no fragment of round 2 is under way when round 3 begins; replays hardly end.
    "algorithm": {
        "name": "impact",
        "hyperparameters": {"batchSize": STEPS, "epochs": 1, "minibatchSize": 24, "bufferUses": 10_000},
    },
    "scaling": {"scaler": "nitro", "minActors": 1, "maxActors": 1},
    "stop": {"rounds": 9},
}


@pytest.mark.parametrize("fails", [False, True], ids=["interrupted", "failed"])
@pytest.mark.parametrize("every", [1, 9])
async def test_a_checkpoint_has_no_replays_of_a_round_that_was_broken_off(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch, every: int, fails: bool
) -> None:
    run = new_run(**REPLAYING, learner={"checkpoint": {"everyRounds": every, "keepLast": 100}})
    trainer = run.sitting()
    after: list[bytes] = []
    replayed = asyncio.Event()
    loop, replay, make = asyncio.get_running_loop(), PolicySet.replay, registry.make_policies

    def made(*arguments: Any) -> PolicySet:
        policies = make(*arguments)
        run.listener.on_stage = lambda round, stage: (
            after.append(pack(2, policies.state_dict())) if (round, stage) == (3, "sample") else None
        )
        return policies

    def told(policies: PolicySet) -> bool:
        if after:
            loop.call_soon_threadsafe(replayed.set)
        return replay(policies)

    monkeypatch.setattr(registry, "make_policies", made)
    monkeypatch.setattr(PolicySet, "replay", told)

    async def before(request: Request) -> None:
        if (request["kind"], request["round"]) == ("rollout", 3):
            await replayed.wait()
            if fails:
                raise FatalError("the actor refuses the token")
            trainer.interrupt()
            await asyncio.Event().wait()

    run.backend.before = before
    if fails:
        with pytest.raises(TrainingFailed, match="refuses the token"):
            await trainer.run()
    else:
        assert (await trainer.run()).rounds == 2
    assert run.store.rounds()[-1] == 2, "no round is lost"
    assert pack(2, load(run.store.path(2)).state["policies"]) == after[0]
    assert [report.round for report in run.listener.reports] == [1, 2]


async def test_trainer_pays_for_a_start_that_failed(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run()
    trainer = run.sitting()

    async def start() -> dict[str, Any]:
        raise FatalError("memoryMiB differs")

    monkeypatch.setattr(run.backend, "start", start)
    monkeypatch.setattr(run.backend, "take_bills", lambda: [0.5, 2.0])
    with pytest.raises(TrainingFailed, match="memoryMiB differs"):
        await trainer.run()
    (entry,) = run.paid(0)
    assert (entry.details["invocations"], entry.details["billedSeconds"]) == (2, 2.5)


async def test_trainer_interrupted_while_actors_start_does_nothing(new_run: NewRun) -> None:
    run = new_run()
    trainer = run.sitting()

    async def start() -> dict[str, Any]:
        trainer.interrupt()
        await asyncio.Event().wait()
        raise AssertionError

    run.backend.start = start  # type: ignore[method-assign]
    outcome = await trainer.run()
    assert (outcome.reason, outcome.finished, outcome.rounds) == ("Interrupted", False, 0)
    assert run.backend.closed
    assert run.store.rounds() == []


# Checkpoints.


@pytest.mark.parametrize(
    ("every", "rounds", "saved"), [(1, 3, [1, 2, 3]), (2, 5, [2, 4, 5]), (2, 4, [2, 4]), (9, 3, [3])]
)
async def test_trainer_saves_every_so_many_rounds_and_the_last(
    new_run: NewRun, every: int, rounds: int, saved: list[int]
) -> None:
    run = new_run(stop={"rounds": rounds}, learner={"checkpoint": {"everyRounds": every, "keepLast": 100}})
    await run.sitting().run()
    assert run.listener.checkpoints == run.store.rounds() == saved


# Failures.


async def test_trainer_goes_on_without_an_evaluation_that_failed_and_pays_for_it(
    new_run: NewRun, caplog: pytest.LogCaptureFixture
) -> None:
    run = new_run(stop={"rounds": 5})
    trainer = run.sitting()
    run.backend.before = failing(lambda r: (r["kind"], r["weights"]["version"]) == ("evaluate", 2), broken())
    outcome = await trainer.run()
    assert (outcome.reason, outcome.rounds) == ("RoundsDone", 5)
    means = [report.evaluation_mean is not None for report in run.listener.reports]
    assert means == [False, False, False, False, True]
    (warning,) = [message for message in caplog.messages if "valuation" in message]
    assert "the wheel came off" in warning
    (entry,) = run.paid(3)
    tries = len(run.requested("evaluate", 2))
    assert tries == 2 * 2, "two slots, each tried once more"
    assert entry.details["invocations"] == run.listener.reports[2].actors + tries
    assert entry.details["billedSeconds"] > 0.5 * tries


@pytest.mark.parametrize("every", [1, 9])
async def test_trainer_saves_the_rounds_before_one_that_failed(new_run: NewRun, every: int) -> None:
    calm = new_run(stop={"rounds": 4})
    expected = await calm.sitting().run()
    learner = {"checkpoint": {"everyRounds": every, "keepLast": 100}}
    run = new_run(stop={"rounds": 4}, learner=learner)
    trainer = run.sitting()
    run.backend.before = failing(lambda r: (r["kind"], r["round"]) == ("rollout", 3), broken())
    with pytest.raises(TrainingFailed, match="round 3 failed: environment: the wheel came off") as failure:
        await trainer.run()
    assert not failure.value.resumable, "the same seeds would fail again"
    assert run.store.rounds()[-1] == 2
    assert (run.backend.closed, run.backend.running) == (True, 0)
    (entry,) = run.paid(0)
    assert entry.details["invocations"] >= len(run.requested("rollout", 3))
    reports = run.listener.reports
    assert [report.round for report in reports] == [1, 2], "round 2 is scored before it is saved"
    resumed = await run.sitting().run()
    assert resumed.evaluation == expected.evaluation
    assert learned(reports + run.listener.reports) == learned(calm.listener.reports)


async def test_trainer_scores_and_saves_the_last_round_when_the_cache_is_gone_after_it(
    new_run: NewRun,
) -> None:
    run = new_run(learner={"checkpoint": {"everyRounds": 9, "keepLast": 100}})
    trainer = run.sitting()

    class Gone(MemoryCache):
        async def publish_weights(self, version: int, payload: bytes) -> None:
            if version == 2:
                raise CacheUnreachable("Redis does not answer")
            await super().publish_weights(version, payload)

    run.backend.new_cache = Gone
    with pytest.raises(TrainingFailed, match="Redis does not answer") as failure:
        await trainer.run()
    assert failure.value.resumable
    assert [report.round for report in run.listener.reports] == [1, 2]
    assert run.store.rounds() == [2]


async def test_trainer_fails_at_once_when_no_retry_can_help(new_run: NewRun) -> None:
    run = new_run()
    trainer = run.sitting()
    refused = FatalError("the actor refuses the token")
    run.backend.before = failing(lambda r: (r["kind"], r["round"]) == ("rollout", 2), refused)
    with pytest.raises(TrainingFailed, match="refuses the token") as failure:
        await trainer.run()
    assert not failure.value.resumable
    assert run.store.rounds() == [1]
    assert (run.backend.closed, run.backend.running) == (True, 0)


async def test_trainer_that_actors_leave_alone_can_be_resumed(new_run: NewRun) -> None:
    run = new_run(actor={"timeoutSeconds": 1, "roundDeadlineSeconds": 1})
    trainer = run.sitting()

    async def hang(request: Request) -> None:
        if (request["kind"], request["round"]) == ("rollout", 2):
            await asyncio.Event().wait()

    run.backend.before = hang
    with pytest.raises(
        TrainingFailed, match=r"round 2 failed: timeout: no answer in 1 s\n.* slots did not come back"
    ) as failure:
        await trainer.run()
    assert failure.value.resumable
    assert run.store.rounds() == [1]
    outcome = await run.sitting().run()
    assert (outcome.reason, outcome.rounds) == ("RoundsDone", 3)


async def test_trainer_reports_actors_that_a_round_did_not_start_as_not_late(new_run: NewRun) -> None:
    """A round of IMPACT goes on with lanes that an earlier round has started."""
    run, second_begun = new_run(algorithm=IMPACT), asyncio.Event()
    trainer = run.sitting()

    async def hold_one_of_the_first(request: Request) -> None:
        if request["round"] == 2:
            second_begun.set()
        elif (request["kind"], request["round"], request["slot"]) == ("rollout", 1, 2):
            await second_begun.wait()

    run.backend.before = hold_one_of_the_first
    await trainer.run()
    first, second, _ = run.listener.reports
    assert len(run.requested("rollout", 2)) < second.actors
    assert (first.ready, second.ready) == (first.actors, second.actors)
    steps = [0, *(report.env_steps for report in run.listener.reports)]
    learned = [(later - earlier) // STEPS for earlier, later in pairwise(steps)]
    assert [report.counters.learned for report in run.listener.reports] == learned
    assert first.counters.learned == 2, "the round ends without the third"


# Another run's policies.


@pytest.mark.parametrize("algorithm", [SMALL["algorithm"], IMPACT], ids=["ppo", "impact"])
async def test_trainer_begins_with_another_runs_policies_and_all_else_anew(
    new_run: NewRun, algorithm: dict[str, Any]
) -> None:
    source = new_run(algorithm=algorithm, seed=1)
    await source.sitting().run()
    last = source.store.latest()
    run = new_run(algorithm=algorithm, seed=2, stop={"rounds": 1})
    assert last is not None
    await run.sitting(source=Source(RESUME_FROM, last.state, last.round)).run()

    begin = load(run.store.path(0))
    taken, state = (one.state["policies"]["learners"][0]["state"] for one in (last, begin))
    parts = ("parameters", "adam", "observations", "target")
    there, here = (pack(0, {name: one[name] for name in parts if name in one}) for one in (taken, state))
    assert there == here, "equal to the bit"
    assert state["rewards"] is None or state["rewards"]["running"] == {}
    assert state.get("passes", 0) == 0
    training = begin.state["training"]
    assert (training["round"], training["env_steps"], training["seconds"]) == (0, 0, 0)
    assert (training["recent_returns"], training["end_states"], training["best_reward"]) == ([], {}, None)
    assert run.listener.events[0] == ("started", 0, 1, 0)
    assert run.listener.checkpoints == [0, 1]
    assert [entry.round for entry in run.ledger.entries] == [1, 0], "the last is the final evaluation"


async def test_trainer_with_a_checkpoint_of_its_own_takes_nothing_from_another_run(new_run: NewRun) -> None:
    run, undisturbed = new_run(stop={"rounds": 2}), new_run(stop={"rounds": 2})
    await undisturbed.sitting().run()
    run.spec["stop"] = {"rounds": 1}
    await run.sitting().run()
    run.spec["stop"] = {"rounds": 2}
    await run.sitting(source=Source(RESUME_FROM, {"it is": "not read"}, 1)).run()
    states = [load(one.store.path(2)).state["policies"] for one in (run, undisturbed)]
    assert pack(2, states[0]) == pack(2, states[1])


async def test_trainer_refuses_the_policies_of_other_spaces_and_networks_by_name(new_run: NewRun) -> None:
    source = new_run(stop={"rounds": 1})
    await source.sitting().run()
    last = source.store.latest()
    assert last is not None
    wider = {**last.state, "spaces": {**last.state["spaces"], "observations of agent": [7]}}
    with pytest.raises(JobInvalid, match=r"spec.resumeFrom: .*observations of agent are \[7\] there and \["):
        await new_run().sitting(source=Source(RESUME_FROM, wider, 1)).run()
    given = Source("--from x", last.state, last.round)
    with pytest.raises(JobInvalid, match=r"--from x: .*the state is of the network .*\[8\].*\[9\]"):
        await new_run(network={"hiddenSizes": [9]}).sitting(source=given).run()


# The best policy.


@pytest.mark.parametrize(
    "changes",
    [{}, {"algorithm": IMPACT}, {"evaluation": {"episodes": 3, "everyRounds": 1}}],
    ids=["ppo", "impact", "every round"],
)
async def test_the_policy_with_the_best_evaluation_is_kept_as_it_was_evaluated(
    new_run: NewRun, changes: dict[str, Any]
) -> None:
    run = new_run(stop={"rounds": 7}, **changes)
    outcome = await run.sitting().run()
    assert len(outcome.evaluation) == 3
    # An evaluation belongs to the policy after the round before.
    means = {report.round - 1: report.evaluation_mean for report in run.listener.reports}
    means[7] = sum(outcome.evaluation) / 3
    evaluated = {round: mean for round, mean in means.items() if mean is not None}
    highest = max(evaluated.values())
    first = min(round for round, mean in evaluated.items() if mean == highest)
    assert run.store.best() == {"round": first, "mean": highest}
    best, then = (
        load(run.store.directory / name, attached=False)
        for name in ("best.safetensors", run.store.path(first).name)
    )
    for part in ("played", "policies", "sharing", "spaces"):
        assert pack(0, {part: best.state[part]}) == pack(0, {part: then.state[part]})


async def test_a_run_that_goes_on_has_the_best_policy_of_an_undisturbed_one(new_run: NewRun) -> None:
    often = {"evaluation": {"episodes": 3, "everyRounds": 1}}
    undisturbed, run = new_run(stop={"rounds": 6}, **often), new_run(stop={"rounds": 6}, **often)
    await undisturbed.sitting().run()
    trainer = run.sitting()
    run.listener.on_stage = lambda round, _: trainer.interrupt() if round == 4 else None
    assert not (await trainer.run()).finished
    # As after a crash that lost the last two checkpoints, but not the best policy's later file.
    for round in run.store.rounds()[-2:]:
        run.store.path(round).unlink()
    await run.sitting().run()
    files = [(one.store.directory / "best.safetensors").read_bytes() for one in (undisturbed, run)]
    assert files[0] == files[1]


async def test_an_extended_run_keeps_the_policy_that_was_best_at_its_former_end(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    returns = iter([5.0, 9.0, 7.0, 8.0, 8.5])  # after rounds 2, 3 (the end), 4, 6 and 7
    plain = TrainingState.take_evaluation

    def take(state: TrainingState, result: EvaluationResult) -> None:
        plain(state, replace(result, returns=np.full(3, next(returns))))

    monkeypatch.setattr(TrainingState, "take_evaluation", take)
    run = new_run(stop={"rounds": 3})
    await run.sitting().run()
    assert run.store.best() == {"round": 3, "mean": 9.0}
    run.spec["stop"] = {"rounds": 7}
    await run.sitting().run()
    assert run.store.best() == {"round": 3, "mean": 9.0}


async def test_the_end_of_a_run_pays_for_the_drain_of_its_pods_and_an_interruption_does_not(
    new_run: NewRun,
) -> None:
    """Whoever goes on after an interruption finds the pods there, and pays for them."""
    for interrupted in (True, False):
        run = new_run()
        pods = {"pods": lambda: PodUse(50.0), "drain": lambda: PodUse(30.0, pod_vcpu=0.275)}
        trainer = run.sitting(metered=pods)
        pricing = resolve(load_job(job(**SMALL))).spec.pricing
        if interrupted:
            trainer.interrupt()
        outcome = await trainer.run()
        last = run.ledger.entries[-1]
        assert outcome.finished is not interrupted
        assert outcome.pods is not None
        assert outcome.pods.seconds == 50.0
        assert outcome.drain_seconds == (0.0 if interrupted else 30.0)
        assert ("estimatedPodSeconds" in last.details) is not interrupted
        assert outcome.estimated == (0.0 if interrupted else last.cost.actors)
        assert outcome.cost.actors == pytest.approx((50 + outcome.drain_seconds) * pricing.pod_gb_second)


# Named sets of evaluation episodes.

SETS = [{"name": "calm", "seed": 7}, {"name": "windy", "kwargs": {"drift": 3.0}}]


async def test_evaluations_have_environments_and_seeds_of_their_own(new_run: NewRun) -> None:
    often = {"episodes": 3, "everyRounds": 1}
    plain = new_run(stop={"rounds": 4}, evaluation=often)
    run = new_run(stop={"rounds": 4}, evaluation={**often, "environment": SETS})
    await plain.sitting().run()
    outcome = await run.sitting().run()

    def trained(reports: list[RoundReport]) -> list[tuple[Any, ...]]:
        return [(r.round, r.env_steps, r.actors, r.reward_round, r.kl, r.policy_loss) for r in reports]

    assert trained(run.listener.reports) == trained(plain.listener.reports), "training does not notice"
    assert plain.listener.reports[1].extra == {}
    first, *later = run.listener.reports
    names = [f"evaluation_{name}_{what}" for name in ("calm", "windy") for what in ("mean", "std")]
    assert first.extra == dict.fromkeys(names), "the columns are there before the first evaluation"
    for report in later:
        calm, windy = report.extra["evaluation_calm_mean"], report.extra["evaluation_windy_mean"]
        assert calm == report.evaluation_mean, "the first set decides"
        assert report.extra["evaluation_calm_std"] == report.evaluation_std
        assert calm is not None
        assert windy is not None
        assert windy != calm
        assert list(report.row())[-4:] == names
    assert list(outcome.evaluation_sets) == ["calm", "windy"]
    assert outcome.evaluation_sets["calm"] == sum(outcome.evaluation) / 3
    best = run.store.best()
    assert best is not None
    assert best["mean"] == max(outcome.evaluation_sets["calm"], *(r.evaluation_mean or 0 for r in later))

    asked = [request for request in run.backend.requests if request["kind"] == "evaluate"]
    calm_seeds = [request["seed"] for request in asked if "kwargs" not in request]
    windy_seeds = [request["seed"] for request in asked if request.get("kwargs") == {"drift": 3.0}]
    assert len(calm_seeds) == len(windy_seeds) == len(asked) / 2 == 2 * 4, (
        "two slots, three rounds and the end"
    )
    assert len(set(calm_seeds)) == 2, "a seed gives the same episodes each time"
    assert len(set(windy_seeds)) == 8, "and none gives new ones"
    assert sum(entry.details["invocations"] for entry in run.ledger.entries) == len(run.backend.requests)


@pytest.mark.parametrize(
    ("sets", "left"),
    [
        ([{"name": "wrong", "kwargs": {"gale": 1}}, {"name": "calm"}], []),
        ([{"name": "calm"}, {"name": "wrong", "kwargs": {"gale": 1}}], ["calm"]),
    ],
    ids=["the first", "another"],
)
async def test_an_evaluation_that_cannot_be_played_is_told_and_the_run_goes_on(
    new_run: NewRun, caplog: pytest.LogCaptureFixture, sets: list[dict[str, Any]], left: list[str]
) -> None:
    run = new_run(stop={"rounds": 2}, evaluation={"episodes": 1, "everyRounds": 1, "environment": sets})
    outcome = await run.sitting().run()
    assert outcome.finished
    assert list(outcome.evaluation_sets) == left
    assert "spec.evaluation.environment: environment actor_support:Walk cannot be built" in caplog.text
    assert "gale" in caplog.text
    known = {name for name, value in run.listener.reports[-1].extra.items() if value is not None}
    assert known == {f"evaluation_{name}_{what}" for name in left for what in ("mean", "std")}
