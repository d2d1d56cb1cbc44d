"""Stable-Baselines3 doing what Nitro's parts do: run in the peers' environment, prints one JSON object.

python sb3.py loop ID   environment + policy + storing, such as Hopper-v5, steps per second on one core
python sb3.py epoch     one PPO epoch, full batch of 8192 Hopper samples, 2 x 256 networks, seconds
python sb3.py train LIBRARY STEPS SEED [ID [THREADS]]   PPO of sb3 or sbx (on JAX) with CleanRL's MuJoCo
                        settings, of Hopper-v5 and with 2 threads unless others are given: after each rollout
                        steps, wall seconds, processor seconds, last 20 returns' mean
"""

import json
import sys
import time
from collections import deque

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize


def _net(size: int) -> dict:
    return {"net_arch": {"pi": [size, size], "vf": [size, size]}, "activation_fn": torch.nn.Tanh}


def _collector(envs: int, steps: int, size: int, environment: str) -> tuple[PPO, BaseCallback]:
    model = PPO(
        "MlpPolicy",
        make_vec_env(environment, n_envs=envs, seed=0),
        n_steps=steps // envs,
        batch_size=steps,
        n_epochs=1,
        policy_kwargs=_net(size),
        device="cpu",
    )
    _, callback = model._setup_learn(10**9, callback=None)
    callback.on_training_start({}, {})
    return model, callback


def loop(environment: str) -> dict:
    """Steps per second of collect_rollouts, 512 steps, median of 9, for 1 and 8 environments."""
    torch.set_num_threads(1)
    result = {}
    for envs in (1, 8):
        model, callback = _collector(envs, 512, 256, environment)
        rates = []
        for _ in range(10):
            start = time.perf_counter()
            model.collect_rollouts(model.env, callback, model.rollout_buffer, 512 // envs)
            rates.append(512 / (time.perf_counter() - start))
        result[f"steps_per_second_{envs}_envs"] = float(np.median(rates[1:]))
    return result


def epoch() -> dict:
    """Seconds of one PPO.train() with one epoch of one full batch of 8192 samples, median of 9."""
    torch.set_num_threads(1)
    model, callback = _collector(8, 8192, 256, "Hopper-v5")
    model.collect_rollouts(model.env, callback, model.rollout_buffer, 1024)
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        model.train()
        seconds.append(time.perf_counter() - start)
    return {"epoch_seconds": float(np.median(seconds[1:]))}


class _Curve(BaseCallback):
    """After each rollout: steps, wall seconds, processor seconds, and the mean of the last 20 episodes'
    returns before normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[list[float]] = []
        self._last: deque[float] = deque(maxlen=20)
        self._began = time.perf_counter(), time.process_time()

    def _on_step(self) -> bool:
        self._last.extend(info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
        return True

    def _on_rollout_end(self) -> None:
        wall, processor = self._began
        spent = time.perf_counter() - wall, time.process_time() - processor
        self.points.append([self.num_timesteps, *spent, float(np.mean(self._last or [np.nan]))])


def train(library: str, steps: str, seed: str, environment: str = "Hopper-v5", threads: str = "2") -> dict:
    """One environment by PPO with the settings of CleanRL's ppo_continuous_action."""
    kind, more = PPO, {"policy_kwargs": _net(64), "device": "cpu"}
    if library == "sbx":
        import sbx  # not above, where JAX would slow the other measurements' start

        kind, more = sbx.PPO, {"policy_kwargs": {"net_arch": _net(64)["net_arch"]}}  # tanh is its default
    torch.set_num_threads(int(threads))
    env = VecNormalize(make_vec_env(environment, n_envs=1, seed=int(seed)), gamma=0.99)
    curve = _Curve()
    model = kind(
        "MlpPolicy",
        env,
        learning_rate=lambda left: 3e-4 * left,
        n_steps=2048,
        batch_size=64,
        n_epochs=10,
        ent_coef=0.0,
        seed=int(seed),
        **more,
    )
    model.learn(int(steps), callback=curve)
    return {"curve": curve.points}


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    print(json.dumps({"loop": loop, "epoch": epoch, "train": train}[what](*rest)))
