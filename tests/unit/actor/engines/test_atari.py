"""Atari games: what the emulator shows becomes frames as stated, chance is the stated one, and episodes go on
to the bit."""

import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest

from actor_support import Alone, action_of
from nitro_actor import wire
from nitro_actor.config import AtariConfig, EnvironmentConfig, EnvironmentConfigError
from nitro_actor.engines import ale
from nitro_actor.engines.atari import Resize
from nitro_actor.environment import Environment
from nitro_actor.make_env import make_env

GAME = "ALE/Breakout-v5"  # short episodes, whole rewards


def atari(game: str = GAME, count: int = 2, *, stack: int = 4, **settings: Any) -> Alone:
    kwargs = settings.pop("kwargs", {})
    config = EnvironmentConfig(game, count, kwargs, frame_stack=stack, atari=AtariConfig(**settings))
    return Alone(make_env(config))


def mean_of_areas(image: np.ndarray, size: int) -> np.ndarray:
    """Each pixel the mean of the area it covers, by a finer grid in which both divide: f64 [size, size]."""
    result = image.astype(np.float64)
    for axis, length in enumerate(image.shape):
        cells = math.lcm(length, size)
        fine = np.repeat(result, cells // length, axis).swapaxes(0, axis)
        result = fine.reshape(size, cells // size, -1).mean(axis=1).swapaxes(0, axis)
    return result


@pytest.mark.parametrize(("height", "size"), [(210, 84), (250, 84), (210, 42)])
def test_resizing_is_the_mean_of_areas(height: int, size: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (height, 160), np.uint8)
    frame = np.empty((size, size), np.uint8)
    Resize(height, 160, size)(image, frame)
    np.testing.assert_allclose(frame, mean_of_areas(image, size), atol=0.501)


def test_equals_gymnasiums_emulator() -> None:
    """Without sticky actions and idle begins: rewards, ends, and frames of the brighter of two screens."""
    ours = atari(count=1, sticky_actions=0.0, noop_max=0)
    theirs = gymnasium.make(
        GAME, obs_type="grayscale", frameskip=1, repeat_action_probability=0.0, disable_env_checker=True
    )
    ours.reset([0])
    screen, _ = theirs.reset(seed=0)
    np.testing.assert_allclose(ours.frames[0], mean_of_areas(screen, 84), atol=0.501)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(260):
        action = int(rng.integers(0, 4))
        rewards, terminated, _ = ours.step(np.array([action]))
        total, ended, screens = 0.0, False, []
        for _ in range(4):
            screen, reward, ended, _, _ = theirs.step(action)
            screens.append(screen)
            total += float(reward)
        assert (rewards[0], terminated[0]) == (total, ended)
        brighter = np.maximum(screens[-1], screens[-2])
        np.testing.assert_allclose(ours.frames[0], mean_of_areas(brighter, 84), atol=0.501)
        if ended:
            ends += 1
            ours.reset_one(0)
            theirs.reset()
    assert ends >= 1


def test_stacks_hold_the_last_frames_and_begin_with_the_first() -> None:
    env = atari(count=2, stack=3)
    env.reset([0, 1])
    frames = [[env.frames[i].copy()] * 3 for i in range(2)]
    rng = np.random.default_rng(0)
    assert env.observations.shape == (2, 84, 84, 3) == (2, *env.spec.classes[0].observation["shape"])
    for t in range(40):
        env.step(rng.integers(0, 4, 2))
        for i in range(2):
            frames[i].append(env.frames[i].copy())
        if t == 20:
            env.reset_one(1)
            frames[1] = [env.frames[1].copy()] * 3
        for i in range(2):
            np.testing.assert_array_equal(env.observations[i], np.stack(frames[i][-3:], -1))


class Recorder:
    """An emulator that notes its actions."""

    def __init__(self, game: Any) -> None:
        self._game = game
        self.seen: list[int] = []

    def act(self, action: int) -> int:
        self.seen.append(action)
        reward: int = self._game.act(action)
        return reward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._game, name)


class Emulators:
    """ale-py's extension module, each emulator of which is one of `kind`."""

    def __init__(self, kind: type[Recorder]) -> None:
        self._library, self._kind = ale.library(), kind
        self.made: list[Recorder] = []
        self.ALEInterface = self
        self.isSupportedROM = self._library.ALEInterface.isSupportedROM

    def __call__(self) -> Recorder:
        self.made.append(self._kind(self._library.ALEInterface()))
        return self.made[-1]


def recorded(
    monkeypatch: pytest.MonkeyPatch, kind: type[Recorder] = Recorder, **settings: Any
) -> tuple[Alone, Recorder]:
    emulators = Emulators(kind)
    with monkeypatch.context() as patch:
        patch.setattr(ale, "library", lambda: emulators)
        env = atari(count=1, **settings)
    env.reset([3])
    return env, emulators.made[0]


def test_actions_stick_with_the_stated_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    env, recorder = recorded(monkeypatch, sticky_actions=0.25, noop_max=0)
    steps = 400
    for t in range(steps):
        env.step(np.array([2 + t % 2]))
        if recorder.game_over():
            env.reset_one(0)
    seen = np.array(recorder.seen).reshape(steps, 4)
    wanted = np.array([3 if t % 2 == 0 else 4 for t in range(steps)])  # RIGHT and LEFT of the emulator
    late = (seen != wanted[:, None]).mean(axis=0)
    # Once the game has seen a new action there is nothing left to stick to.
    np.testing.assert_allclose(late, 0.25 ** np.arange(1, 5), atol=0.06)


def test_without_stickiness_the_game_sees_every_action(monkeypatch: pytest.MonkeyPatch) -> None:
    env, recorder = recorded(monkeypatch, sticky_actions=0.0, noop_max=0)
    for t in range(50):
        env.step(np.array([2 + t % 2]))
    assert recorder.seen == [3 + t % 2 for t in range(50) for _ in range(4)]


def test_episodes_begin_with_idle_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    env, recorder = recorded(monkeypatch, noop_max=5)
    lengths = set()
    for _ in range(60):
        recorder.seen.clear()
        env.reset_one(0)
        assert set(recorder.seen) == {0}
        lengths.add(len(recorder.seen))
    assert lengths == {1, 2, 3, 4, 5}


def test_a_game_that_ends_during_idle_steps_begins_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying(Recorder):
        def game_over(self, **_: bool) -> bool:
            return True

    game = "ALE/SpaceInvaders-v5"  # its screen changes at once
    start = atari(game, count=1, noop_max=0)
    start.reset([3])
    env, _ = recorded(monkeypatch, Dying, game=game, noop_max=30)
    np.testing.assert_array_equal(env.frames, start.frames)


def play(env: Environment, seed: int, steps: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    seen: list[Any] = []
    for _ in range(steps):
        rewards, terminated, truncated = env.step(rng.integers(0, action_of(env.spec).outputs, env.count))
        seen.append((env.observations.tobytes(), rewards.tobytes(), terminated.tolist(), truncated.tolist()))
        for i in np.flatnonzero(terminated | truncated):
            seen.append((i, env.returns[i], env.lengths[i]))
            env.reset_one(int(i))
    return seen


@pytest.mark.parametrize("game", ["ALE/SpaceInvaders-v5", "ALE/Qbert-v5", "ALE/Gravitar-v5", GAME])
def test_resumes_to_the_bit(game: str) -> None:
    """Through the wire, in other emulators that have played something else, over the ends of episodes."""
    first, second = atari(game), atari(game)
    first.reset([1, 2])
    second.reset([3, 4])
    play(first, 0, 33)
    play(second, 1, 7)
    _, state = wire.decode(wire.encode({}, first.snapshot()))
    expected = play(first, 2, 200)
    if game == GAME:
        assert any(len(entry) == 3 for entry in expected), "no episode ended"
    second.restore(state)
    assert play(second, 2, 200) == expected
    for name, array in first.snapshot().items():
        np.testing.assert_array_equal(second.snapshot()[name], array)


def test_restore_refuses_other_states() -> None:
    env = atari()
    env.reset([0, 1])
    good = env.snapshot()
    damaged = good["system"].copy()
    damaged[0, 100] ^= 1
    with pytest.raises(wire.WireError, match="system: is damaged"):
        env.restore(good | {"system": damaged})
    with pytest.raises(wire.WireError, match="sticking"):
        env.restore(good | {"sticking": np.array([0, 18])})
    with pytest.raises(wire.WireError, match="stack: missing"):
        env.restore({name: array for name, array in good.items() if name != "stack"})
    other = atari("ALE/Pong-v5")
    other.reset([0, 1])
    with pytest.raises(wire.WireError, match="no state of this game"):
        env.restore(other.snapshot())


@pytest.mark.parametrize(
    ("game", "kwargs", "message"),
    [
        ("ALE/SpaceInvader-v5", {}, "did you mean ALE/SpaceInvaders-v5"),
        ("ALE/Pong-v4", {}, "did you mean ALE/Pong-v5"),
        ("ALE/Nothing-v5", {}, "an id looks like ALE/SpaceInvaders-v5|did you mean"),
        ("ALE/Combat-v5", {}, "for two players only"),
        (GAME, {"frameskip": 2}, r"\['frameskip'\] are not taken .* spec.environment.atari"),
        (GAME, {"mode": 3}, "kwargs.mode: ALE/Breakout-v5 has no mode 3, only 0, 4, 8"),
    ],
)
def test_refuses(game: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(EnvironmentConfigError, match=message):
        atari(game, 1, kwargs=kwargs)


def test_options_equal_those_of_the_emulator() -> None:
    assert action_of(atari(count=1).spec).outputs == 4
    assert action_of(atari(count=1, kwargs={"full_action_space": True, "mode": 4}).spec).outputs == 18


def test_a_missing_library_and_a_damaged_rom_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    roms = tmp_path / "roms"
    roms.mkdir()
    source = Path(ale_py.__file__).parent / "roms"
    (roms / "md5.json").write_bytes((source / "md5.json").read_bytes())
    find = importlib.util.find_spec

    def there(name: str, *arguments: Any) -> Any:
        package = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
        return package if name == "ale_py" else find(name, *arguments)

    monkeypatch.setattr(importlib.util, "find_spec", there)
    with pytest.raises(EnvironmentConfigError, match=r"is missing .*install ale-py"):
        ale.rom("Pong-v5")
    (roms / "pong.bin").write_bytes(b"not a game")
    with pytest.raises(EnvironmentConfigError, match="is not the one"):
        ale.rom("Pong-v5")

    def without(name: str, *arguments: Any) -> Any:
        return None if name == "ale_py" else find(name, *arguments)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(EnvironmentConfigError, match="pip install ale-py"):
        ale.rom("Pong-v5")


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    "code",
    [
        "assert 'gymnasium' not in sys.modules and 'ale_py' not in sys.modules, sorted(sys.modules)",
        "import ale_py, gymnasium; gymnasium.make('ALE/Pong-v5')",
    ],
    ids=["gymnasium is not loaded", "the package can be imported afterwards"],
)
def test_the_emulator_is_loaded_alone(code: str) -> None:
    config = {"id": "ALE/Pong-v5", "atari": {}, "frameStack": 4}
    build = f"make_env(EnvironmentConfig.from_json({json.dumps(config)!r}))"
    imports = "import sys; from nitro_actor.make_env import make_env; from nitro_actor.config import *"
    _run(f"{imports}; {build}; {code}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["atari"].update(colour=True), r"unknown fields \['colour'\]"),
        (lambda c: c.update(frameStack=0), "frameStack is 0"),
        (lambda c: c.update(extra=1), r"unknown fields \['extra'\]"),
    ],
)
def test_refuses_wrong_settings(change: Callable[[dict[str, Any]], None], message: str) -> None:
    config: dict[str, Any] = {"id": GAME, "atari": {"frameSize": 42}, "frameStack": 2, "clipRewards": True}
    assert EnvironmentConfig.from_json(json.dumps(config)) == EnvironmentConfig(
        GAME, 1, frame_stack=2, clip_rewards=True, atari=AtariConfig(frame_size=42)
    )
    change(config)
    with pytest.raises(EnvironmentConfigError, match=message):
        EnvironmentConfig.from_json(json.dumps(config))
