"""RLlib's multi-agent PPO on mpe2's simple_spread: run in the peers' environment, prints one JSON object.

python rllib_agents.py PRESET ROUNDS SEED    a policy for each of three agents, 4,000 steps a round

PRESET: `paper`, RLlib's defaults, which Nitro's preset of that name has too; or `tuned`, what RLlib can do of
Nitro's. RLlib scales no rewards.
"""

import json
import os
import sys
import time

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray gives its workers little priority, which others on the machine would profit from.
os.environ.setdefault("RAY_worker_niceness", "0")

ROUND = 4000
"""Environment steps."""
RUNNERS, ENVS = 2, 8
SETTINGS = {
    "paper": {"lr": 5e-5, "minibatch_size": 128, "num_epochs": 30},
    "tuned": {
        "lr": 5e-4,
        "lambda_": 0.95,
        "clip_param": 0.2,
        "use_kl_loss": False,
        "entropy_coeff": 0.01,
        "vf_loss_coeff": 0.5,
        "vf_clip_param": float("inf"),
        "grad_clip": 0.5,
        "minibatch_size": 500,
        "num_epochs": 10,
    },
}


def train(preset: str, rounds: int, seed: int) -> dict:
    """Seconds of training, of that of sampling, and the mean return of each round's episodes."""
    import mpe2.simple_spread_v3
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
    from ray.tune.registry import register_env

    register_env("spread", lambda _: ParallelPettingZooEnv(mpe2.simple_spread_v3.parallel_env(N=3)))
    config = (
        PPOConfig()
        .environment("spread")
        .multi_agent(
            policies={f"agent_{number}" for number in range(3)},
            policy_mapping_fn=lambda agent, *_, **__: agent,
        )
        .env_runners(
            num_env_runners=RUNNERS,
            num_envs_per_env_runner=ENVS,
            rollout_fragment_length=ROUND // (RUNNERS * ENVS),
        )
        .learners(num_learners=0)
        .training(gamma=0.99, train_batch_size_per_learner=ROUND, **SETTINGS[preset])
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
            )
        )
        .reporting(metrics_num_episodes_for_smoothing=ROUND // 25)
        .debugging(seed=seed)
    )
    ray.init(num_cpus=RUNNERS + 1, include_dashboard=False, log_to_driver=False)
    algorithm = config.build_algo()
    returns, sampling, steps, begin = [], 0.0, 0, time.perf_counter()
    for _ in range(rounds):
        result = algorithm.train()
        returns.append(result["env_runners"]["episode_return_mean"])
        sampling += result["timers"]["env_runner_sampling_timer"]
        steps = result["num_env_steps_sampled_lifetime"]
    seconds = time.perf_counter() - begin
    algorithm.stop()
    ray.shutdown()
    return {"steps": steps, "seconds": seconds, "sampling": sampling, "returns": returns}


if __name__ == "__main__":
    assert len(sys.argv) == 4, __doc__
    print(json.dumps(train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
