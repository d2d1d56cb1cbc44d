"""Video files: pictures of an episode become a .mp4, .gif or .webp."""

from __future__ import annotations

import ctypes.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from nitro_api.errors import installing
from nitro_learner.run.rundir import naming

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".mp4", ".gif", ".webp")
"""The formats, by the file's name."""
MOST_STEPS = 1_000
"""Steps of an episode that a video shows."""
_RATE = 30.0
"""Pictures per second at most, as near as a whole number of steps comes to it. Where the processor draws, a
picture of MuJoCo takes a hundred times as long as a step, and Hopper has 125 steps a second."""

_SHADOWS = 1024
"""Points of MuJoCo's shadows in each direction. Nobody sees its own 4096 in a picture of 480 points."""

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
# The library of each renderer that needs no display.
_RENDERERS = (("EGL", "egl"), ("OSMesa", "osmesa"))

Draw = Callable[[], Any]
"""Draws the environment as it is now: u8 [height, width, 3]."""


class VideoError(Exception):
    """No video could be made; the message says why and what to do."""


@dataclass(frozen=True)
class Filmed:
    """The steps that a video shows, their undiscounted return, and whether the episode ended with them."""

    steps: int
    total: float
    ended: bool


class Video:
    """A video that is being made. The file is there when it is whole: as the block ends without an error.

    Args:
        path: of the file; its suffix is one of SUFFIXES.
        rate: steps of the environment per second.
        progress: is told the number of steps after each.

    Raises:
        VideoError: the suffix is of no format, or what writes it is not installed.
    """

    def __init__(self, path: Path, rate: float, progress: Callable[[int], None] = lambda _: None) -> None:
        if path.suffix not in SUFFIXES:
            raise VideoError(f"{path}: a video's name ends in {', '.join(SUFFIXES)}")
        self._path = path
        self._every = max(1, round(rate / _RATE))
        self._rate = rate / self._every
        self._progress = progress
        self._file = _Mp4(self._rate) if path.suffix == ".mp4" else _Pictures(self._rate)
        self._total, self._steps, self._ended = 0.0, 0, False

    def step(self, draw: Draw, reward: float, *, ended: bool) -> bool:
        """Take a step into the video. Whether more may follow."""
        if self._steps % self._every == 0 or ended:
            picture = np.ascontiguousarray(draw(), np.uint8)
            with naming(self._path):
                self._file.add(self._temporary, picture)
        self._steps, self._total, self._ended = self._steps + 1, self._total + reward, ended
        self._progress(self._steps)
        return not ended and self._steps < MOST_STEPS

    @property
    def filmed(self) -> Filmed:
        """What it shows so far."""
        return Filmed(self._steps, self._total, self._ended)

    @property
    def _temporary(self) -> Path:
        return self._path.with_name(f".{self._path.stem}.partial{self._path.suffix}")

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with naming(self._path):
                    self._file.close(self._temporary)
                    self._temporary.replace(self._path)
            else:
                self._file.drop()
        finally:
            self._temporary.unlink(missing_ok=True)


def choose_renderer() -> None:
    """Say how to draw if there is no display. MuJoCo does not look for other renderers by itself, and
    pygame's SDL looks for a screen, and complains on stderr that there is none."""
    if sys.platform != "linux" or any(os.environ.get(name) for name in _SCREENS):
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    installed = (name for library, name in _RENDERERS if ctypes.util.find_library(library))
    if not os.environ.get("MUJOCO_GL") and (renderer := next(installed, None)):
        os.environ["MUJOCO_GL"] = renderer


def lighten(environment: Any) -> None:
    """Have MuJoCo draw in a third of the time, where the processor draws: with coarser shadows, and without
    smoothing edges. It has an effect only before the first picture."""
    model = getattr(environment.unwrapped, "model", None)
    quality = getattr(getattr(model, "vis", None), "quality", None)
    if quality is not None:
        quality.shadowsize, quality.offsamples = min(quality.shadowsize, _SHADOWS), 0


def as_policies_see(environment: Any) -> Any:
    """The environment with observations as policies see them: flat, and their masks apart."""
    from gymnasium.wrappers import FlattenObservation

    from nitro_actor.engines.masked import apart
    from nitro_actor.spaces import is_flattened

    environment = apart(environment)
    return FlattenObservation(environment) if is_flattened(environment.observation_space) else environment


class _Pictures:
    """The pictures of a .gif or .webp, which Pillow writes all at once."""

    def __init__(self, rate: float) -> None:
        self._milliseconds = 1000 / rate
        self._pictures: list[Image] = []

    def add(self, _path: Path, picture: NDArray[np.uint8]) -> None:
        from PIL import Image

        self._pictures.append(Image.fromarray(picture))

    def close(self, path: Path) -> None:
        first, *others = self._pictures
        first.save(path, save_all=True, append_images=others, duration=self._milliseconds, loop=0)

    def drop(self) -> None:
        self._pictures.clear()


class _Mp4:
    """The stream of a .mp4: H.264, which every browser plays. Pictures are not kept."""

    def __init__(self, rate: float) -> None:
        try:
            import av  # noqa: F401
        except ImportError:
            raise VideoError(
                f".mp4 needs the package av, which is not installed; {installing('train', 'video')}, or name "
                "a .gif or .webp"
            ) from None
        self._rate = rate
        self._container: Any = None
        self._stream: Any = None

    def add(self, path: Path, picture: NDArray[np.uint8]) -> None:
        import av

        # Colours have half of a picture's height and width, so both are even.
        rows, columns = picture.shape[0] % 2, picture.shape[1] % 2
        picture = np.pad(picture, ((0, rows), (0, columns), (0, 0)), "edge")
        if self._container is None:
            self._container = av.open(str(path), "w", options={"movflags": "faststart"})
            rate = Fraction(self._rate).limit_denominator(1000)
            self._stream = self._container.add_stream("libx264", rate=rate)
            self._stream.height, self._stream.width = picture.shape[:2]
            self._stream.pix_fmt = "yuv420p"
        for packet in self._stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
            self._container.mux(packet)

    def close(self, _path: Path) -> None:
        for packet in self._stream.encode():
            self._container.mux(packet)
        self._container.close()

    def drop(self) -> None:
        if self._container is not None:
            self._container.close()
