"""The engine for Atari 2600 games: one emulator per copy, its screens made smaller and grey.

Actions are sticky as in Machado et al. (2018): at each screen the game may still get the previous action.
This module draws the random numbers for it. The emulator cannot, because its saved state lacks its last
action, and resumed episodes must be equal to the bit. An episode begins by restoring the game's start,
because the emulator's own reset takes as long as ten steps and, in some games, depends on the last
episode."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import wire
from nitro_actor.actions import Discrete
from nitro_actor.config import AtariConfig, EnvironmentConfigError
from nitro_actor.engines import ale
from nitro_actor.engines.base import (
    OneAgentEngine,
    Snapshot,
    Step,
    pack_generators,
    seeded_generators,
    unpack_generators,
)
from nitro_actor.protocol.agents import AGENT

Floats = NDArray[np.float32]


class Resize:
    """Shrink an image from [height, width] to [size, size].

    The mean over areas is a linear map of the rows, followed by a linear map of the columns. Each map repeats
    in blocks: 210 rows become 84 in 42 blocks that map 5 rows to 2, and 160 columns become 84 in 4 blocks
    that map 40 columns to 21. So both maps are products with small matrices.
    """

    def __init__(self, height: int, width: int, size: int) -> None:
        blocks, periods = math.gcd(height, size), math.gcd(width, size)
        self._rows = areas(height // blocks, size // blocks)
        self._columns = areas(width // periods, size // periods).T.copy()
        # The first axis of these arrays is the row inside a block, so that one product computes all blocks.
        self._image = np.empty((height // blocks, blocks, width), np.float32)
        self._low = np.empty((size // blocks, blocks, width), np.float32)
        self._frame = np.empty((size // blocks, blocks, size), np.float32)

    def __call__(self, image: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Write the frame of a u8 image [height, width], rounded, to u8 [size, size], contiguous."""
        tall, blocks, _ = self._image.shape
        low, _, size = self._frame.shape
        np.copyto(self._image, image.reshape(blocks, tall, -1).swapaxes(0, 1))
        np.matmul(self._rows, self._image.reshape(tall, -1), out=self._low.reshape(low, -1))
        wide, narrow = self._columns.shape
        np.matmul(self._low.reshape(-1, wide), self._columns, out=self._frame.reshape(-1, narrow))
        np.rint(self._frame, out=self._frame)
        np.copyto(out.reshape(blocks, low, size), self._frame.swapaxes(0, 1), casting="unsafe")


def areas(length: int, parts: int) -> Floats:
    """The share of each of `length` cells in each of `parts` equal parts, f32 [parts, length]; rows sum to
    1."""
    edges = np.arange(parts + 1) * length / parts
    cells = np.arange(length)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    shares: Floats = (np.maximum(overlap, 0) * parts / length).astype(np.float32)
    return shares


MAX_SCREENS = 108_000
"""Screens of the longest episode: half an hour of play."""

_OPTIONS = ("mode", "difficulty", "full_action_space")
_DIGEST_BYTES = 16
_IDLE = 0
_ACTIONS = 18  # of the joystick; a game knows some of them


class AtariEngine(OneAgentEngine):
    """E games of one kind. `observations` are the newest frames, u8 [E, 1, size, size].

    Args:
        name: the id without ALE/, such as SpaceInvaders-v5.
        count: E.
        config: how screens become frames.
        options: `mode`, `difficulty` (whole numbers that the game knows) and `full_action_space` (all 18
            actions instead of those that do something).

    Raises:
        EnvironmentConfigError: there is no such game, mode or difficulty.
    """

    resumable = True

    def __init__(self, name: str, count: int, config: AtariConfig, options: Mapping[str, Any]) -> None:
        self.count = count
        self._config = config
        _check_options(options)
        path = ale.rom(name)
        self._games = [_load(str(path), name, options) for _ in range(count)]
        first = self._games[0]
        full = options.get("full_action_space", False)
        legal = first.getLegalActionSet() if full else first.getMinimalActionSet()
        self._legal = [int(action.value) for action in legal]
        self._start, self._start_screen = first.cloneState(), first.getScreenGrayscale()
        height, width = first.getScreenDims()
        self._screens, self._before = np.empty((2, count, height, width), np.uint8)
        self._resize = Resize(height, width, config.frame_size)
        self._sticking = np.full(count, _IDLE)
        self._generators = unpack_generators(np.zeros((count, 6), np.uint64))
        self.time_limit = math.ceil(MAX_SCREENS / config.frame_skip)
        self._observations = np.zeros((count, config.frame_size, config.frame_size), np.uint8)
        self.show(self._observations, Discrete(len(self._legal)))

    def reset(self, seeds: Sequence[int]) -> None:
        self._generators = seeded_generators(seeds)
        for index in range(self.count):
            self.reset_one(index)

    def reset_one(self, index: int) -> None:
        game, screen = self._games[index], self._screens[index]
        game.restoreState(self._start)
        screen[:] = self._start_screen
        self._sticking[index] = _IDLE
        if self._config.noop_max:
            for _ in range(self._generators[index].integers(1, self._config.noop_max + 1)):
                game.act(_IDLE)
            if game.game_over(with_truncation=False):  # the idle screens ended the game
                game.restoreState(self._start)
            else:
                game.getScreenGrayscale(screen)
        self._resize(screen, self._observations[index])

    def step(self, actions: Mapping[str, np.ndarray]) -> Step:
        given = actions[AGENT][:, 0]
        skip, sticky = self._config.frame_skip, self._config.sticky_actions
        # First step all emulators, then shrink all screens. In turns, each would push the other's data out of
        # the cache.
        for index, game in enumerate(self._games):
            wanted, seen = self._legal[given[index]], int(self._sticking[index])
            sticks = (self._generators[index].random(skip) < sticky).tolist()
            reward = 0
            for number, stick in enumerate(sticks, 1):
                if not stick:
                    seen = wanted
                reward += game.act(seen)
                if number == skip - 1:
                    game.getScreenGrayscale(self._before[index])
            game.getScreenGrayscale(self._screens[index])
            self._sticking[index] = seen
            self._rewards[index] = reward
            self._terminated[index] = game.game_over(with_truncation=False)
        if skip > 1:
            np.maximum(self._screens, self._before, out=self._screens)
        for screen, frame in zip(self._screens, self._observations, strict=True):
            self._resize(screen, frame)
        return self._step

    def snapshot(self) -> Snapshot:
        """The emulators' states, as their library writes them, each behind its digest and length."""
        states = [game.cloneState().serialize() for game in self._games]
        sizes = [len(state) for state in states]
        system = np.zeros((self.count, max(sizes)), np.uint8)
        for row, state in zip(system, states, strict=True):
            row[: len(state)] = np.frombuffer(state, np.uint8)
        return {
            "system": system,
            "system_bytes": np.array(sizes, np.int64),
            "system_digest": np.stack([_digest(state) for state in states]),
            "sticking": self._sticking.astype(np.int64),
            "observations": self._observations.copy(),
            "generators": pack_generators(self._generators),
        }

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        count = self.count
        wire.check(
            snapshot,
            {
                "system": wire.TensorSpec("uint8", (count, None)),
                "system_bytes": wire.TensorSpec("int64", (count,)),
                "system_digest": wire.TensorSpec("uint8", (count, _DIGEST_BYTES)),
                "sticking": wire.TensorSpec("int64", (count,)),
                "observations": wire.TensorSpec("uint8", self._observations.shape),
                "generators": wire.TensorSpec("uint64", (count, 6)),
            },
        )
        sticking = snapshot["sticking"]
        if not all(0 <= action < _ACTIONS for action in sticking):
            raise wire.WireError("tensor sticking: holds what is no action of an Atari game")
        states = []
        for row, size, digest in zip(
            snapshot["system"], snapshot["system_bytes"], snapshot["system_digest"], strict=True
        ):
            state = row[: max(size, 0)].tobytes()
            # The emulator crashes if the state is damaged.
            if not np.array_equal(_digest(state), digest):
                raise wire.WireError("tensor system: is damaged, it does not have its digest")
            states.append(state)
        for game, state in zip(self._games, states, strict=True):
            try:
                game.restoreState(ale.library().ALEState(state))
            except Exception as error:  # the emulator has no class of its own for this
                raise wire.WireError(f"tensor system: is no state of this game ({error})") from error
        self._sticking[:] = sticking
        self._observations[:] = snapshot["observations"]
        self._generators = unpack_generators(snapshot["generators"])

    def picture(self, index: int) -> NDArray[np.uint8]:
        screen: NDArray[np.uint8] = self._games[index].getScreenRGB()
        return screen


def _check_options(options: Mapping[str, Any]) -> None:
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise EnvironmentConfigError(
            f"kwargs {sorted(unknown)} are not taken by Atari games, only {', '.join(_OPTIONS)}; how screens "
            "become observations, and how often actions stick, is set in spec.environment.atari, frameStack "
            "and clipRewards"
        )


def _load(path: str, name: str, options: Mapping[str, Any]) -> Any:
    """An emulator at the start of a game."""
    game = ale.library().ALEInterface()
    game.setFloat("repeat_action_probability", 0.0)
    game.loadROM(path)
    for option, known, apply in (
        ("mode", game.getAvailableModes, game.setMode),
        ("difficulty", game.getAvailableDifficulties, game.setDifficulty),
    ):
        if option in options:
            if type(options[option]) is not int or options[option] not in known():
                choices = ", ".join(map(str, known()))
                raise EnvironmentConfigError(
                    f"kwargs.{option}: ALE/{name} has no {option} {options[option]!r}, only {choices}"
                )
            apply(options[option])
    game.reset_game()
    return game


def _digest(state: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(hashlib.blake2b(state, digest_size=_DIGEST_BYTES).digest(), np.uint8)
