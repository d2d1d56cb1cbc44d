"""One policy in several threads: each gets what it would get alone, to the bit."""

import asyncio
import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

import agents_jobs
from nitro_actor import matmul, networks, onnx
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.checkpoints.store import load
from nitro_learner.deployment.serving.app import make_app
from nitro_learner.studies.playing import play
from train_support import job
from untrained_runs import untrained

OWN = "learner_environments:"
SHORT: dict[str, Any] = {"scaling": {"scaler": "fixed"}, "backend": {"type": "Local"}}
MEMORY: dict[str, Any] = {"network": {"hiddenSizes": [16], "recurrent": {"hiddenSize": 8}}}
SOURCES: dict[str, dict[str, Any]] = {
    "vectors": job(algorithm={"preset": "tuned"}, **SHORT),
    "images": job(
        environment={"entryPoint": f"{OWN}Colours"},
        network={"hiddenSizes": [8], "convLayers": [{"channels": 4, "kernel": 2, "stride": 1}] * 2},
        **SHORT,
    ),
    "frames": job(environment={"id": "CartPole-v1", "frameStack": 3}, **SHORT),
    "a module": job(network={"entryPoint": "own_networks:Perceptron"}, **SHORT),
    "memory": job(**MEMORY, **SHORT),
    "several numbers": job(environment={"entryPoint": f"{OWN}Dials"}, **SHORT),
    "several agents": agents_jobs.job(id="mpe2/simple_adversary_v3", **SHORT),
    "values": agents_jobs.job(name="qmix", environment={"kwargs": {"local_ratio": 0.0}}, **SHORT),
    "several with memory": agents_jobs.job(**MEMORY, **SHORT),
}
Call = Callable[[], Any]


@pytest.fixture(params=SOURCES, scope="module")
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TrainedPolicy:
    """A policy with random weights, so that its actions differ."""
    folder, generator = tmp_path_factory.mktemp("run"), np.random.default_rng(0)
    untrained(SOURCES[request.param], folder)
    played = load(folder / "checkpoints" / "round-000001.safetensors").state["played"]
    for one in played["policies"].values():
        for name, tensor in one["tensors"].items():
            if name.endswith("weight"):
                drawn = generator.standard_normal(tensor.shape)
                # Without their mean, so that the differences of pixels count.
                tensor[...] = drawn - drawn.mean(axis=tuple(range(1, drawn.ndim)), keepdims=True)
    return TrainedPolicy(played, 1, seed=0)


def rows(policy: TrainedPolicy, kind: str, count: int, seed: int) -> Any:
    """Observations or frames for a policy, in the form that it takes."""
    generator, found = np.random.default_rng(seed), {}
    for agent, one in policy.spaces.items():
        shape = (count, *one.observation[kind])
        drawn = generator.standard_normal(shape) * 9
        found[agent] = (
            generator.integers(0, 256, shape, np.uint8)
            if one.observation["dtype"] == "uint8"
            else drawn.astype(np.float32)
        )
    return found if "classes" in policy.environment else found[policy.agents[0]]


def answer(policy: TrainedPolicy, count: int, seed: int) -> Call:
    """A call of `act`, and of `episode`, which tells two frames."""
    seen, frames = rows(policy, "shape", count, seed), rows(policy, "frame", count, seed)

    def call() -> Any:
        episode = policy.episode()
        told = [episode.act(frames), episode.act(frames)]
        return [policy.act(seen, state=policy.initial_state(count)), told]

    return call


def flat(found: Any) -> list[Any]:
    """An answer as lists that can be compared."""
    if isinstance(found, dict):
        return [flat(found[name]) for name in sorted(found)]
    return [flat(one) for one in found] if isinstance(found, list | tuple) else [found.tolist()]


def in_another(call: Call) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def product(policy: TrainedPolicy) -> str:
    """The function of numpy that a policy calls at least once between an observation and its action."""
    kinds = {one.network["kind"] for one in policy.weights.policies.values()}
    return "ascontiguousarray" if onnx.KIND in kinds else "matmul"


def interrupted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, meddle: Call) -> None:
    """Let another thread make a call of its own after each call of a function in this one."""
    function, here = getattr(module, name), threading.current_thread()

    def with_meddler(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        if threading.current_thread() is here:
            in_another(meddle)
        return result

    monkeypatch.setattr(module, name, with_meddler)


@pytest.mark.parametrize("count", [6, 2])
def test_a_thread_in_the_middle_of_anothers_call_changes_nothing(
    policy: TrainedPolicy, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """After each product of a call another thread makes a whole call, of as many rows or fewer."""
    mine, others = answer(policy, 6, seed=1), answer(policy, count, seed=2)
    right = flat(mine())
    assert flat(others()) != right, "otherwise nothing is tested"
    interrupted(monkeypatch, np, product(policy), others)
    assert flat(mine()) == right


def test_many_threads_get_what_each_gets_alone(policy: TrainedPolicy) -> None:
    calls = [answer(policy, count, seed) for seed, count in enumerate([64, 64, 64, 1])]
    right = [flat(call()) for call in calls]
    begin = threading.Barrier(len(calls))

    def repeated(number: int) -> list[Any]:
        begin.wait(60)
        return [flat(calls[number]()) for _ in range(20)]

    with ThreadPoolExecutor(len(calls)) as pool:
        for number, found in enumerate(pool.map(repeated, range(len(calls)))):
            assert found == [right[number]] * 20


def test_actions_that_threads_draw_are_those_of_some_order(policy: TrainedPolicy) -> None:
    seen = rows(policy, "shape", 4, seed=1)

    def draw(drawing: TrainedPolicy) -> Any:
        drawn = drawing.act(seen, deterministic=False, state=drawing.initial_state(4))
        return flat(drawn[0])

    first, second = copy.deepcopy(policy), copy.deepcopy(policy)
    alone = [draw(first) for _ in range(40)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(draw, [second] * 40))
    assert sorted(map(str, together)) == sorted(map(str, alone))


def test_a_copy_of_a_policy_in_use_gives_the_same(policy: TrainedPolicy) -> None:
    """The copy of an episode, too, as a search needs it; it has a copy of the policy."""
    call, frames = answer(policy, 5, seed=1), rows(policy, "frame", 5, seed=3)
    right, episode = flat(call()), policy.episode()
    episode.act(frames)
    copied = copy.deepcopy(episode)
    assert flat(answer(copy.deepcopy(policy), 5, seed=1)()) == right
    assert flat(copied.act(frames)) == flat(episode.act(frames))


def test_an_episode_belongs_to_one_thread_at_a_time(
    policy: TrainedPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, undisturbed, episode = rows(policy, "frame", 3, seed=1), policy.episode(), policy.episode()
    right = [flat(undisturbed.act(frames)) for _ in range(3)]
    refused = []

    def meddle() -> None:
        with pytest.raises(RuntimeError, match=r"give each thread an episode\(\) of its own"):
            episode.act(frames)
        refused.append(True)

    with monkeypatch.context() as patch:
        interrupted(patch, np, product(policy), meddle)
        found = [flat(episode.act(frames)), flat(episode.act(frames))]
    assert refused
    assert [*found, flat(in_another(lambda: episode.act(frames)))] == right, "one after the other they may"


def test_a_product_in_parts_is_each_threads_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "AVX512", True)
    generator = np.random.default_rng(0)
    names = {"weight": (256, 3872), "bias": (256,)}
    tensors = {
        f"policy.layers.0.{name}": generator.standard_normal(shape, np.float32)
        for name, shape in names.items()
    }
    network = networks.Mlp({"hidden": [256], "activation": "relu"}, tensors, (3872,))
    one, other = generator.standard_normal((2, 8, 3872), np.float32)
    right = network(one).copy()
    interrupted(monkeypatch, np, "matmul", lambda: network(other))
    np.testing.assert_array_equal(network(one), right)


async def test_two_servers_of_one_policy_answer_as_the_policy_does(policy: TrainedPolicy) -> None:
    apps = [make_app(policy), make_app(policy)]
    asked = [rows(policy, "shape", 32, seed) for seed in range(4)]
    right = [flat(policy.act(seen, state=policy.initial_state(32))) for seen in asked]
    async with TestServer(apps[0]) as one, TestServer(apps[1]) as two, ClientSession() as client:

        async def ask(number: int) -> Any:
            server, seen = (one, two)[number % 2], asked[number % 4]
            listed = {a: r.tolist() for a, r in seen.items()} if isinstance(seen, dict) else seen.tolist()
            answered = await client.post(server.make_url("/v1/act"), json={"observation": listed})
            found = await answered.json()
            assert answered.status == 200, found
            return found["action"]

        found = await asyncio.gather(*(ask(number) for number in range(16)))
    for number, action in enumerate(found):
        actions = [action[agent] for agent in sorted(action)] if isinstance(action, dict) else action
        expected = right[number % 4][0]
        expected = [one[0] for one in expected] if isinstance(action, dict) else expected[0]
        np.testing.assert_array_equal(np.array(actions, np.float32), np.array(expected, np.float32))


@pytest.mark.parametrize("name", ["vectors", "several agents"])
def test_evaluations_in_threads_play_the_same_episodes(tmp_path: Path, name: str) -> None:
    spec = untrained(SOURCES[name], tmp_path).spec
    checkpoint = load(tmp_path / "checkpoints" / "round-000001.safetensors")

    def evaluated(_: int = 0) -> list[float]:
        return play(spec, checkpoint, 3).returns.tolist()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(evaluated, range(3))) == [evaluated()] * 3


def test_every_network_is_tested() -> None:
    assert networks.NETWORKS.keys() == {"mlp", "conv", onnx.KIND}
