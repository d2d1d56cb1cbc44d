"""SMAX in JAX, as functions of plain arrays: what `programs` compiles. Only this module needs JaxMARL.

JaxMARL's HeuristicEnemySMAX (Rutherford et al. 2024): the agents are one army, the other attacks the closest.
A state is a mapping of arrays of one copy, whose field `key` holds the copy's random key as i32 [2].
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario
from jaxmarl.environments.smax.heuristic_enemy import HeuristicPolicyState
from jaxmarl.environments.smax.heuristic_enemy_smax_env import State
from jaxmarl.environments.smax.smax_env import State as Battlefield

Arrays = dict[str, jax.Array]

_ENEMY = "enemy_"
_STOP = 4
"""The action of agents that cannot act."""


def functions(map_name: str) -> tuple[Callable[[jax.Array], Any], Callable[[Arrays, jax.Array], Any]]:
    """The two functions of one copy of a map.

    Returns:
        `begin(key)`: from i32 [2] to the state and what is shown of it: `observations` f32 [n, size],
        `available` bool [n, N], `alive` bool [n], `global_state` f32 [S].
        `step(state, actions)`: from a state and i32 [n] to the next state, what is shown of it, the `reward`,
        and whether the battle is over, `ended`. After the end nobody is shown as alive.
    """
    battle = HeuristicEnemySMAX(scenario=map_name_to_scenario(map_name), attack_mode="closest")
    agents, allies = battle.agents, battle.num_allies

    def begin(key: jax.Array) -> Any:
        ours, theirs = jax.random.split(_as_key(key))
        _, state = battle.reset(theirs)
        return _flat(ours, state), show(state, jnp.array(False))

    def step(arrays: Arrays, actions: jax.Array) -> Any:
        key, state = _deep(arrays)
        ours, theirs = jax.random.split(key)
        actions = jnp.where(state.state.unit_alive[:allies], actions, _STOP)
        chosen = {agent: actions[i] for i, agent in enumerate(agents)}
        _, state, rewards, _, _ = battle.step_env(theirs, state, chosen)
        alive = state.state.unit_alive
        # The time limit, which also ends JaxMARL's episodes, is applied by `Environment`.
        ended = ~alive[:allies].any() | ~alive[allies:].any()
        return _flat(ours, state), show(state, ended), {"reward": rewards[agents[0]], "ended": ended}

    def show(state: State, ended: jax.Array) -> Arrays:
        alive = state.state.unit_alive[:allies] & ~ended
        observations, available = battle.get_obs(state), battle.get_avail_actions(state)
        seen = jnp.stack([observations[agent] for agent in agents])
        allowed = jnp.stack([available[agent] for agent in agents]).astype(bool)
        return {
            "observations": jnp.where(alive[:, None], seen, 0.0),
            "available": allowed | ~alive[:, None],
            "alive": alive,
            "global_state": battle.get_world_state(state),
        }

    return begin, step


def _flat(key: jax.Array, state: State) -> Arrays:
    enemy = {_ENEMY + name: array for name, array in vars(state.enemy_policy_state).items()}
    return {"key": jax.lax.bitcast_convert_type(key, jnp.int32), **vars(state.state), **enemy}


def _deep(arrays: Arrays) -> tuple[jax.Array, State]:
    fields = {name: array for name, array in arrays.items() if name != "key"}
    enemy = {name: fields.pop(name) for name in arrays if name.startswith(_ENEMY)}
    policy = HeuristicPolicyState(**{name.removeprefix(_ENEMY): array for name, array in enemy.items()})
    return _as_key(arrays["key"]), State(state=Battlefield(**fields), enemy_policy_state=policy)


def _as_key(bits: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(bits, jnp.uint32)
