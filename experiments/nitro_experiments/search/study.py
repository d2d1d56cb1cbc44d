"""The search's memory: an Optuna study in a SQLite file, with what every trial was given and what it came to.

What is proposed for a trial depends on the search's seed, the trial's number and the trials before it, never
on how often the search was interrupted: each trial has a sampler of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nitro_experiments.planning.search_spec import Parameter, Search, is_integer
from nitro_learner.run.rundir import OtherJob, RunDirError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

STARTUP_TRIALS = 5
"""Trials that are drawn at random, and trials with a score that the median needs."""

STEPS = 10
"""A trial is compared with the others after each of so many equal parts of each run's budget."""

FIRST_STEP = 3
"""The first part after which a trial may be pruned: before it, most policies are equally poor."""

_NAME = "search"
_LOCK_SECONDS = 60
_MESSAGE, _SPENT, _SETTINGS = "message", "spent", "settings"


@dataclass(frozen=True)
class Trial:
    """A trial.

    Attributes:
        state: `running` (also one that was interrupted), `complete`, `pruned` or `failed`.
        settings: fields of the job by path.
        score: of a complete trial, at the budget.
        reached: of a pruned trial: the part of its runs' budgets after which it was compared, and its score
            there.
        spent: `rounds`, `dollars` and `seconds`; empty before the trial has ended.
        message: why it failed.
    """

    number: int
    state: str
    settings: Mapping[str, Any]
    score: float | None
    reached: tuple[float, float] | None
    spent: Mapping[str, float]
    message: str


class SearchStudy:
    """The study of one search.

    Args:
        path: the SQLite file; made if it is missing.
        search: the space and the seeds.
        settings: what the trials' results depend on, by name. A search goes on with the same only.

    Raises:
        OtherJob: the file holds a search with other settings; the message names them.
        RunDirError: the file is no study.
    """

    def __init__(self, path: Path, search: Search, settings: Mapping[str, Any]) -> None:
        import optuna
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.engine import URL
        from sqlalchemy.exc import SQLAlchemyError

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._search = search
        self._space = {name: _distribution(name, parameter) for name, parameter in search.space.items()}
        self._choices = {
            name: {_category(value): value for value in parameter.choices or ()}
            for name, parameter in search.space.items()
        }
        try:
            self._storage = optuna.storages.RDBStorage(
                str(URL.create("sqlite", database=str(path))),
                engine_kwargs={"connect_args": {"timeout": _LOCK_SECONDS}},
            )
            self._pruner = optuna.pruners.MedianPruner(
                n_startup_trials=STARTUP_TRIALS, n_warmup_steps=FIRST_STEP
            )
            self._study = optuna.create_study(
                study_name=_NAME, storage=self._storage, direction="maximize", load_if_exists=True
            )
            self._id = self._storage.get_study_id_from_name(_NAME)
        except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise RunDirError(
                f"{path} holds no search that can be read ({reason}). Restore it, or name another --dir."
            ) from None
        self._check(path, settings)

    def _check(self, path: Path, settings: Mapping[str, Any]) -> None:
        now = json.loads(json.dumps(dict(settings), sort_keys=True))
        saved = self._study.user_attrs.get(_SETTINGS)
        if saved is None:
            self._study.set_user_attr(_SETTINGS, now)
            return
        differing = [name for name in sorted({*saved, *now}) if saved.get(name) != now.get(name)]
        if differing:
            lines = "\n".join(
                f"  {name}: {saved.get(name)!r} there, {now.get(name)!r} now" for name in differing
            )
            raise OtherJob(f"{path} holds a search with other settings; these differ:\n{lines}")

    def trials(self) -> list[Trial]:
        """All trials in the order of their numbers, without those that were interrupted while they were
        drawn."""
        return [self._trial(trial) for trial in self._drawn() if trial.params]  # a trial that waits has none

    def best(self) -> Trial | None:
        """The complete trial with the highest score, the earliest of several; None before there is one."""
        scored = [trial for trial in self.trials() if trial.state == "complete"]
        return max(scored, key=lambda trial: (trial.score, -trial.number), default=None)

    def begin_with(self, settings: Mapping[str, Any]) -> None:
        """Have the first trial use these settings; nothing where there is a trial already."""
        if not self._drawn():
            self._study.enqueue_trial({name: self._stored(name, value) for name, value in settings.items()})

    def ask(self) -> Trial:
        """Begin a new trial."""
        import optuna

        number = len(self._drawn())
        (seed,) = np.random.SeedSequence([self._search.seeds[0], number]).generate_state(1)
        self._study.sampler = optuna.samplers.TPESampler(seed=int(seed), n_startup_trials=STARTUP_TRIALS)
        asked = self._study.ask(self._space)
        return self._trial(self._study.get_trials(deepcopy=False)[asked.number])

    def report(self, trial: Trial, step: int, score: float) -> bool:
        """Note a trial's score after `step` parts of its runs' budgets, one run after the other, and return
        whether to prune it.

        A second report of a step changes nothing, and gives the answer that the first one gave or would have
        given.
        """
        frozen = self._study.get_trials(deepcopy=False)[trial.number]
        if step not in frozen.intermediate_values:
            # Not by optuna.Trial, which only `ask` gives: this trial may have been interrupted.
            self._storage.set_trial_intermediate_value(self._key(trial), step, score)
            frozen = self._study.get_trials(deepcopy=True)[trial.number]
        elif frozen.last_step != step:
            return False
        return self._search.prune and self._pruner.prune(self._study, frozen)

    def end(
        self, trial: Trial, state: str, *, score: float | None, spent: Mapping[str, float], message: str = ""
    ) -> None:
        """Note what a trial came to: it is `complete` with its score, `pruned` or `failed`."""
        from optuna.trial import TrialState

        self._storage.set_trial_user_attr(self._key(trial), _SPENT, dict(spent))
        if message:
            self._storage.set_trial_user_attr(self._key(trial), _MESSAGE, message)
        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        self._study.tell(trial.number, score, states[state])

    def importances(self) -> dict[str, float]:
        """How much of the scores' differences each field explains, by PED-ANOVA (Watanabe et al., IJCAI
        2023), the largest first; empty where there are too few complete trials."""
        import optuna

        scored = [trial for trial in self.trials() if trial.state == "complete"]
        if len(scored) < STARTUP_TRIALS or len({trial.score for trial in scored}) < 2:
            return {}
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return dict(optuna.importance.get_param_importances(self._study, evaluator=evaluator))

    def _drawn(self) -> list[FrozenTrial]:
        """Optuna's trials: those with settings, and those that wait for the next `ask`. One that was
        interrupted while it was drawn is left out: its settings are incomplete."""
        from optuna.trial import TrialState

        trials = self._study.get_trials(deepcopy=False)
        return [
            trial
            for trial in trials
            if trial.state is TrialState.WAITING or trial.params.keys() == self._space.keys()
        ]

    def _key(self, trial: Trial) -> int:
        """The storage's own number of a trial."""
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)

    def _trial(self, frozen: Any) -> Trial:
        from optuna.trial import TrialState

        names = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
        state = names.get(frozen.state, "running")
        last = frozen.last_step
        steps = STEPS * len(self._search.seeds)
        reached = (last / steps, frozen.intermediate_values[last]) if state == "pruned" and last else None
        return Trial(
            frozen.number,
            state,
            {name: self._value(name, frozen.params[name]) for name in self._space if name in frozen.params},
            frozen.value if state == "complete" else None,
            reached,
            frozen.user_attrs.get(_SPENT, {}),
            frozen.user_attrs.get(_MESSAGE, ""),
        )

    def _value(self, name: str, stored: Any) -> Any:
        choices = self._choices[name]
        return choices[stored] if choices else stored

    def _stored(self, name: str, value: Any) -> Any:
        return _category(value) if self._choices[name] else value


def _distribution(path: str, parameter: Parameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.choices is not None:
        return CategoricalDistribution([_category(value) for value in parameter.choices])
    assert parameter.low is not None
    assert parameter.high is not None
    if is_integer(path, parameter):
        low, high = int(parameter.low), int(parameter.high)
        return IntDistribution(low, high, log=parameter.log, step=int(parameter.step or 1))
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=parameter.step)


def _category(value: Any) -> Any:
    """A choice as Optuna can store it: a number or a text as it is, anything else as JSON."""
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value
