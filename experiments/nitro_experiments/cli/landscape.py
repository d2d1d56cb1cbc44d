"""Draw the landscape around a run's policy: return and surrogate on the plane of the two Hessian
eigenvectors whose eigenvalues make R (figures 3 and 8 of the paper).

The round is repeated from the checkpoint before it, so R is the one that the run's detector saw (except with
IMPACT, whose rounds cannot be repeated exactly). Returns come from real episodes by mean actions; every point
plays the same ones. Nothing in the run folder is changed but for landscape/, which gets a picture and a CSV.

examples:
  nitro landscape runs/hopper-20260101-120000                      # the newest round that can be repeated
  nitro landscape runs/hopper-20260101-120000 --round 4 --points 31 --episodes 4
  nitro landscape runs/hopper-20260101-120000 --span 0.3
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import check_picture, read_run, some_path, writing
from nitro_learner.cli.exits import DONE, FAILED, CommandError

if TYPE_CHECKING:
    from nitro_api import ResolvedJob
    from nitro_experiments.studies.landscape import Landscape
    from nitro_learner.run.rundir import RunDir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=some_path, help="run folder")
    parser.add_argument(
        "--round",
        metavar="K",
        default="newest",
        help="the policy after this round: a number, newest, or lowest, median or highest (by R); "
        "default: newest",
    )
    parser.add_argument("--points", type=int, default=15, metavar="N", help="points per axis; default: 15")
    parser.add_argument(
        "--span", type=float, default=1.0, metavar="S", help="the axes reach from -S to S; default: 1"
    )
    parser.add_argument("--episodes", type=int, default=2, metavar="N", help="episodes per point; default: 2")
    parser.add_argument(
        "--out",
        type=some_path,
        metavar="F",
        help="the picture (.png, .svg or .pdf), the CSV goes beside it; default: in RUN/landscape",
    )


def run(arguments: argparse.Namespace) -> int:
    for name, least in (("points", 3), ("episodes", 1)):
        if getattr(arguments, name) < least:
            raise CommandError(f"--{name} {getattr(arguments, name)}: at least {least}")
    check_picture(arguments.out)
    if not 0 < arguments.span < float("inf"):
        raise CommandError(f"--span {arguments.span}: must be above 0")
    folder, job = read_run(arguments.run)
    # Imported only now: they load torch, which takes seconds.
    from nitro_experiments.studies.landscape_picture import draw
    from nitro_learner.run import logs
    from nitro_learner.run.rundir import write_text
    from nitro_learner.training.failures import TrainingFailed, as_training_failure

    interrupts.orderly()
    if arguments.out:
        _check_table(arguments.out.with_suffix(".csv"))
    logs.configure(structured=False)
    try:
        with as_training_failure():
            landscape = asyncio.run(_survey(folder, job, arguments))
    except (TrainingFailed, ValueError) as error:
        raise CommandError(str(error), FAILED) from None
    picture = arguments.out or folder.path / "landscape" / f"round-{landscape.round:06d}.png"
    table = picture.with_suffix(".csv")
    with writing("--out", picture, "Name a file that you may write."):
        picture.parent.mkdir(parents=True, exist_ok=True)
        write_text(table, landscape.csv())
        draw(landscape, f"{job.metadata.name}: {job.spec.environment.id}", picture)
    ratio = "none" if landscape.ratio is None else f"{landscape.ratio:.4g}"
    print(
        f"round {landscape.round}: R {ratio}, eigenvalues {landscape.lambda_min:.4g} to "
        f"{landscape.lambda_max:.4g}, returns {landscape.returns.min():.1f} to "
        f"{landscape.returns.max():.1f}\npicture: {picture}\ntable: {table}"
    )
    return DONE


def _check_table(table: Path) -> None:
    """Make sure that the CSV, which --out does not name itself, replaces no other table."""
    from nitro_experiments.studies.landscape import TABLE

    if table.exists() and not table.read_bytes().startswith(",".join(TABLE).encode()):
        raise CommandError(
            f"--out: its table would replace {table}, which is no landscape's; name another picture"
        )


async def _survey(folder: RunDir, job: ResolvedJob, arguments: argparse.Namespace) -> Landscape:
    from nitro_experiments.studies.landscape import survey
    from nitro_experiments.studies.probe import opened

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done}/{total} points", end="\n" if done == total else "", file=sys.stderr, flush=True)

    async with opened(folder, job, _round(folder, arguments.round)) as probe:
        return await survey(
            probe,
            points=arguments.points,
            span=arguments.span,
            episodes=arguments.episodes,
            progress=progress,
        )


def _round(folder: RunDir, wanted: str) -> int:
    """The number of a round that can be repeated."""
    from nitro_experiments.studies.probe import repeatable
    from nitro_learner.run.metrics_file import read_metrics
    from nitro_learner.run.rundir import RunDirError

    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    possible = repeatable(folder)
    if wanted == "newest":
        return max(possible, default=1)
    places = {"lowest": 0.0, "median": 0.5, "highest": 1.0}
    if wanted not in places:
        raise CommandError(f"--round {wanted}: must be a number from 1, newest, lowest, median or highest")
    ratios = {int(row["round"] or 0): row["convexity_ratio"] for row in read_metrics(folder.metrics)}
    ranked = sorted((ratio, number) for number in possible if (ratio := ratios.get(number)) is not None)
    if not ranked:
        raise RunDirError(
            f"{folder.path}: no round that can be repeated has an R. Train with scaler nitro and "
            "--set spec.learner.checkpoint.keepLast=1000."
        )
    return ranked[round(places[wanted] * (len(ranked) - 1))][1]
