"""What other libraries call the fields of a job."""

from __future__ import annotations

import pytest

from nitro_api import JobInvalid
from nitro_api.algorithms.registry import RECORDS, settings_of
from nitro_api.loading.job_file import load_job
from nitro_api.schema.explain import UnknownField, explain
from nitro_api.schema.foreign_names import FOREIGN_NAMES, known_as, plain
from nitro_api.schema.openapi import fields
from nitro_api.schema.wording import ending_in

JOB = (
    "apiVersion: nitro.dev/v1alpha1\nkind: NitroTrainingJob\nmetadata: {name: one}\n"
    "spec: {environment: {id: Hopper-v5}}\n"
)
HYPER = "spec.algorithm.hyperparameters"
LENGTH = "spec.environment.rolloutLength, which counts the steps of all environments of an actor"
SB3 = {
    "learning_rate": "learningRate",
    "n_steps": LENGTH,
    "batch_size": "minibatchSize",
    "n_epochs": "epochs",
    "gae_lambda": "gaeLambda",
    "clip_range": "clip",
    "clip_range_vf": "valueClip",
    "normalize_advantage": "standardiseAdvantages",
    "ent_coef": "entropyCoefficient",
    "vf_coef": "valueCoefficient",
    "max_grad_norm": "maxGradNorm",
    "target_kl": "klTarget, at which a KL penalty, klCoefficient, aims",
    "policy": "spec.network.type",
    "policy_kwargs": "spec.network",
    "device": "spec.learner.device",
    "seed": "spec.seed",
    "env": "spec.environment.id",
}
"""The arguments of Stable-Baselines3's PPO that a job has."""
RLLIB = {
    "lr": "learningRate",
    "num_epochs": "epochs",
    "num_sgd_iter": "epochs",
    "minibatch_size": "minibatchSize",
    "sgd_minibatch_size": "minibatchSize",
    "train_batch_size": LENGTH,
    "lambda_": "gaeLambda",
    "kl_coeff": "klCoefficient",
    "clip_param": "clip",
    "vf_clip_param": "valueClip",
    "vf_loss_coeff": "valueCoefficient",
    "entropy_coeff": "entropyCoefficient",
    "grad_clip": "maxGradNorm",
    "num_env_runners": "spec.scaling.maxActors",
    "num_envs_per_env_runner": "spec.environment.envsPerActor",
    "rollout_fragment_length": LENGTH,
    "fcnet_hiddens": "spec.network.hiddenSizes",
    "evaluation_interval": "spec.evaluation.everyRounds",
}
"""The settings of RLlib's PPOConfig that a job has."""


def messages(*changes: str) -> list[str]:
    with pytest.raises(JobInvalid) as refused:
        load_job(JOB, list(changes))
    return [error.message for error in refused.value.errors]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        *SB3.items(),
        *RLLIB.items(),
        ("total_timesteps", "spec.stop.envSteps"),
        ("num_envs", "spec.environment.envsPerActor"),
        ("n_envs", "spec.environment.envsPerActor"),
    ],
)
def test_a_name_of_another_library_is_answered_with_our_field(name: str, ours: str) -> None:
    assert messages(f"{HYPER}.{name}=1") == [f"is not a field of {HYPER}; did you mean {ours}?"]


@pytest.mark.parametrize(
    ("place", "ours"),
    [
        ("lr", f"{HYPER}.learningRate"),
        ("spec.lr", f"{HYPER}.learningRate"),
        ("spec.algorithm.ent_coef", f"{HYPER}.entropyCoefficient"),
        ("spec.total_timesteps", "spec.stop.envSteps"),
        ("spec.stop.total_timesteps", "envSteps"),
        ("spec.environment.num_envs", "envsPerActor"),
        ("spec.network.net_arch", "hiddenSizes"),
        ("spec.evaluation.eval_freq", "everyRounds"),
    ],
)
def test_it_is_recognised_at_every_place(place: str, ours: str) -> None:
    assert [text.partition("; ")[2] for text in messages(f"{place}=1")] == [f"did you mean {ours}?"]


@pytest.mark.parametrize(
    ("algorithm", "name", "ours"),
    [
        ("ppo", "batch_size", "minibatchSize"),
        ("impact", "batch_size", "batchSize"),
        ("mappo", "batch_size", "minibatchSize"),
        ("qmix", "batch_size", "batchSize"),
        ("impact", "target_update_interval", "targetUpdateFrequency"),
        ("qmix", "target_update_interval", "targetUpdateSteps"),
        ("qmix", "train_batch_size", "batchSize"),
        ("rllib/ppo", "learning_rate", "spec.algorithm.rllib.lr"),
        ("rllib/ppo", "batch_size", "spec.algorithm.rllib.minibatch_size"),
        ("rllib/appo", "total_timesteps", "spec.stop.envSteps"),
        ("nonsense", "lr", "learningRate"),
    ],
)
def test_of_two_fields_with_one_name_the_algorithms_own_is_meant(
    algorithm: str, name: str, ours: str
) -> None:
    found = messages(f"spec.algorithm.name={algorithm}", f"{HYPER}.{name}=1")
    assert f"is not a field of {HYPER}; did you mean {ours}?" in found


def test_an_entry_of_policies_has_its_own_algorithm() -> None:
    entry = "spec.algorithm.policies=[{agents: a, name: iql, hyperparameters: {lr: 0.1, batch_size: 3}}]"
    found = messages("spec.algorithm.name=mappo", entry)
    assert [text.partition("; ")[2] for text in found if "not a field" in text] == [
        "did you mean learningRate?",
        "did you mean batchSize?",
    ]


def test_of_a_name_that_nobody_has_the_algorithms_own_settings_are_listed() -> None:
    (found,) = messages(f"{HYPER}.wibble=1")
    assert found.endswith(f"remove it, or use one of {', '.join(settings_of(RECORDS['ppo']))}")


@pytest.mark.parametrize(
    ("path", "ours"),
    [("lr", f"{HYPER}.learningRate"), ("total_timesteps", "spec.stop.envSteps")],
)
def test_explain_recognises_it_too(path: str, ours: str) -> None:
    with pytest.raises(UnknownField, match=rf"did you mean {ours}\?"):
        explain(path)


def test_the_table_names_fields_that_there_are_each_once() -> None:
    known = {name for name, _ in fields()}
    assert {row.field for row in FOREIGN_NAMES if f"spec.{row.field}" not in known} == set()
    assert len({row.field for row in FOREIGN_NAMES}) == len(FOREIGN_NAMES)
    owned = {setting for record in RECORDS.values() for setting in settings_of(record)}
    assert owned - {row.setting for row in FOREIGN_NAMES} == {"maxStaleness", "dueling"}  # they have no other


def test_no_name_of_the_table_is_another_field_of_ours() -> None:
    """Only where one word has two meanings: a batch is not the same everywhere."""
    double = {
        (name, found)
        for row in FOREIGN_NAMES
        for name in row.names
        for found in ending_in(name)
        if "[]" not in found and found != f"spec.{row.field}"
    }
    assert {name for name, _ in double} <= {"env", "lambda", "model", "policy", "device"}
    assert all(known_as(name) for row in FOREIGN_NAMES for name in row.names)
    assert plain("num_Envs-x") == "numenvsx"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("appo", "rllib/appo"),
        ("APPO", "rllib/appo"),
        ("impala", "rllib/impala"),
        ("PPO", "ppo"),
        ("ppo2", "ppo"),
    ],
)
def test_the_nearest_algorithm_is_named(name: str, meant: str) -> None:
    (found,) = messages(f"spec.algorithm.name={name}")
    assert found == f"must be one of {', '.join(RECORDS)}; did you mean {meant}?"


@pytest.mark.parametrize("name", ["a2c", "trpo", "rainbow"])
def test_of_an_algorithm_that_is_not_there_what_is_and_where_to_read_why_is_said(name: str) -> None:
    (found,) = messages(f"spec.algorithm.name={name}")
    assert found.startswith(f"must be one of {', '.join(RECORDS)}; choose one: ppo is the first choice for ")
    assert "docs/algorithms.md says what each is for, and why others are not there" in found
