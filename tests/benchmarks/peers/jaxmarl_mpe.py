"""JaxMARL's simple_spread: run in its own environment, prints one JSON object.

python jaxmarl_mpe.py COPIES STEPS N...   for each N: compiled steps per second, and seconds of compiling

Random actions and keys that were drawn before, episodes of 25 steps that reset themselves, float32; one core.
"""

import json
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
from jaxmarl import make


def steps_per_second(agents: int, copies: int, steps: int) -> dict:
    env = make("MPE_simple_spread_v3", num_agents=agents, num_landmarks=agents)

    def one_step(state, given):
        actions, keys = given
        by_agent = {name: actions[:, i] for i, name in enumerate(env.agents)}
        seen, state, rewards, _, _ = jax.vmap(env.step)(keys, state, by_agent)
        # Everything is used, so that nothing is left out by the compiler.
        return state, (seen, rewards)

    @jax.jit
    def rollout(state, actions, keys):
        return jax.lax.scan(one_step, state, (actions, keys))

    _, state = jax.vmap(env.reset)(jax.random.split(jax.random.PRNGKey(1), copies))
    actions = jax.random.randint(jax.random.PRNGKey(2), (steps, copies, agents), 0, 5, dtype=jnp.int32)
    keys = jax.random.split(jax.random.PRNGKey(3), (steps, copies))
    start = time.perf_counter()
    compiled = rollout.lower(state, actions, keys).compile()
    compiling = time.perf_counter() - start
    rates = []
    for _ in range(5):
        start = time.process_time()
        jax.block_until_ready(compiled(state, actions, keys))
        rates.append(steps * copies / (time.process_time() - start))
    return {"rate": sorted(rates)[len(rates) // 2], "compile_seconds": compiling}


if __name__ == "__main__":
    copies, steps, *sizes = (int(word) for word in sys.argv[1:])
    print(json.dumps({str(agents): steps_per_second(agents, copies, steps) for agents in sizes}))
