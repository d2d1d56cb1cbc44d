"""Gradient steps of DQN as Stable-Baselines3 takes them, with targets of one and of several steps, from
made-up weights and transitions.

In the peers' environment (`make build/peers/installed`), whose Stable-Baselines3 is 2.9.2:

    build/peers/bin/python tests/support/sb3_dqn_reference.py > tests/support/sb3_dqn_reference.json
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np

OBSERVATION, ACTIONS, HIDDEN = 3, 4, [8, 7]
LENGTH, BATCH, STEPS = 40, 16, 4
RATE, GAMMA, NORM = 3e-3, 0.97, 0.5
RETURNS = (1, 3)
REFERENCE = Path(__file__).with_suffix(".json")


def start() -> list[list[np.ndarray]]:
    """Weights and biases of each layer, of the network and of the target network."""
    rng = np.random.default_rng(1)
    shapes = [shape for i, o in pairwise([OBSERVATION, *HIDDEN, ACTIONS]) for shape in ((o, i), (o,))]
    return [[rng.uniform(-0.6, 0.6, shape).astype(np.float32) for shape in shapes] for _ in range(2)]


def transitions() -> dict[str, np.ndarray]:
    """The steps of one environment, with ends of both kinds; `following` has the observation after each."""
    rng = np.random.default_rng(2)
    made = {
        "observations": rng.standard_normal((LENGTH, OBSERVATION), np.float32),
        "following": rng.standard_normal((LENGTH, OBSERVATION), np.float32),
        "actions": rng.integers(0, ACTIONS, LENGTH),
        "rewards": 2 * rng.standard_normal(LENGTH, np.float32),
        "terminated": rng.random(LENGTH) < 0.1,
    }
    made["truncated"] = (rng.random(LENGTH) < 0.1) & ~made["terminated"]
    goes_on = ~(made["terminated"] | made["truncated"])[:-1]
    made["following"][:-1][goes_on] = made["observations"][1:][goes_on]
    return made


def places() -> np.ndarray:
    """The steps that are drawn for each gradient step, i64 [STEPS, BATCH]; the last ones are among them."""
    drawn = np.random.default_rng(3).integers(0, LENGTH, (STEPS, BATCH))
    drawn[:, :2] = LENGTH - 1, LENGTH - 2
    return drawn


def _reference(returns: int) -> list[float]:
    """All parameters after the gradient steps."""
    import gymnasium
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.logger import configure

    class Space(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-9, 9, (OBSERVATION,), np.float32)
        action_space = gymnasium.spaces.Discrete(ACTIONS)

    model = DQN(
        "MlpPolicy",
        Space(),
        learning_rate=RATE,
        gamma=GAMMA,
        max_grad_norm=NORM,
        n_steps=returns,
        buffer_size=10 * LENGTH,
        policy_kwargs={"net_arch": HIDDEN},
        device="cpu",
    )
    model.set_logger(configure(None, []))
    with torch.no_grad():
        for network, arrays in zip((model.q_net, model.q_net_target), start(), strict=True):
            for parameter, array in zip(network.parameters(), arrays, strict=True):
                parameter.copy_(torch.from_numpy(array))
    given = transitions()
    for t in range(LENGTH):
        model.replay_buffer.add(
            given["observations"][t][None],
            given["following"][t][None],
            given["actions"][t][None],
            given["rewards"][t][None],
            (given["terminated"] | given["truncated"])[t][None],
            [{"TimeLimit.truncated": bool(given["truncated"][t])}],
        )
    drawn = iter(places())
    model.replay_buffer.sample = lambda *_, **__: model.replay_buffer._get_samples(next(drawn))
    model.train(gradient_steps=STEPS, batch_size=BATCH)
    values = torch.cat([parameter.detach().flatten() for parameter in model.q_net.parameters()])
    return [round(value, 8) for value in values.tolist()]


if __name__ == "__main__":
    print(json.dumps({str(returns): _reference(returns) for returns in RETURNS}))
