"""RLlib's PPO behind our actors, beside stock RLlib with the same settings. Prints Markdown tables.

    build/rllib/bin/python tests/benchmarks/bench_rllib.py train --seeds 0 1 2 3 4 --curves curves.jsonl
    build/rllib/bin/python tests/benchmarks/bench_rllib.py show --curves curves.jsonl --picture curves.png

`make build/rllib/installed` makes that interpreter. Two cores: RLlib samples with 2 env runners of 8
environments, we with 2 actor processes; both 16 x 512 steps of Hopper-v5 a round, networks of 2 x 256, and
PPO with the `paper` preset. Runs of one seed start from the same weights. `train` appends a line per run, so
seeds can be trained one after the other.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_rllib_bridge import ACTORS, STEPS, Parts
from trained_run import trained

from nitro_experiments.statistics.few_seeds import Interval, mean, mean_band, paired_difference
from nitro_learner.run.views.plot_style import COLOURS, picture, thousands

SETTINGS = {"lr": 5e-5, "gamma": 0.99, "lambda_": 1.0, "num_epochs": 30}
"""What differs from RLlib's defaults is the whole-batch step: minibatch_size 0 with us, None with RLlib."""

NAMES = {
    "stock": "RLlib, 2 env runners",
    "alone": "RLlib, in one process",
    "ours": "RLlib's learner, our actors",
}
HIDDEN = [256, 256]
SHOWN = (1, 2, 4, 6, 9, 12, 18, 25)
# Ray gives its workers little priority, which others on the machine would profit from.
VARIABLES = {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
Row = dict[str, float | None]


def stock_config(runners: int, seed: int) -> Any:
    """RLlib's PPO with our settings; `runners` = 0 samples in this process."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    return (
        PPOConfig()
        .environment("Hopper-v5")
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=ACTORS // max(1, runners),
            rollout_fragment_length=STEPS,
        )
        .learners(num_learners=0, learner_class=same_start(seed))
        .training(**SETTINGS, minibatch_size=None, train_batch_size_per_learner=ACTORS * STEPS)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=HIDDEN, fcnet_activation="tanh", vf_share_layers=False
            )
        )
        # All episodes of a round, as our reports have it, though the mean of the env runners' means; RLlib's
        # default is the last hundred.
        .reporting(metrics_num_episodes_for_smoothing=10**6)
        # An env runner draws from this seed plus its number, which no other run is to draw from.
        .debugging(seed=1000 * seed)
    )


def same_start(seed: int) -> Any:
    """RLlib's PPO learner, whose own networks start from the weights that ours have with this seed."""
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
    from ray.rllib.core import DEFAULT_MODULE_ID
    from torch import nn

    from learner_support import module as network_of

    class SameStart(PPOTorchLearner):
        def build(self) -> None:
            super().build()
            action = {"kind": "continuous", "size": 3, "low": [-1.0] * 3, "high": [1.0] * 3}
            module, ours = self.module[DEFAULT_MODULE_ID], network_of(11, HIDDEN, action, seed=seed)
            parts = module.encoder.actor_encoder, module.pi, module.encoder.critic_encoder, module.vf
            theirs = [layer for part in parts for layer in part.modules() if isinstance(layer, nn.Linear)]
            layers = [
                part.get_submodule(name)
                for part in (ours.policy, ours.critic)
                for name in [*(f"layers.{i}" for i in range(len(HIDDEN))), "head"]
            ]
            for linear, layer in zip(theirs, layers, strict=True):
                linear.load_state_dict(layer.state_dict())

    return SameStart


def stock(rounds: int, seed: int) -> list[Row]:
    """RLlib with two env runners, which are processes of Ray."""
    import ray
    from ray.rllib.algorithms.ppo import ppo

    parts = Parts()
    parts.watch(ppo, "synchronous_parallel_sample", "sampling")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    algorithm = stock_config(2, seed).build_algo()
    rows: list[Row] = []
    begin = time.perf_counter()
    for _ in range(rounds):
        result = algorithm.train()
        rows.append(
            {
                "steps": result["num_env_steps_sampled_lifetime"],
                "seconds": time.perf_counter() - begin,
                "sampling": float(parts.seconds["sampling"][0]),
                "return": result["env_runners"].get("episode_return_mean"),
            }
        )
    algorithm.stop()
    ray.shutdown()
    return rows


def alone(rounds: int, seed: int) -> list[Row]:
    """RLlib's env runner and learner in this process, without Ray's: the same curve, for busy machines."""
    from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
    from ray.rllib.env import INPUT_ENV_SPACES
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    parts = Parts()
    config = stock_config(0, seed)
    runner = SingleAgentEnvRunner(config=config)
    spaces = runner.env.single_observation_space, runner.env.single_action_space
    learner = config.build_learner(spaces={INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces})
    rows: list[Row] = []
    steps, begin = 0, time.perf_counter()
    for number in range(1, rounds + 1):
        state = learner.get_state(components=COMPONENT_RL_MODULE, inference_only=True)
        runner.set_state({COMPONENT_RL_MODULE: state[COMPONENT_RL_MODULE], "weights_seq_no": number})
        with parts.timed("sampling"):
            episodes = runner.sample(num_timesteps=ACTORS * STEPS, random_actions=False)
        mean_return = runner.get_metrics()["episode_return_mean"].peek()
        steps += sum(map(len, episodes))
        timesteps = {"num_env_steps_sampled_lifetime": steps}
        learner.update(episodes=episodes, timesteps=timesteps, num_epochs=SETTINGS["num_epochs"])
        rows.append(
            {
                "steps": steps,
                "seconds": time.perf_counter() - begin,
                "sampling": float(parts.seconds["sampling"][0]),
                "return": float(mean_return),
            }
        )
    runner.stop()
    return rows


def ours(rounds: int, seed: int) -> list[Row]:
    """`nitro train` with two actor processes."""
    found = trained(
        {
            "environment": {"id": "Hopper-v5", "rolloutLength": STEPS},
            "algorithm": {"name": "rllib/ppo", "preset": "paper"},
            "seed": seed,
            "evaluation": {"everyRounds": 1000},
            "scaling": {"scaler": "fixed", "initialActors": ACTORS},
            "stop": {"rounds": rounds},
            "backend": {"type": "Local", "local": {"processes": 2}},
        }
    )
    sampling = np.cumsum([float(row["seconds_sample"]) for row in found])
    return [
        {
            "steps": int(row["env_steps"]),
            "seconds": float(row["wall_seconds"]),
            "sampling": float(spent),
            "return": float(row["reward_round"]) if row["reward_round"] else None,
        }
        for row, spent in zip(found, sampling, strict=True)
    ]


def train(peer: str, rounds: int, seeds: list[int], curves: Path) -> None:
    """Both, seed by seed in turn, so that they meet the same machine."""
    for seed in seeds:
        for who in (peer, "ours"):
            command = [sys.executable, __file__, who, "--rounds", str(rounds), "--seeds", str(seed)]
            begin = time.perf_counter()
            done = subprocess.run(
                command, env=os.environ | VARIABLES, stdout=subprocess.PIPE, text=True, check=True
            )
            run = {"who": who, "seed": seed, "command": time.perf_counter() - begin}
            run["rows"] = json.loads(done.stdout.splitlines()[-1])
            with curves.open("a") as file:
                file.write(json.dumps(run) + "\n")


def show(curves: Path, out: Path | None) -> None:
    """Tables of all runs in the file: wall time, and returns with 95 % intervals over seeds."""
    runs: dict[str, dict[int, dict[str, Any]]] = {}
    for run in map(json.loads, curves.read_text().splitlines()):
        runs.setdefault(run["who"], {})[run["seed"]] = run
    seeds = sorted(set.intersection(*map(set, runs.values())))
    rounds = min(len(run["rows"]) for found in runs.values() for run in found.values())
    print(f"Seeds {seeds}, {rounds} rounds of {ACTORS * STEPS:,} steps\n")
    print("| | training | of that sampling | the whole command |\n|---|---:|---:|---:|")
    returns = {}
    for who, found in runs.items():
        kept = [found[seed] for seed in seeds]
        last = [run["rows"][rounds - 1] for run in kept]
        cells = [
            [row["seconds"] for row in last],
            [row["sampling"] for row in last],
            [run["command"] for run in kept],
        ]
        print(f"| {NAMES[who]} | " + " | ".join(f"{statistics.mean(cell):.0f} s" for cell in cells) + " |")
        returns[who] = np.array([[row["return"] for row in run["rows"][:rounds]] for run in kept], float)
    peer = next(who for who in runs if who != "ours")
    compared: list[tuple[str, Callable[[int], Interval]]] = [
        (NAMES[who], lambda column, found=found: mean(found[:, column])) for who, found in returns.items()
    ]
    compared.append(
        ("ours - RLlib's", lambda c: paired_difference(returns["ours"][:, c], returns[peer][:, c]))
    )
    shown = [number for number in SHOWN if number <= rounds]
    print("\n| steps | " + " | ".join(f"{n * ACTORS * STEPS:,}" for n in shown) + " |")
    print("|---|" + "---:|" * len(shown))
    for name, statistic in compared:
        cells = [statistic(n - 1) for n in shown]
        print(f"| {name} | " + " | ".join(f"{c.value:.0f} ({c.low:.0f}, {c.high:.0f})" for c in cells) + " |")
    if out:
        draw(returns, out)


def draw(returns: dict[str, np.ndarray], path: Path) -> None:
    """Means with 95 % bands, and a thin line for each seed; `returns` are [seeds, rounds]."""
    with picture(path, figsize=(7.5, 4.2)) as (figure, axis):
        for colour, (who, found) in zip(COLOURS, returns.items(), strict=False):
            steps = np.arange(1, found.shape[1] + 1) * ACTORS * STEPS
            middle, low, high = mean_band(found)
            axis.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
            axis.plot(steps, found.T, color=colour, lw=0.5, alpha=0.5)
            axis.plot(steps, middle, color=colour, lw=1.8, label=NAMES[who])
        seeds = len(next(iter(returns.values())))
        axis.set_title(
            f"Hopper-v5, RLlib's PPO: mean and 95 % interval, seeds: {seeds}", loc="left", fontsize=10.5
        )
        axis.set(xlabel="Environment steps", ylabel="Return of the round's episodes")
        thousands(axis.xaxis)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=9)
        figure.tight_layout()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["train", "show", "stock", "alone", "ours"])
    parser.add_argument(
        "--peer", choices=["stock", "alone"], default="stock", help="what `train` compares with"
    )
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--curves", type=Path, default=Path("curves.jsonl"))
    parser.add_argument("--picture", type=Path)
    chosen = parser.parse_args()
    if chosen.what == "train":
        train(chosen.peer, chosen.rounds, chosen.seeds, chosen.curves)
    elif chosen.what == "show":
        show(chosen.curves, chosen.picture)
    else:
        run = {"stock": stock, "alone": alone, "ours": ours}[chosen.what]
        print(json.dumps(run(chosen.rounds, chosen.seeds[0])))
