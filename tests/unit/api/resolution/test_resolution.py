"""Every default is filled in as the presets say, and what the job says stays."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_api import JobInvalid, NitroTrainingJob, load_job, resolve, warnings
from nitro_api.algorithms import impact, ppo
from nitro_api.algorithms.record import COLUMNS
from nitro_api.algorithms.registry import RECORDS, settings_of
from nitro_api.resolution.presets import preset_values
from nitro_api.schema.openapi import fields

JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: hopper}
spec:
  environment: {id: Hopper-v5}
"""


def job(*changes: str, preset: str = "tuned") -> NitroTrainingJob:
    return load_job(JOB, [f"spec.algorithm.preset={preset}", *changes])


def test_the_paper_preset_has_the_values_of_the_paper() -> None:
    spec = resolve(job(preset="paper")).spec
    hyper = spec.algorithm.hyperparameters
    assert (hyper.learning_rate, hyper.learning_rate_anneal, hyper.epochs, hyper.minibatch_size) == (
        5e-5,
        False,
        30,
        0,
    )
    assert (hyper.gamma, hyper.gae_lambda, hyper.clip, hyper.value_clip) == (0.99, 1.0, 0.3, 10.0)
    assert (hyper.kl_coefficient, hyper.kl_target, hyper.entropy_coefficient) == (0.2, 0.01, 0.0)
    assert (hyper.value_coefficient, hyper.max_grad_norm, hyper.standardise_advantages) == (1.0, 0.0, "batch")
    assert [hyper.normalise_observations, hyper.normalise_rewards, hyper.orthogonal_init] == [False] * 3
    assert (spec.environment.rollout_length, spec.environment.envs_per_actor) == (512, 1)
    assert (spec.network.hidden_sizes, spec.network.activation, spec.network.log_std) == (
        [256, 256],
        "tanh",
        "state",
    )
    scaling = spec.scaling
    assert (scaling.min_actors, scaling.max_actors, scaling.initial_actors) == (8, 64, 16)
    assert (scaling.decay, scaling.window, scaling.mode) == (0.96, 6, "paper")
    assert (spec.evaluation.every_rounds, spec.evaluation.episodes, spec.stop.rounds) == (1, 6, 50)


def test_paper_samples_16_steps_in_atari() -> None:
    atari = resolve(job("spec.environment.id=ALE/SpaceInvaders-v5", preset="paper")).spec
    assert atari.environment.rollout_length == 16


@pytest.mark.parametrize("preset", COLUMNS)
def test_nothing_that_training_needs_is_left_out(preset: str) -> None:
    resolved = resolve(job("spec.backend.type=Local", preset=preset)).spec.to_dict()
    for path, expected in preset_values(preset).items():
        value = resolved
        for part in path.split("."):
            value = value[part]
        assert value == expected
    assert resolved["pricing"]["podGBSecond"] == resolved["pricing"]["lambdaGBSecond"]
    assert resolved["pricing"]["actorMemoryGB"] == 1
    assert resolved["learner"]["checkpoint"]["pvc"]["size"] == "1Gi"
    assert resolved["backend"] == {"type": "Local", "local": {}}


@pytest.mark.parametrize(
    ("algorithm", "preset"), [(name, preset) for name in RECORDS for preset in RECORDS[name].presets]
)
def test_tuned_jobs_have_the_scaler_fixed_and_papers_jobs_nitro(algorithm: str, preset: str) -> None:
    """Boosting was nowhere shown to be better than the same number of actors in every round; RLlib's jobs
    have kept what they had."""
    changes = [f"spec.algorithm.name={algorithm}"]
    if RECORDS[algorithm].agents == "several":
        changes += ["spec.environment.id=mpe2/simple_spread_v3", "spec.algorithm.teamReward=true"]
    usual = "fixed" if preset == "tuned" and not algorithm.startswith("rllib/") else "nitro"
    resolved = resolve(job(*changes, preset=preset))
    assert resolved.spec.scaling.scaler == usual
    assert resolve(resolved) == resolved
    assert resolve(job(*changes, "spec.scaling.scaler=kungfu", preset=preset)).spec.scaling.scaler == "kungfu"


@pytest.mark.parametrize("preset", ["paper", "tuned", "artifact"])
@pytest.mark.parametrize("id", ["Hopper-v5", "ALE/SpaceInvaders-v5"])
def test_impact_has_its_own_settings_and_none_of_ppos(preset: str, id: str) -> None:
    settings = resolve(
        job("spec.algorithm.name=impact", f"spec.environment.id={id}", preset=preset)
    ).spec.algorithm.hyperparameters
    by_action_space = {"bufferBatches", "bufferUses"}
    assert set(settings.to_dict()) | by_action_space == set(settings_of(impact.RECORD))
    assert set(settings_of(ppo.RECORD)) - set(settings_of(impact.RECORD)) == {"valueClip"}
    assert settings.batch_size == {
        ("paper", "Hopper-v5"): 4096,
        ("paper", "ALE/SpaceInvaders-v5"): 256,
        ("artifact", "Hopper-v5"): 0,
        ("artifact", "ALE/SpaceInvaders-v5"): 0,
    }.get((preset, id), settings.batch_size)
    assert preset == "tuned" or (settings.learning_rate, settings.clip) == (5e-4, 0.4)
    assert preset != "artifact" or (settings.buffer_batches, settings.buffer_uses) == (1, 1)


def test_the_preset_table_names_existing_fields_and_their_texts_show_it() -> None:
    known = dict(fields())
    for path in preset_values("paper"):
        assert "default" not in known[f"spec.{path}"], "a preset's value cannot have a schema default"
        assert "the preset's" not in known[f"spec.{path}"]["description"]


actors = st.none() | st.integers(1, 100)


@given(
    actors,
    actors,
    actors,
    st.none() | st.integers(1, 600),
    st.none() | st.integers(1, 40),
    st.sampled_from(COLUMNS),
)
def test_given_fields_are_kept_and_the_others_fit_them(
    low: int | None, high: int | None, initial: int | None, steps: int | None, envs: int | None, preset: str
) -> None:
    given_range = [n for n in (low, initial, high) if n is not None]
    if given_range != sorted(given_range) or (steps and envs and steps % envs):
        return
    changes = {
        "scaling.minActors": low, "scaling.maxActors": high, "scaling.initialActors": initial,
        "environment.rolloutLength": steps, "environment.envsPerActor": envs,
    }  # fmt: skip
    source = job(
        *(f"spec.{path}={value}" for path, value in changes.items() if value is not None), preset=preset
    )
    resolved = resolve(source)
    scaling, environment = resolved.spec.scaling, resolved.spec.environment
    assert scaling.min_actors <= scaling.initial_actors <= scaling.max_actors
    assert environment.rollout_length % environment.envs_per_actor == 0
    for wanted, got in (
        (low, scaling.min_actors), (high, scaling.max_actors), (initial, scaling.initial_actors),
        (steps, environment.rollout_length), (envs, environment.envs_per_actor),
    ):  # fmt: skip
        assert wanted is None or wanted == got
    assert resolve(resolved) == resolved
    assert load_job(resolved.to_yaml()).to_dict() == resolved.to_dict()
    assert source == load_job(source.to_yaml()), "resolve() changed its argument"


def test_a_schedule_sets_the_range() -> None:
    scaling = resolve(job("spec.scaling={scaler: schedule, schedule: [5, 9, 2]}")).spec.scaling
    assert (scaling.min_actors, scaling.max_actors, scaling.initial_actors) == (2, 9, 5)


@pytest.mark.parametrize(
    ("settings", "low", "high"),
    [
        ("{scaler: hydrozoa}", 8, 64),
        ("{scaler: hydrozoa, minActors: 3}", 3, 64),
        ("{scaler: hydrozoa, initialActors: 12}", 12, 64),
        ("{scaler: hydrozoa, maxActors: 6}", 6, 6),
    ],
)
def test_hydrozoa_starts_with_the_fewest(settings: str, low: int, high: int) -> None:
    scaling = resolve(job(f"spec.scaling={settings}", preset="paper")).spec.scaling
    assert (scaling.min_actors, scaling.initial_actors, scaling.max_actors) == (low, low, high)


@pytest.mark.parametrize(
    ("resources", "memory"),
    [
        ("{}", 1.0),
        ("{limits: {memory: 512Mi}}", 0.5),
        ("{requests: {memory: 2Gi}}", 2.0),
        ("{limits: {cpu: 1}}", 1.0),
        ("{limits: {memory: 2147483648}, requests: {memory: 1Gi}}", 2.0),
        ("{limits: {memory: 1e9}}", 1e9 / 2**30),
    ],
)
def test_an_actor_is_billed_for_its_memory(resources: str, memory: float) -> None:
    assert resolve(job(f"spec.actor.resources={resources}")).spec.pricing.actor_memory_gb == memory


def test_a_claim_of_the_user_gets_no_size() -> None:
    pvc = resolve(job("spec.learner.checkpoint.pvc={claimName: mine}")).spec.learner.checkpoint.pvc
    assert (pvc.claim_name, pvc.size) == ("mine", None)


@pytest.mark.parametrize("preset", COLUMNS)
def test_the_presets_give_no_warning(preset: str) -> None:
    assert warnings(job(preset=preset)) == []


def boostable(low: int, high: int, decay: float, after: int) -> bool:
    """Whether the score of round `after` can ask for more than `low` actors, by the scaler's own formula."""
    return math.floor(high * decay**after) > low


@given(st.integers(1, 30), st.integers(2, 100), st.floats(0.5, 0.999), st.integers(2, 300))
def test_the_decay_warning_names_the_first_round_without_boost(
    low: int, more: int, decay: float, rounds: int
) -> None:
    high = low + more
    scaling = {"scaler": "nitro", "minActors": low, "maxActors": high, "decay": decay}
    found = warnings(job(f"spec.scaling={json.dumps(scaling)}", f"spec.stop.rounds={rounds}"))
    first = next((k + 1 for k in range(1, rounds) if not boostable(low, high, decay, k)), rounds + 1)
    if first >= rounds:
        assert found == []
        return
    (warning,) = found
    assert f"no round from {first} on can have more than minActors, {low}," in warning
    better = float(warning.rpartition("decay ")[2].split()[0])
    assert boostable(low, high, better + 1e-9, rounds - 1)


def test_the_control_of_several_agents_has_no_decay_and_no_warning_of_it() -> None:
    scaling = "spec.scaling={scaler: random-score, minActors: 8, maxActors: 24}"
    agents = ("spec.environment.id=mpe2/simple_spread_v3", "spec.algorithm.name=ippo")
    assert warnings(job(*agents, scaling, preset="paper")) == []


@pytest.mark.parametrize(
    "scaling",
    [
        "{scaler: efficient, costRatio: 8.5, minActors: 8, maxActors: 64, surrogate: ratio1}",
        "{scaler: efficient, costs: measured, minActors: 8, maxActors: 64}",
        "{scaler: efficient, minActors: 1, maxActors: 64}",
    ],
)
def test_what_efficient_uses_gets_no_warning(scaling: str) -> None:
    assert warnings(job(f"spec.scaling={scaling}")) == []


@pytest.mark.parametrize(
    "changes",
    [
        ["spec.scaling={scaler: fixed, minActors: 2, maxActors: 16}"],
        ["spec.scaling={minActors: 16, maxActors: 16}"],
        ["spec.scaling={maxActors: 16, decay: 1}", "spec.algorithm.preset=paper"],
    ],
    ids=["a scaler that was chosen", "a range of one number", "another scaler by the preset"],
)
def test_a_range_gets_no_warning_where_it_is_meant(changes: list[str]) -> None:
    assert warnings(job(*changes)) == []


def test_the_decay_bounds_nothing_in_artifact_mode() -> None:
    """There maxActors * d^(k^2) is a floor: `test_artifact_mode_by_hand` has the formula."""
    scaling = "spec.scaling={scaler: nitro, mode: artifact, decay: 0.5}"
    assert warnings(job(scaling, "spec.stop.rounds=300")) == []


def test_machines_host_the_largest_round_of_a_schedule_and_not_the_range() -> None:
    scaling = "spec.scaling={scaler: schedule, schedule: [5, 17, 2], maxActors: 64}"
    assert resolve(job(scaling, "spec.pricing.model=vm")).spec.pricing.vm_count == 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["spec.scaling.scaler=fixed", "spec.scaling.decay=0.9"], "decay: has no effect with scaler: fixed"),
        (["spec.scaling.scaler=fixed", "spec.scaling.window=9"], "spec.scaling.window: has no effect"),
        (
            ["spec.scaling={scaler: kungfu, mode: noise}"],
            "spec.scaling.mode: has no effect with scaler: kungfu",
        ),
        (
            ["spec.scaling={scaler: efficient, window: 9, costRatio: 60}"],
            "spec.scaling.window: has no effect with scaler: efficient",
        ),
        (
            ["spec.scaling={scaler: efficient, minActors: 8, maxActors: 64}", "spec.algorithm.preset=paper"],
            "spec.scaling.minActors: scaler efficient asks for at most costRatio actors, here 2.13",
        ),
        (
            ["spec.scaling={scaler: efficient, minActors: 8, maxActors: 64, costRatio: 8.4}"],
            "here 8.4, so that all rounds after the first have 8; lower minActors",
        ),
        (
            ["spec.scaling={scaler: nitro, mode: explained-variance, surrogate: ratio1}"],
            "spec.scaling.surrogate: has no effect with mode: explained-variance",
        ),
        (
            ["spec.scaling.maxActors=16"],
            "spec.scaling.maxActors: has no effect, because the preset's scaler is fixed and all rounds have "
            "initialActors, 4; set scaler: nitro",
        ),
        (
            ["spec.scaling={minActors: 2, initialActors: 4, maxActors: 16}"],
            "spec.scaling.maxActors: has no effect, nor has minActors, because the preset's scaler is fixed",
        ),
        (
            ["spec.scaling={minActors: 2, initialActors: 4}"],
            "spec.scaling.minActors: has no effect, because the preset's scaler is fixed",
        ),
        (
            ["spec.algorithm.hyperparameters.minibatchSize=4096"],
            "minibatchSize: 4096 exceeds the 2048 samples",
        ),
        (
            ["spec.learner.resources={limits: {nvidia.com/gpu: 1}}"],
            "spec.learner.resources: a GPU takes longer than a CPU core for steps of minibatchSize 64",
        ),
        (
            ["spec.learner.device=cuda", "spec.backend.type=Local"],
            "spec.learner.device: a GPU takes longer than a CPU core for steps of minibatchSize 64 with this "
            "network; set it to cpu",
        ),
        (
            ["spec.learner={device: cpu, resources: {limits: {nvidia.com/gpu: 1}}}"],
            "spec.learner.resources: the GPU is paid and not used, because device is cpu; ask for no GPU",
        ),
        (
            ["spec.learner.device=cuda", "spec.algorithm.preset=paper"],
            "spec.learner.device: on a cluster the learner sees no GPU, because its resources name none",
        ),
        (
            ["spec.stop={rounds: 10, patience: 3}", "spec.evaluation.everyRounds=5"],
            "spec.evaluation.everyRounds: 5 is not below half of stop.rounds, 10, so there are no two "
            "evaluations for patience to compare; lower everyRounds",
        ),
        (
            ["spec.stop={rounds: 10, targetReward: 10}"],
            "spec.evaluation.everyRounds: 10 is not below stop.rounds, 10",
        ),
        (
            ["spec.scaling={scaler: schedule, schedule: [8, 9]}", "spec.stop.rounds=1"],
            "only the first 1 of 2",
        ),
        (
            ["spec.stop.duration=1h", "spec.activeDeadlineSeconds=60"],
            "fails the job before stop.duration, 1h",
        ),
    ],
)
def test_a_doubtful_setting_gives_a_warning(changes: list[str], expected: str) -> None:
    (warning,) = warnings(job(*changes))
    assert expected in warning
    assert ";" in warning, "no remedy"


@pytest.mark.parametrize(
    "change",
    [
        "spec.algorithm.preset=paper",
        "spec.algorithm.hyperparameters.minibatchSize=512",
        "spec.network.hiddenSizes=[256, 256]",
    ],
)
def test_a_gpu_for_large_steps_gets_no_warning(change: str) -> None:
    assert warnings(job(change, "spec.learner.resources={limits: {nvidia.com/gpu: 1}}")) == []


def test_the_device_is_left_to_the_machine_unless_the_job_names_it() -> None:
    gpu = "spec.learner.resources={limits: {nvidia.com/gpu: 1}}"
    assert resolve(job()).spec.learner.device == "auto"
    for changes, asks in (
        ([], False),
        ([gpu], True),
        (["spec.learner.device=cuda"], True),
        ([gpu, "spec.learner.device=cpu"], False),
    ):
        assert resolve(job(*changes)).spec.learner.asks_for_gpu is asks, changes
    with pytest.raises(JobInvalid, match="must be one of auto, cpu, cuda"):
        job("spec.learner.device=gpu")
    for fitting in (
        ["spec.learner.device=cuda", gpu],
        ["spec.learner.device=cuda", "spec.backend.type=Local"],
    ):
        assert warnings(job(*fitting, preset="paper")) == []


def test_a_minibatch_may_be_larger_than_one_agents_samples_where_a_group_learns_from_all() -> None:
    several = [
        "spec.environment={id: mpe2/simple_spread_v3}",
        "spec.algorithm={name: ippo, hyperparameters: {minibatchSize: 1500}}",
    ]
    (warning,) = warnings(job(*several, "spec.sharing={mode: always}"))
    assert "minibatchSize: 1500 exceeds the 1000 samples" in warning
    assert warnings(job(*several, "spec.sharing={mode: always, groupBatch: all}")) == []


def test_an_entry_point_alone_gives_the_environment_its_name() -> None:
    environment = resolve(job("spec.environment={entryPoint: 'mine.games:Chess'}")).spec.environment
    assert (environment.id, environment.entry_point) == ("mine.games:Chess", "mine.games:Chess")
    assert environment.to_actor()["id"] == "mine.games:Chess"
    assert resolve(job("spec.environment.entryPoint=mine:Game")).spec.environment.id == "Hopper-v5"


def test_an_entry_point_alone_makes_the_scaler_ones_own() -> None:
    given = "spec.scaling={entryPoint: 'mine.scalers:Plateau', settings: {patience: 3}}"
    resolved = resolve(job(given))
    scaling = resolved.spec.scaling
    assert (scaling.scaler, scaling.decider, scaling.planned) == ("own", "mine.scalers:Plateau", None)
    assert scaling.settings == {"patience": 3}
    assert resolve(load_job(resolved.to_yaml())).to_dict() == resolved.to_dict()
    assert resolve(job(given, "spec.scaling.scaler=own")).to_dict() == resolved.to_dict()
    assert resolve(job("spec.scaling.entryPoint=mine:Plateau")).spec.scaling.settings is None
    used = "spec.scaling={entryPoint: 'mine:P', maxActors: 9, window: 9, mode: noise, decay: 0.5}"
    assert warnings(job(used)) == [], "it may read all of them"


def test_an_entry_point_alone_makes_the_network_ones_own() -> None:
    resolved = resolve(job("spec.network={entryPoint: 'mine.networks:Net', settings: {width: 3}}"))
    network = resolved.spec.network
    assert (network.type, network.hidden_sizes, network.settings) == ("own", [], {"width": 3})
    assert resolve(load_job(resolved.to_yaml())).to_dict() == resolved.to_dict()
    assert network.critic_entry_point is None, "it is the policy's"
    game = resolve(job("spec.environment.id=ALE/Pong-v5", "spec.network.entryPoint=mine:Net"))
    built_in = resolve(job("spec.environment.id=ALE/Pong-v5"))
    assert game.spec.network.conv_layers is None
    assert game.spec.algorithm == built_in.spec.algorithm, "it sees the images as they are"
    assert resolve(load_job(game.to_yaml())).to_dict() == game.to_dict()
