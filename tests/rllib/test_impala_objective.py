"""The detector's objective for RLlib's APPO and IMPALA: RLlib's own loss on its real rows."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.appo.torch import appo_torch_learner
from ray.rllib.algorithms.impala.torch import impala_torch_learner
from ray.rllib.algorithms.impala.torch.vtrace_torch_v2 import make_time_major, vtrace_torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from torch import Tensor

from learner_support import fragment, lone_fragment, plain
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.boosting.surrogate import Objective
from nitro_learner.data.batch import Fragment
from nitro_rllib.episodes import episodes
from nitro_rllib.traces import traced
from rllib_support import algorithm

LEARNERS = {"rllib/appo": appo_torch_learner, "rllib/impala": impala_torch_learner}
SETTINGS = {"lr": 5e-3, "gamma": 0.9, "vtrace_clip_rho_threshold": 2.0, "vtrace_clip_pg_rho_threshold": 3.0}
OWN = {"rllib/appo": {"clip_param": 0.1}, "rllib/impala": {}}
STEPS, ENVS = 32, 3


def _learner(name: str, settings: dict[str, Any]) -> Any:
    spec = {"environment__rolloutLength": STEPS * ENVS, "environment__envsPerActor": ENVS}
    return algorithm(name, SETTINGS | OWN[name] | settings, **spec)


def _fragments(count: int, seed: int = 1) -> list[Fragment]:
    """Episodes that terminate, are truncated and are cut, by policies that are not the learner's."""
    made = [fragment(slot, length=STEPS, envs=ENVS, ends=0.05, seed=seed) for slot in range(count)]
    assert all(one.tensors["terminated"].any() for one in made)
    assert all(len(plain(one)["final_observations"]) for one in made)
    return made


def _later_round(learner: Any, fragments: list[Fragment]) -> PpoSurrogate:
    """Of these fragments, behind other ones: APPO's target network is another than the policy by then."""
    learner.take(_fragments(4, seed=2))
    learner.end_round(1)
    learner.take(fragments)
    return learner.end_round(2)[DEFAULT_POLICY].surrogate  # type: ignore[no-any-return]


def _ours(surrogate: PpoSurrogate, objective: Objective) -> tuple[Tensor, list[Tensor]]:
    """The objective and its gradient."""
    function = surrogate.function(objective, torch.arange(surrogate.size))
    value = torch.stack([term() for term in function.terms]).sum()
    return value.detach(), list(torch.autograd.grad(value, function.parameters))


def _batch(learner: Any, one: Fragment) -> dict[str, Tensor]:
    data = TrainingData(episodes=episodes([one]))
    batch = learner.learner._make_batch_if_necessary(training_data=data)
    return batch.policy_batches[DEFAULT_MODULE_ID]  # type: ignore[no-any-return]


def _theirs(
    learner: Any, fragments: list[Fragment], parameters: Iterable[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """RLlib's loss at the learner's present weights, the mean over the fragments, and its gradient."""
    module = learner.learner.module[DEFAULT_MODULE_ID]
    losses = []
    for one in fragments:
        rows = _batch(learner, one)
        losses.append(
            learner.learner.compute_loss_for_module(
                module_id=DEFAULT_MODULE_ID,
                config=learner.config,
                batch=rows,
                fwd_out=module.forward_train(rows),
            )
        )
    loss = torch.stack(losses).mean()
    return loss.detach(), list(torch.autograd.grad(loss, list(parameters)))


def _assert_close(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert all(gradient.any() for gradient in theirs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_whole_objective_is_the_loss_that_rllib_trains_on(name: str) -> None:
    """All of its terms, on two fragments."""
    penalty = {"use_kl_loss": True} if name == "rllib/appo" else {}
    learner = _learner(name, {"entropy_coeff": 0.05, "vf_loss_coeff": 0.3} | penalty)
    fragments = _fragments(2)
    value, gradient = _ours(_later_round(learner, fragments), "total")
    loss, theirs = _theirs(learner, fragments, learner.network.parameters())
    _assert_close(gradient, theirs)
    # IMPALA's loss has no ratio: its gradient is that of r A, its value is not.
    if name == "rllib/appo":
        torch.testing.assert_close(value, loss, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_detector_s_objective_is_rllib_s_own_on_its_real_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RLlib's loss with nothing but its policy's term, its advantages standardised over the real rows."""
    learner = _learner(name, {"entropy_coeff": 0.0, "vf_loss_coeff": 0.0})
    fragments = _fragments(1)
    value, gradient = _ours(_later_round(learner, fragments), "clip")

    mask = make_time_major(_batch(learner, fragments[0])[Columns.LOSS_MASK], trajectory_len=STEPS)

    def standardised(**lanes: Tensor) -> tuple[Tensor, Tensor]:
        targets, advantages = vtrace_torch(**lanes)
        real = advantages[mask]
        return targets, (advantages - real.mean()) / real.std(correction=0)

    monkeypatch.setattr(LEARNERS[name], "vtrace_torch", standardised)
    loss, theirs = _theirs(learner, fragments, learner.network.policy.parameters())
    _assert_close(gradient, [-one for one in theirs])
    if name == "rllib/appo":
        torch.testing.assert_close(value, -loss, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_rllib_s_v_trace_drops_bootstraps_as_docs_rllib_md_says(name: str) -> None:
    """All values are 10, all rewards 0, all importance weights 1, and no episode ends: the row without
    meaning behind the first environment is the first of a lane, those behind the others are not."""
    learner = _learner(name, {"vtrace_clip_rho_threshold": 1.0})
    with torch.no_grad():
        learner.network.critic.head.weight.zero_()
        learner.network.critic.head.bias.fill_(10)
    one = fragment(length=STEPS, envs=ENVS, ends=0.0)
    flat = {"rewards": np.zeros((STEPS, ENVS), np.float32), "log_probs": np.full((STEPS, ENVS), -99, "f4")}
    one = lone_fragment(one.meta, plain(one) | flat)
    traces = traced(learner.learner, [one], learner.distribution, learner._target)
    assert traces.targets[-ENVS:].tolist() == pytest.approx([9, 0, 0])
