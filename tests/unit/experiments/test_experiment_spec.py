"""The file of an experiment: what is refused with which words, and the runs that come of it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from experiment_support import spec, write_spec
from nitro_api import JobInvalid
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import load
from nitro_experiments.search import trials
from nitro_learner.cli.program import installed

ROOT = Path(__file__).parents[3]
COMMANDS = installed()
EXPERIMENTS = sorted(
    [*(ROOT / "experiments").glob("*.yaml"), *(ROOT / "experiments" / "paper").glob("*.yaml")]
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"variant": {}}, "variant: {}; is not a field of this file; did you mean variants?"),
        ({"name": "Has Spaces"}, 'name: "Has Spaces"; must be named by at most 63 lower-case letters'),
        ({"variants": {"Nitro": {}}}, 'variants.Nitro: "Nitro"; must be named by at most 63 lower-case'),
        ({"variants": {"nitro": None}}, "variants.nitro: null; must be a mapping"),
        ({"coreHours": 0}, "coreHours: 0; must be"),
        ({"seeds": []}, "seeds: is required where there are variants; add it"),
        ({"seeds": [1, 1]}, "seeds: [1, 1]; holds a seed twice; remove one"),
        ({"seeds": 3}, "seeds: 3; must be a list"),
        ({"environments": ["a", "a"]}, 'environments: ["a", "a"]; holds an environment twice; remove one'),
        ({"budget": {}}, "budget: {}; must have exactly one of rounds, actorRounds, envSteps and dollars"),
        ({"budget": {"rounds": 3, "dollars": 1}}, "must have exactly one of"),
        ({"budget": {"actorRound": 3}}, "did you mean actorRounds?"),
        ({"variants": {}}, "variants: is required where there are no commands; add it"),
        ({"against": ["fixd"]}, 'against[0]: "fixd"; is not a variant; did you mean fixed?'),
        ({"questions": {"Better?": ["nitro"]}}, 'questions.Better?: ["nitro"]; must be two variants'),
        (
            {"questions": {"Better?": ["nitro", "fixd"]}},
            'questions.Better?[1]: "fixd"; is not a variant; did you mean fixed?',
        ),
        ({"target": "high"}, 'target: "high"; must be a number, or a mapping from environments to numbers'),
        ({"target": True}, "target: true; must be a number, or a mapping"),
        (
            {"environments": ["Hopper-v5"], "target": {"Hopper-v5": "high"}},
            'target.Hopper-v5: "high"; must be a number, by the id of an environment',
        ),
        (
            {"environments": ["Hopper-v5", "Walker2d-v5"], "target": {"Hopper-v5": 200, "Walker-v5": 50}},
            "target.Walker-v5: 50; is not among environments; did you mean Walker2d-v5?",
        ),
        (
            {"environments": ["Hopper-v5", "Walker2d-v5"], "target": {"Ant-v5": 50}},
            "target.Ant-v5: 50; is not among environments; there are Hopper-v5, Walker2d-v5",
        ),
        (
            {"target": {"two-state": 50}},
            "target.two-state: 50; is not among environments; add them, or give one number",
        ),
        ({"figures": ["reward"]}, 'figures[0]: "reward"; is not a column of metrics.csv'),
        ({"commands": [" "]}, 'commands[0]: " "; must begin with nitro or python'),
        ({"commands": ["nitro 'plot"]}, "cannot be read (No closing quotation); correct it"),
        ({"commands": ["rm -r x"]}, 'commands[0]: "rm -r x"; must begin with nitro or python'),
        ({"job": "absent.yaml"}, 'job: "absent.yaml"; cannot be used:'),
        ({"job": 3}, "job: 3; must be the path of a job file, or a job"),
    ],
)
def test_mistakes_are_reported_with_their_field(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(JobInvalid) as refused:
        load(write_spec(tmp_path, **changes))
    assert sentence in str(refused.value)


def test_a_target_is_one_number_or_one_by_environment(tmp_path: Path) -> None:
    environments = ["Hopper-v5", "Walker2d-v5"]
    one = load(write_spec(tmp_path, environments=environments, target=40))
    assert [one.target_in(name) for name in environments] == [40, 40]
    each = load(write_spec(tmp_path, environments=environments, target={"Hopper-v5": 200}))
    assert [each.target_in(name) for name in environments] == [200, None]
    (tmp_path / "again.yaml").write_text(each.to_yaml())
    assert load(tmp_path / "again.yaml") == each


@pytest.mark.parametrize(
    ("variant", "sentence"),
    [
        (
            {"spec.scaling.scalr": "fixed"},
            'variants.odd: spec.scaling.scalr: "fixed"; is not a field of spec.scaling; did you mean scaler?',
        ),
        ({"spec.scaling.decay": 7}, "variants.odd: spec.scaling.decay: 7; must be a number"),
        ({"spec.stop.rounds": 7}, "variants.odd: spec.stop.rounds: 7; is given by budget; remove it here"),
        (
            {"spec.stop.targetReward": 7},
            "variants.odd: spec.stop.targetReward: 7; could end a run before the budget, and is only allowed "
            "with the scalers that look at it (minionsrl and minionsrl-adapt); remove it",
        ),
        (
            {
                "spec.scaling.scaler": "minionsrl-adapt",
                "spec.stop.targetReward": 7,
                "spec.stop.budgetDollars": 5,
            },
            "variants.odd: spec.stop.budgetDollars: 5; could end a run before the budget",
        ),
        ({"spec.seed": 7}, "variants.odd: spec.seed: 7; is given by seeds; remove it here"),
        (
            {"spec.algorithm.hyperparameters.learningRateAnneal": True},
            "learningRateAnneal: true; needs a budget in rounds",
        ),
    ],
)
def test_mistakes_in_a_variant_are_reported_with_its_name(
    tmp_path: Path, variant: dict[str, Any], sentence: str
) -> None:
    experiment = load(write_spec(tmp_path, variants={"fixed": {}, "odd": variant}))
    with pytest.raises(JobInvalid) as refused:
        plan(experiment)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"variants": {"fixed": {}, "odd": {"spec.environment.id": "Acrobot-v1"}}},
            'variants.odd: spec.environment.id: "Acrobot-v1"; is given by environments; remove it here',
        ),
        (
            {"variants": {"fixed": {}, "odd": {"spec.environment": {"id": "Acrobot-v1"}}}},
            'variants.odd: spec.environment.id: "Acrobot-v1"; is given by environments; remove it here',
        ),
        (
            {"set": {}},
            'variants.fixed: spec.environment.entryPoint: "learner_environments:TwoState"; plays in place of '
            "all environments; remove it, or remove environments",
        ),
    ],
)
def test_environments_and_another_environment_exclude_each_other(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    """Both variants, or all environments, would be the same under two names."""
    given = {"environments": ["CartPole-v1", "Pendulum-v1"], "set": {"spec.environment.entryPoint": None}}
    experiment = load(write_spec(tmp_path, **given | changes))
    with pytest.raises(JobInvalid) as refused:
        plan(experiment)
    assert sentence in str(refused.value)


def test_random_toggles_need_a_budget_in_rounds() -> None:
    """Other budgets allow a million rounds; toggles drawn from those come after a run's end."""
    experiment = load(ROOT / "experiments" / "marless-small.yaml", ["budget={envSteps: 200000}"])
    with pytest.raises(JobInvalid, match=r"variants.random-toggle: .*needs a budget in rounds"):
        plan(experiment)


def test_runs_are_environments_times_variants_times_seeds_seed_by_seed(tmp_path: Path) -> None:
    by_id = {"spec.scaling.window": 9, "spec.environment.entryPoint": None}
    experiment = load(write_spec(tmp_path, environments=["two-state", "other"], set=by_id), ["seeds=[4, 2]"])
    runs = plan(experiment)
    assert [(run.seed, run.environment, run.variant) for run in runs] == [
        (seed, environment, variant)
        for seed in (4, 2)
        for variant in ("fixed", "nitro")
        for environment in ("two-state", "other")
    ]
    assert [run.job.spec.seed for run in runs] == [4, 4, 4, 4, 2, 2, 2, 2]
    assert {run.job.spec.scaling.window for run in runs} == {9}
    assert {run.job.spec.stop.actor_rounds for run in runs} == {8}
    assert str(runs[0].folder) == "runs/two-state/fixed/seed-4"
    assert runs[0].job.spec.scaling.scaler == "fixed"


@pytest.mark.parametrize(
    ("budget", "stop"),
    [
        ({"rounds": 5}, {"rounds": 5}),
        ({"actorRounds": 5}, {"rounds": 1_000_000, "actorRounds": 5}),
        ({"envSteps": 500}, {"rounds": 1_000_000, "envSteps": 500}),
        ({"dollars": 0.5}, {"rounds": 1_000_000, "budgetDollars": 0.5}),
    ],
)
def test_a_budget_is_a_stop_condition(tmp_path: Path, budget: dict[str, Any], stop: dict[str, Any]) -> None:
    (first, *_) = plan(load(write_spec(tmp_path, budget=budget)))
    assert first.job.spec.stop.to_dict() == stop


def test_a_variant_may_go_on_beyond_a_budget_in_rounds(tmp_path: Path) -> None:
    further: dict[str, Any] = {"spec.stop.rounds": 9}
    experiment = load(write_spec(tmp_path, budget={"rounds": 5}, variants={"few": further, "many": {}}))
    assert [run.job.spec.stop.to_dict() for run in plan(experiment)[:2]] == [{"rounds": 9}, {"rounds": 5}]
    too_few = (
        "variants.few: spec.stop.rounds: 9; must not be below the budget of 10 rounds; raise it or remove it"
    )
    with pytest.raises(JobInvalid) as refused:
        plan(load(write_spec(tmp_path, budget={"rounds": 10}, variants={"few": further})))
    assert too_few in str(refused.value)
    falling = further | {"spec.algorithm.hyperparameters.learningRateAnneal": True}
    with pytest.raises(JobInvalid, match="learningRateAnneal: true; needs a budget in rounds"):
        plan(load(write_spec(tmp_path, budget={"rounds": 5}, variants={"few": falling})))


def test_the_base_job_may_be_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(spec()["job"]))
    experiment = load(write_spec(tmp_path, job="base.yaml"))
    assert experiment.job == spec()["job"]
    # What is saved with the results needs no other file.
    saved = tmp_path / "elsewhere.yaml"
    saved.write_text(experiment.to_yaml())
    assert load(saved) == experiment


def test_figure_and_core_hours_are_optional(tmp_path: Path) -> None:
    data = {name: value for name, value in spec().items() if name not in ("figure", "coreHours")}
    path = tmp_path / "plain.yaml"
    path.write_text(yaml.safe_dump(data))
    experiment = load(path)
    assert (experiment.figure, experiment.core_hours) == (None, None)
    assert len(plan(experiment)) == 4


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_the_experiments_of_this_repository_are_valid(path: Path) -> None:
    experiment = load(path)
    assert experiment.name == path.stem
    if experiment.search:
        trials.check(experiment)
    runs = plan(experiment)
    compared = len(experiment.compared)
    assert len(runs) == len(experiment.seeds) * compared * max(1, len(experiment.environments))
    for program, what, *_ in map(str.split, experiment.commands):
        assert what in COMMANDS if program == "nitro" else (ROOT / what).exists()
