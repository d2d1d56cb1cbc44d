"""Videos: of what draws itself, of MuJoCo without a display, and what is said where there is none."""

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import av
import gymnasium
import numpy as np
import pytest
from pettingzoo import ParallelEnv
from PIL import Image

from learner_environments import TwoState
from nitro_actor.make_env import make_env
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import NitroTrainingJob, load_job, resolve
from nitro_learner.algorithms import registry
from nitro_learner.checkpoints.store import Checkpoint
from nitro_learner.studies import video
from nitro_learner.studies.filming import film
from nitro_learner.studies.playing import config_of
from nitro_learner.studies.video import VideoError


class Drawn(TwoState):
    """Ten steps of grey pictures, the state's number their shade."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None, depth: int = 3) -> None:
        self.render_mode = render_mode
        self._depth = depth

    def step(self, action: Any) -> Any:
        *result, _, info = super().step(action)
        return *result, self._steps >= 10, info

    def render(self) -> Any:
        return np.full((8, 16, 3), 20 * self._steps, np.uint8) if self._depth else None


class Meeting(ParallelEnv[str, Any, Any]):
    """Two agents meet for four steps; each gets 1 a step. It draws what it is told to."""

    metadata: ClassVar = {"name": "meeting"}
    possible_agents: ClassVar = ["a_0", "a_1"]  # type: ignore[misc]

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._steps = 0

    def observation_space(self, agent: str) -> Any:  # noqa: ARG002
        return gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:  # noqa: ARG002
        return gymnasium.spaces.Discrete(2)

    def _all(self, value: Any) -> Any:
        return dict.fromkeys(self.possible_agents, value)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        self.agents, self._steps = list(self.possible_agents), 0
        return self._all(np.zeros(2, np.float32)), self._all({})

    def step(self, actions: Any) -> Any:  # noqa: ARG002
        self._steps += 1
        over = self._all(self._steps == 4)
        return self._all(np.zeros(2, np.float32)), self._all(1.0), self._all(False), over, self._all({})

    def render(self) -> Any:
        return np.full((8, 16, 3), 20 * self._steps, np.uint8)


class Unseen(Meeting):
    """A meeting that draws nothing."""

    def __init__(self) -> None:
        super().__init__()


def job(algorithm: str = "ppo", **environment: Any) -> NitroTrainingJob:
    manifest = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "film"},
        "spec": {"environment": {"id": "film", **environment}, "algorithm": {"name": algorithm}},
    }
    return resolve(load_job(manifest))


def untrained(spec: NitroTrainingJob) -> Checkpoint:
    environment = make_env(config_of(spec.spec, 1))
    policies = registry.make_policies(spec.spec, DescribedEnvironment.from_json(environment.spec.to_json()))
    environment.close()
    return Checkpoint(0, {"policies": policies.state_dict()}, Path("none"))


def pictures(path: Path) -> list[tuple[int, int]]:
    with Image.open(path) as image:
        return [image.size] * getattr(image, "n_frames", 1)


def test_every_step_is_a_picture(tmp_path: Path) -> None:
    spec = job(entryPoint="test_film:Drawn")
    filmed = film(spec.spec, untrained(spec), tmp_path / "videos" / "drawn.webp")
    assert (filmed.steps, filmed.ended) == (10, True)
    assert pictures(tmp_path / "videos" / "drawn.webp") == [(16, 8)] * 10


def frames(path: Path) -> list[np.ndarray]:
    """The pictures of a .mp4, as they are played."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_an_mp4_shows_the_pictures_of_the_episode(tmp_path: Path) -> None:
    spec, told = job(entryPoint="test_film:Drawn"), []
    filmed = film(spec.spec, untrained(spec), tmp_path / "drawn.mp4", told.append)
    assert (filmed.steps, filmed.ended) == (10, True)
    assert told == list(range(1, 11))
    shades = [picture.mean() for picture in frames(tmp_path / "drawn.mp4")]
    np.testing.assert_allclose(shades, [20 * step for step in range(1, 11)], atol=6)  # H.264 loses a little
    assert list(tmp_path.iterdir()) == [tmp_path / "drawn.mp4"]


class Odd(Drawn):
    """Pictures of odd height and width, many a second."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 120}

    def render(self) -> Any:
        return np.full((7, 15, 3), 20 * self._steps, np.uint8)


def test_of_many_steps_a_second_only_some_are_drawn_the_last_one_among_them(tmp_path: Path) -> None:
    spec = job(entryPoint="test_film:Odd")
    filmed = film(spec.spec, untrained(spec), tmp_path / "odd.mp4")
    assert (filmed.steps, filmed.ended) == (10, True)
    shades = [picture.mean() for picture in frames(tmp_path / "odd.mp4")]
    np.testing.assert_allclose(shades, [20 * step for step in (1, 5, 9, 10)], atol=6)
    with av.open(str(tmp_path / "odd.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.width, stream.height) == (30, 16, 8)


class Failing(Drawn):
    """Its fourth picture cannot be drawn."""

    def render(self) -> Any:
        if self._steps == 4:
            raise RuntimeError("no light")
        return super().render()


@pytest.mark.parametrize("suffix", video.SUFFIXES)
def test_a_video_that_fails_leaves_no_file(tmp_path: Path, suffix: str) -> None:
    spec = job(entryPoint="test_film:Failing")
    with pytest.raises(RuntimeError, match="no light"):
        film(spec.spec, untrained(spec), tmp_path / f"failing{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_without_its_package_mp4_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    spec = job(entryPoint="test_film:Drawn")
    with pytest.raises(
        VideoError, match=r"needs the package av.*learner-image\[train,video\]'.*or name a .gif"
    ):
        film(spec.spec, untrained(spec), tmp_path / "drawn.mp4")
    with pytest.raises(VideoError, match=r"drawn.avi: a video's name ends in .mp4, .gif, .webp"):
        film(spec.spec, untrained(spec), tmp_path / "drawn.avi")


@pytest.mark.skipif(sys.platform != "linux", reason="only there SDL looks for a screen")
def test_nothing_is_said_about_a_screen_that_is_not_there(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in DISPLAYS}
    environment.pop("XDG_RUNTIME_DIR", None)
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    program = "import sys, test_film; test_film.film_cartpole(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "cartpole.mp4"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(frames(tmp_path / "cartpole.mp4")) > 2


def film_cartpole(path: str) -> None:
    """An untrained CartPole."""
    spec = job(id="CartPole-v1")
    film(spec.spec, untrained(spec), Path(path))


@pytest.mark.parametrize(
    ("environment", "size", "steps"),
    [
        ({"id": "mpe2/simple_spread_v3", "kwargs": {"N": 2, "max_cycles": 6}}, (400, 400), 6),
        ({"entryPoint": "test_film:Meeting"}, (16, 8), 4),
    ],
)
def test_several_agents_are_filmed(
    tmp_path: Path, environment: dict[str, Any], size: tuple[int, int], steps: int
) -> None:
    spec = job("ippo", **environment)
    filmed = film(spec.spec, untrained(spec), tmp_path / "team.webp")
    assert (filmed.steps, filmed.ended) == (steps, True)
    assert pictures(tmp_path / "team.webp") == [size] * steps
    if size == (16, 8):
        assert filmed.total == 8.0, "the return is the sum over both agents"


def test_several_agents_that_nothing_draws_are_reported(tmp_path: Path) -> None:
    spec = job("ippo", entryPoint="test_film:Unseen")
    with pytest.raises(VideoError, match=r"cannot be drawn with .* render_mode: rgb_array .*TypeError"):
        film(spec.spec, untrained(spec), tmp_path / "none.gif")


@pytest.mark.slow
def test_a_game_needs_no_renderer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "MOST_STEPS", 5)
    spec = job(id="ALE/SpaceInvaders-v5")
    filmed = film(spec.spec, untrained(spec), tmp_path / "game.gif")
    assert (filmed.steps, filmed.ended) == (5, False)
    assert set(pictures(tmp_path / "game.gif")) == {(160, 210)}


DISPLAYS = ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY", "PYOPENGL_PLATFORM", "SDL_VIDEODRIVER")


def film_hopper(path: str) -> None:
    """Eight steps of an untrained Hopper, of which every fourth is a picture."""
    video.MOST_STEPS = 8  # type: ignore[misc]
    spec = job(id="Hopper-v5")
    film(spec.spec, untrained(spec), Path(path))


def without_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DISPLAYS:
        monkeypatch.setenv(name, "")  # so that what the code sets is undone
        monkeypatch.delenv(name)


@pytest.mark.slow
@pytest.mark.skipif(
    not (ctypes.util.find_library("EGL") or ctypes.util.find_library("OSMesa")),
    reason="neither EGL nor OSMesa is installed",
)
def test_mujoco_is_drawn_without_a_display(tmp_path: Path) -> None:
    # In a process of its own: Mesa brings an LLVM, and triton's, which torch loads later, crashes beside it.
    environment = {name: value for name, value in os.environ.items() if name not in DISPLAYS}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    program = "import sys, test_film; test_film.film_hopper(sys.argv[1])"
    path = tmp_path / "hopper.gif"
    subprocess.run([sys.executable, "-c", program, path], env=environment, check=True, timeout=300)
    assert pictures(path) == [(480, 480)] * 2


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [({"EGL", "OSMesa"}, "egl"), ({"OSMesa"}, "osmesa"), (set(), None)],
)
def test_a_renderer_is_chosen_where_there_is_no_display(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], chosen: str | None
) -> None:
    without_display(monkeypatch)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: name if name in installed else None)
    video.choose_renderer()
    assert os.environ.get("MUJOCO_GL") == chosen


def test_a_display_or_a_choice_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    without_display(monkeypatch)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: name)
    monkeypatch.setenv("DISPLAY", ":0")
    video.choose_renderer()
    assert "MUJOCO_GL" not in os.environ


def test_without_a_renderer_the_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no context")

    monkeypatch.setattr(gymnasium, "make", broken)
    spec = job(id="Hopper-v5")
    with pytest.raises(VideoError, match=r"no context\).*apt-get install libegl1 libgl1-mesa-dri"):
        film(spec.spec, untrained(spec), tmp_path / "none.gif")


def test_an_environment_that_cannot_be_filmed_is_reported(tmp_path: Path) -> None:
    spec = job(entryPoint="test_film:Drawn", kwargs={"depth": 0})
    with pytest.raises(VideoError, match="draws nothing"):
        film(spec.spec, untrained(spec), tmp_path / "a.gif")
