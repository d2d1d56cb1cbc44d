"""Gradient steps of SAC, TD3 and DDPG as Stable-Baselines3 takes them, from made-up weights, transitions and
noise.

In the peers' environment (`make build/peers/installed`), whose Stable-Baselines3 is 2.9.2:

    build/peers/bin/python tests/support/sb3_reference.py > tests/support/sb3_reference.json
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

OBSERVATION, ACTION, HIDDEN, BATCH, STEPS = 3, 2, [8, 7], 16, 4
RATE, GAMMA, TAU = 3e-3, 0.97, 0.02
NAMES = ("sac", "td3", "ddpg")
REFERENCE = Path(__file__).with_suffix(".json")


def sizes(inputs: int, outputs: int) -> list[tuple[int, ...]]:
    """Shapes of a network's weights and biases, layer by layer."""
    widths = [inputs, *HIDDEN, outputs]
    return [shape for i, o in pairwise(widths) for shape in ((o, i), (o,))]


def start(name: str) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """The first parameters of the policy and of each critic, in the order of `sizes`."""
    rng = np.random.default_rng(1)

    def made(inputs: int, outputs: int) -> list[np.ndarray]:
        return [rng.uniform(-0.4, 0.4, size).astype(np.float32) for size in sizes(inputs, outputs)]

    policy = made(OBSERVATION, 2 * ACTION if name == "sac" else ACTION)
    return policy, [made(OBSERVATION + ACTION, 1) for _ in range(1 if name == "ddpg" else 2)]


def batches() -> Iterator[dict[str, np.ndarray]]:
    """The transitions of each gradient step, with two draws of noise: of the target's actions, of the
    policy's."""
    rng = np.random.default_rng(2)
    for _ in range(STEPS):
        yield {
            "observations": rng.standard_normal((BATCH, OBSERVATION), np.float32),
            "actions": rng.uniform(-1, 1, (BATCH, ACTION)).astype(np.float32),
            "rewards": rng.standard_normal(BATCH, np.float32),
            "terminated": (rng.random(BATCH) < 0.2).astype(np.float32),
            "following": rng.standard_normal((BATCH, OBSERVATION), np.float32),
            "noise": rng.standard_normal((2, BATCH, ACTION), np.float32),
        }


def _reference(name: str) -> dict[str, Any]:
    """All parameters after the gradient steps, by network."""
    import gymnasium
    import stable_baselines3
    import torch
    from stable_baselines3.common.logger import configure
    from stable_baselines3.common.type_aliases import ReplayBufferSamples

    class Space(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-9, 9, (OBSERVATION,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (ACTION,), np.float32)

    model = getattr(stable_baselines3, name.upper())(
        "MlpPolicy",
        Space(),
        learning_rate=RATE,
        gamma=GAMMA,
        tau=TAU,
        policy_kwargs={"net_arch": HIDDEN},
        device="cpu",
    )
    model.set_logger(configure(None, []))
    policy, critics = start(name)

    def parts(module: Any) -> list[Any]:
        """The parameters in the order of `sizes`; a SAC policy's last layer in two halves."""
        if hasattr(module, "latent_pi"):
            heads = [module.mu.weight, module.log_std.weight, module.mu.bias, module.log_std.bias]
            return [*module.latent_pi.parameters(), *heads]
        return list(module.parameters())

    def write(module: Any, arrays: list[np.ndarray]) -> None:
        flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
        own = parts(module)
        with torch.no_grad():
            for part, values in zip(own, flat.split([part.numel() for part in own]), strict=True):
                part.copy_(values.view_as(part))

    write(model.actor, policy)
    for network in (model.critic, model.critic_target):
        for module, arrays in zip(network.q_networks, critics, strict=True):
            write(module, arrays)
    if name != "sac":
        write(model.actor_target, policy)

    noise: list[torch.Tensor] = []
    torch.distributions.normal._standard_normal = lambda *_, **__: noise.pop()
    torch.Tensor.normal_ = lambda self, _, deviation: self.copy_(deviation * noise.pop())  # type: ignore
    given = batches()

    def sample(*_: Any, **__: Any) -> ReplayBufferSamples:
        batch = {key: torch.from_numpy(array) for key, array in next(given).items()}
        noise[:] = list(batch["noise"]) if name == "sac" else [batch["noise"][0]]
        return ReplayBufferSamples(
            batch["observations"],
            batch["actions"],
            batch["following"],
            batch["terminated"][:, None],
            batch["rewards"][:, None],
        )

    model.replay_buffer.sample = sample
    model.train(gradient_steps=STEPS, batch_size=BATCH)

    def flat(module: Any) -> list[float]:
        values = torch.cat([part.detach().flatten() for part in parts(module)])
        return [round(value, 8) for value in values.tolist()]

    result = {
        "policy": [flat(model.actor)],
        "critics": [flat(module) for module in model.critic.q_networks],
        "critics_targets": [flat(module) for module in model.critic_target.q_networks],
    }
    if name == "sac":
        return result | {"log_temperature": model.log_ent_coef.tolist()}
    return result | {"policy_targets": [flat(model.actor_target)]}


if __name__ == "__main__":
    print(json.dumps({name: _reference(name) for name in NAMES}))
