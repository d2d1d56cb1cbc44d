"""Names of Ray that are not public, or not documented, and what is relied on about them: one test each. A new
minor of Ray has to pass these first.
"""

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner

from learner_support import HOPPER, fragment, learner_of
from rllib_support import algorithm, rllib_job

QUICK = {"num_epochs": 2, "minibatch_size": 64, "lr": 1e-3}


def test_the_learner_alone_needs_no_ray_runtime() -> None:
    """Neither a process nor a port nor a file in Ray's folders, and signals stay ours: so there is nothing in
    the pod to allow."""
    process = psutil.Process()
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    before = {connection.laddr for connection in process.net_connections()}
    folders = [Path("/tmp/ray"), Path.home() / "ray_results", Path.home() / ".ray"]
    existed = [folder.exists() for folder in folders]
    learner = algorithm(settings=QUICK)
    learner.update([fragment(slot) for slot in range(2)], 1)
    assert not ray.is_initialized()
    assert process.children() == []
    assert {connection.laddr for connection in process.net_connections()} == before
    assert [folder.exists() for folder in folders] == existed
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.parametrize("name", ["rllib/ppo", "rllib/appo"])
def test_the_learner_is_on_the_device_that_it_is_given(name: str) -> None:
    """RLlib would have Ray choose its GPU, and start a Ray runtime for that. Every machine has the device
    `meta`."""
    learner: Any = learner_of(rllib_job(name).spec, HOPPER, "meta")
    assert {p.device.type for p in learner.learner.module[DEFAULT_MODULE_ID].parameters()} == {"meta"}
    assert not ray.is_initialized()


def test_the_kl_coefficient_is_a_tensor_by_module() -> None:
    learner = algorithm(settings=QUICK | {"kl_coeff": 0.5}).learner
    learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID].fill_(0.25)
    assert float(learner.curr_kl_coeffs_per_module[DEFAULT_MODULE_ID]) == 0.25


def test_the_entropy_schedule_goes_by_the_steps_that_it_is_told() -> None:
    learner = algorithm(settings=QUICK | {"entropy_coeff": [[0, 0.2], [100, 0.0]]}).learner
    schedule = learner.entropy_coeff_schedulers_per_module[DEFAULT_MODULE_ID]
    schedule.update(timestep=50)
    assert float(schedule.get_current_value()) == pytest.approx(0.1)


def test_an_update_answers_with_these_metrics() -> None:
    learner = algorithm(settings=QUICK)
    assert "default_optimizer_learning_rate" in learner.learn([fragment(length=64)], {})
    for name, prefix in (("rllib/impala", "mean_"), ("rllib/appo", "")):
        losses = {"mean_pi_loss" if prefix else "policy_loss", f"{prefix}vf_loss", "entropy"}
        assert losses <= set(algorithm(name).learn([fragment(length=64)], {}))


def test_the_state_without_components_of_its_own_is_plain() -> None:
    """So it fits our checkpoint, and no pickle is ever written or read."""
    state = algorithm(settings=QUICK).learner.get_state(components=["rl_module", "optimizer"])
    assert set(state) == {"should_module_be_updated", "weights_seq_no", "rl_module", "optimizer"}
    assert state["should_module_be_updated"] is None


def test_the_thread_of_appo_and_impala_ends_on_request() -> None:
    """And the update that it made is Learner.update, called with the batch and the time steps."""
    for name in ("rllib/appo", "rllib/impala"):
        learner = algorithm(name).learner
        assert not learner._learner_thread.is_alive()
        assert learner._learner_thread._update_method is Learner.update


def test_appo_s_target_network_follows_by_the_steps_that_it_is_told() -> None:
    """And remembers at which it did."""
    learner = algorithm(
        "rllib/appo",
        {
            "target_network_update_freq": 1,
            "circular_buffer_num_batches": 2,
            "circular_buffer_iterations_per_batch": 1,
        },
        environment__rolloutLength=64,
    )
    follows = []
    for slot in range(5):
        learner.take([fragment(slot, length=64)])
        network, target = learner.network.policy, learner.learner.module[DEFAULT_MODULE_ID].target
        pairs = zip(network.parameters(), target.parameters(), strict=True)
        follows.append(all(bool((one == other).all()) for one, other in pairs))
    assert follows == [False, True, False, True, False]
    assert learner.learner._last_update_ts_by_mid[DEFAULT_MODULE_ID] == 256
