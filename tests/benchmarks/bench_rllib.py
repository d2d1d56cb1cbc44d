"""RLlib's PPO behind our actors, beside stock RLlib with the same settings. Prints Markdown tables.

    build/rllib/bin/python tests/benchmarks/bench_rllib.py bridge
    build/rllib/bin/python tests/benchmarks/bench_rllib.py train --rounds 12 --seeds 0 1 --picture curves.png

`make build/rllib/installed` makes that interpreter. Two cores: RLlib samples with 2 env runners of 8
environments, we with 2 actor processes; both 16 x 512 steps of Hopper-v5 a round, networks of 2 x 256, and
PPO with the `paper` preset.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ACTORS, STEPS = 16, 512
SETTINGS = {"lr": 5e-5, "gamma": 0.99, "lambda_": 1.0, "num_epochs": 30}
"""What differs from RLlib's defaults is the whole-batch step: minibatch_size 0 with us, None with RLlib."""

ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
Row = dict[str, float | None]


def bridge() -> None:
    """Processor seconds of an update beyond RLlib's own gradient steps, median of 3 updates."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from learner_support import fragment
    from rllib_support import algorithm

    print("| update of 8,192 Hopper steps, processor time | gradient steps | whole update | beyond them |")
    print("|---|---:|---:|---:|")
    fragments = [fragment(slot, length=STEPS, ends=0.01) for slot in range(ACTORS)]
    for epochs, minibatch in ((30, 0), (10, 512), (10, 128)):
        learner = algorithm(
            settings={"num_epochs": epochs, "minibatch_size": minibatch}, network__hiddenSizes=[256, 256]
        )
        inner, spent = learner.learner._update, []

        def timed(batch: Any, inner: Any = inner, spent: list[float] = spent) -> Any:
            begin = time.process_time()
            result = inner(batch)
            spent.append(time.process_time() - begin)
            return result

        learner.learner._update = timed
        whole, steps = [], []
        for number in range(1, 5):
            spent.clear()
            begin = time.process_time()
            learner.update(fragments, number)
            whole.append(time.process_time() - begin)
            steps.append(sum(spent))
        beyond = [w - s for w, s in zip(whole[1:], steps[1:], strict=True)]
        size = f"minibatches of {minibatch}" if minibatch else "whole batches"
        print(
            f"| {epochs} epochs, {size} | {statistics.median(steps[1:]):.2f} s | "
            f"{statistics.median(whole[1:]):.2f} s | {statistics.median(beyond):.2f} s |",
            flush=True,
        )


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
        .learners(num_learners=0)
        .training(**SETTINGS, minibatch_size=None, train_batch_size_per_learner=ACTORS * STEPS)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[256, 256], fcnet_activation="tanh", vf_share_layers=False
            )
        )
        .debugging(seed=seed)
    )


def stock(rounds: int, seed: int) -> list[Row]:
    """RLlib with two env runners, which are processes of Ray."""
    import ray

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    algorithm = stock_config(2, seed).build_algo()
    rows, begin = [], time.perf_counter()
    for number in range(1, rounds + 1):
        mean = algorithm.train()["env_runners"].get("episode_return_mean")
        rows.append({"round": number, "seconds": time.perf_counter() - begin, "return": mean})
    algorithm.stop()
    ray.shutdown()
    return rows


def alone(rounds: int, seed: int) -> list[Row]:
    """RLlib's env runner and learner in this process, without Ray's: the same curve, for busy machines."""
    from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
    from ray.rllib.env import INPUT_ENV_SPACES
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = stock_config(0, seed)
    runner = SingleAgentEnvRunner(config=config)
    spaces = runner.env.single_observation_space, runner.env.single_action_space
    learner = config.build_learner(spaces={INPUT_ENV_SPACES: spaces, DEFAULT_MODULE_ID: spaces})
    rows, begin = [], time.perf_counter()
    for number in range(1, rounds + 1):
        state = learner.get_state(components=COMPONENT_RL_MODULE, inference_only=True)
        runner.set_state({COMPONENT_RL_MODULE: state[COMPONENT_RL_MODULE], "weights_seq_no": number})
        episodes = runner.sample(num_timesteps=ACTORS * STEPS, random_actions=False)
        mean = runner.get_metrics()["episode_return_mean"].peek()
        steps = {"num_env_steps_sampled_lifetime": number * ACTORS * STEPS}
        learner.update(episodes=episodes, timesteps=steps, num_epochs=SETTINGS["num_epochs"])
        rows.append({"round": number, "seconds": time.perf_counter() - begin, "return": float(mean)})
    runner.stop()
    return rows


def run_stock(what: str, rounds: int, seed: int) -> list[Row]:
    command = [sys.executable, __file__, what, "--rounds", str(rounds), "--seeds", str(seed)]
    done = subprocess.run(command, env=ONE_THREAD, stdout=subprocess.PIPE, text=True, check=True)
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return rows


def run_ours(rounds: int, seed: int) -> list[Row]:
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "bench"},
        "spec": {
            "environment": {"id": "Hopper-v5", "rolloutLength": STEPS},
            "algorithm": {"name": "rllib/ppo", "preset": "paper"},
            "seed": seed,
            "evaluation": {"everyRounds": 1000},
            "scaling": {"scaler": "fixed", "initialActors": ACTORS},
            "stop": {"rounds": rounds},
            "backend": {"type": "Local", "local": {"processes": 2}},
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder, "job.yaml"), Path(folder, "run")
        file.write_text(yaml.safe_dump(job))
        command = [Path(sys.executable).with_name("nitro"), "train", file, "--run-dir", run, "--json"]
        subprocess.run(command, env=ONE_THREAD, stdout=subprocess.DEVNULL, check=True)
        with (run / "metrics.csv").open() as metrics:
            return [
                {
                    "round": int(row["round"]),
                    "seconds": float(row["wall_seconds"]),
                    "return": float(row["reward_round"]) if row["reward_round"] else None,
                }
                for row in csv.DictReader(metrics)
            ]


def train(peer: str, rounds: int, seeds: list[int], picture: Path | None) -> None:
    """Both, seed by seed in turn, so that they meet the same machine."""
    name = "RLlib, 2 env runners" if peer == "stock" else "RLlib, in one process"
    runs: dict[str, list[list[Row]]] = {name: [], "RLlib's learner, our actors": []}
    stocks, ours = runs.values()
    for seed in seeds:
        stocks.append(run_stock(peer, rounds, seed))
        ours.append(run_ours(rounds, seed))
        print(json.dumps({"seed": seed, "stock": stocks[-1], "ours": ours[-1]}), file=sys.stderr, flush=True)
    shown = [n for n in (1, 2, 4, 6, 9, 12, 18, 25) if n <= rounds]
    print(
        f"| {rounds * ACTORS * STEPS:,} steps of Hopper-v5, seeds {seeds} | seconds | return in round "
        + " | ".join(map(str, shown))
        + " |"
    )
    print("|---|---:|" + "---:|" * len(shown))
    for name, found in runs.items():
        seconds = statistics.mean(rows[-1]["seconds"] or 0.0 for rows in found)
        cells = [statistics.mean(rows[n - 1]["return"] or 0.0 for rows in found) for n in shown]
        print(f"| {name} | {seconds:.0f} | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |")
    if picture:
        draw(runs, picture)


def draw(runs: dict[str, list[list[Row]]], picture: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for color, (name, found) in zip(("tab:gray", "tab:blue"), runs.items(), strict=True):
        for index, rows in enumerate(found):
            steps = [(row["round"] or 0) * ACTORS * STEPS for row in rows]
            axes.plot(
                steps, [row["return"] for row in rows], color=color, label=None if index else name, lw=1
            )
    axes.set(
        xlabel="steps", ylabel="mean return of the round's episodes", title="Hopper-v5, PPO, one line a seed"
    )
    axes.legend()
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["bridge", "train", "stock", "alone"])
    parser.add_argument(
        "--peer", choices=["stock", "alone"], default="stock", help="what `train` compares with"
    )
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--picture", type=Path)
    chosen = parser.parse_args()
    if chosen.what == "bridge":
        bridge()
    elif chosen.what == "train":
        train(chosen.peer, chosen.rounds, chosen.seeds, chosen.picture)
    else:
        print(json.dumps({"stock": stock, "alone": alone}[chosen.what](chosen.rounds, chosen.seeds[0])))
