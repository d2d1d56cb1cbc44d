"""Draw a run folder: return, boosting score, actors and cost, over environment steps and over time.

Several folders are compared. Runs of one job become one curve, mean and one standard deviation: they may
differ in spec.seed, spec.backend, spec.actor, spec.learner, spec.suspend and spec.stop. Runs of different
spec.stop.rounds are curves of their own where training depends on it, as with learningRateAnneal. Each
environment has its own panel of returns.

examples:
  nitro plot runs/hopper-20260101-120000                    # writes result.png into it
  nitro plot runs/nitro-* runs/fixed-* --out compared.png
  nitro plot runs/nitro-* runs/fixed-* --x dollars          # what the same money buys
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nitro_learner.cli.common import check_picture, distinct, some_path, unnamed, writing
from nitro_learner.cli.exits import DONE, CommandError
from nitro_learner.views.plot_axes import X_AXES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=some_path, nargs="+", help="run folder")
    parser.add_argument(
        "--x",
        choices=tuple(X_AXES),
        default=next(iter(X_AXES)),
        help="x axis of the left column; that of the right one is time (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=some_path,
        help="picture (.png, .svg or .pdf); default: result.png in the folder, compared.png for several",
    )


def run(arguments: argparse.Namespace) -> int:
    check_picture(arguments.out)
    from nitro_learner.run.rundir import RunDir, RunDirError
    from nitro_learner.views.plot import draw_curves
    from nitro_learner.views.plot_groups import group, read_run, same_seeds

    runs = distinct(arguments.run)
    out = arguments.out or (runs[0] / "result.png" if len(runs) == 1 else unnamed(Path("compared.png")))
    try:
        groups = group([read_run(RunDir(path)) for path in runs])
        for message in same_seeds(groups.values()):
            print(f"nitro: {message}", file=sys.stderr)
        with writing("--out", out, "Name a file that you may write."):
            print(draw_curves(groups, out, arguments.x))
    except RunDirError as error:
        raise CommandError(str(error)) from None
    return DONE
