"""RLlib's own sampling, beside Nitro's actors: run in the peers' environment, prints one JSON object.

python rllib.py loop    SingleAgentEnvRunner on Hopper-v5, 2 x 256 networks: steps per second, start-up, RSS
"""

import json
import os
import resource
import sys
import time

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def loop() -> dict:
    """Steps per second of EnvRunner.sample, 512 steps, median of 9, for 1 and 8 environments."""
    born = time.perf_counter()
    import numpy as np
    import torch
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    torch.set_num_threads(1)
    result = {}
    for envs in (1, 8):
        config = (
            PPOConfig()
            .environment("Hopper-v5")
            .env_runners(num_env_runners=0, num_envs_per_env_runner=envs, rollout_fragment_length=512 // envs)
            .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[256, 256], vf_share_layers=False))
        )
        runner = SingleAgentEnvRunner(config=config)
        if envs == 1:
            result["ready_seconds"] = time.perf_counter() - born
            result["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rates = []
        for _ in range(10):
            start = time.perf_counter()
            runner.sample(num_timesteps=512, random_actions=False)
            rates.append(512 / (time.perf_counter() - start))
        result[f"steps_per_second_{envs}_envs"] = float(np.median(rates[1:]))
    return result


if __name__ == "__main__":
    assert sys.argv[1:] == ["loop"], __doc__
    print(json.dumps(loop()))
