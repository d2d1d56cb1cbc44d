"""Play episodes with the policy of a run, by mean (or most likely) actions, and print mean, std, min and
max. Of several agents these are of the sum over all of them; the means of each class of agents, such as one
side of a game, and of each agent follow.

Equal calls play equal episodes. They are none of those that were played during training.

Videos of MuJoCo's environments need OpenGL. A machine without a display has it, with or without a GPU, after
`apt-get install libegl1 libgl1-mesa-dri` (Debian, Ubuntu), or with libosmesa6. Atari games and the particle
worlds of several agents need nothing.

examples:
  nitro evaluate runs/hopper-20260101-120000
  nitro evaluate runs/hopper-20260101-120000 --episodes 100 --json
  nitro evaluate runs/hopper-20260101-120000 --checkpoint 120
  nitro evaluate runs/hopper-20260101-120000 --best
  nitro evaluate runs/hopper-20260101-120000 --video hopper.mp4
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping

from nitro_learner.cli.common import add_checkpoint, checkpoint_of, read_job, some_path, writing
from nitro_learner.cli.exits import DONE, FAILED, CommandError

# All of them are played one after the other, and each return is kept.
_MOST_EPISODES = 100_000
_VIDEOS = (".mp4", ".gif", ".webp")
_TOLD_SECONDS = 2.0
"""Time between two messages of how far a video is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=some_path, help="run folder")
    parser.add_argument("--episodes", type=int, default=20, metavar="N", help="episodes to play; default: 20")
    add_checkpoint(parser, "")
    parser.add_argument(
        "--video", type=some_path, metavar="F", help="write a video of one episode (.mp4, .gif or .webp)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run(arguments: argparse.Namespace) -> int:
    from nitro_learner.run.rundir import RunDir

    if not 1 <= arguments.episodes <= _MOST_EPISODES:
        raise CommandError(f"--episodes {arguments.episodes}: at least 1, at most {_MOST_EPISODES}")
    if arguments.video and arguments.video.suffix not in _VIDEOS:
        raise CommandError(
            f"--video {arguments.video}: must end in {', '.join(_VIDEOS[:-1])} or {_VIDEOS[-1]}"
        )
    folder = RunDir(arguments.run)
    if not folder.job.exists():
        raise CommandError(f"{folder.path} is no run folder (it has no job.yaml)")
    job = read_job(folder.job, [])
    # Imported only now: they load torch, which takes seconds.
    from nitro_actor.config import EnvironmentConfigError
    from nitro_actor.engines.base import EnvironmentCallError
    from nitro_learner.algorithms.base import StateMisfit
    from nitro_learner.checkpoints.store import CheckpointError, CheckpointStore, load
    from nitro_learner.networks.architecture import NetworkMisfit
    from nitro_learner.sampling.evaluation import cut_warning
    from nitro_learner.studies.filming import film
    from nitro_learner.studies.playing import find_own, play
    from nitro_learner.studies.video import VideoError

    store = CheckpointStore(folder.checkpoints, keep_last=1)
    try:
        file = checkpoint_of(folder, arguments.checkpoint, best=arguments.best)
        checkpoint = load(file) if file else store.latest()
    except CheckpointError as error:
        raise CommandError(str(error), FAILED) from None
    if checkpoint is None:
        raise CommandError(f"{folder.path} has no checkpoint yet")
    find_own(job.spec)
    try:
        played = play(job.spec, checkpoint, arguments.episodes)
    except EnvironmentConfigError as error:
        raise CommandError(str(error)) from None
    except StateMisfit as error:
        raise CommandError(f"{checkpoint.path} is not of this job: {error}", FAILED) from None
    except (EnvironmentCallError, NetworkMisfit) as error:
        raise CommandError(str(error), FAILED) from None
    returns, lengths = played.returns, played.lengths
    if warning := cut_warning(lengths):
        print(f"nitro evaluate: warning: {warning}", file=sys.stderr)
    result = {
        "round": checkpoint.round,
        "episodes": len(returns),
        "mean": float(returns.mean()),
        "std": float(returns.std()),
        "min": float(returns.min()),
        "max": float(returns.max()),
        "meanLength": float(lengths.mean()),
        "returns": returns.tolist(),
    }
    several = len(played.agent_means) > 1
    if several:
        result |= {"agents": dict(played.agent_means), "classes": dict(played.class_means)}
    if arguments.json:
        print(json.dumps(result))
    else:
        print(
            f"round {checkpoint.round}, {len(returns)} episodes: mean {result['mean']:.1f}, "
            f"std {result['std']:.1f}, min {result['min']:.1f}, max {result['max']:.1f}, "
            f"mean length {result['meanLength']:.0f}"
        )
        if several:
            print(f"mean of each class's sum: {_listed(played.class_means)}")
            print(f"mean of each agent: {_listed(played.agent_means)}")
    if arguments.video:
        try:
            with writing("--video", arguments.video, "Name a file that you may write."):
                filmed = film(job.spec, checkpoint, arguments.video, _told())
        except VideoError as error:
            raise CommandError(f"no video: {error}", FAILED) from None
        of = "" if filmed.ended else f" of the first {filmed.steps:,} steps of an episode"
        print(
            f"video: {arguments.video} (return {filmed.total:.1f}{of})",
            file=sys.stderr if arguments.json else sys.stdout,
        )
    return DONE


def _told() -> Callable[[int], None]:
    """Says on stderr how far a video is, from time to time."""
    last = time.monotonic()

    def tell(steps: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _TOLD_SECONDS:
            last = time.monotonic()
            print(f"nitro evaluate: {steps:,} steps are drawn", file=sys.stderr, flush=True)

    return tell


def _listed(means: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {mean:.1f}" for name, mean in means.items())
