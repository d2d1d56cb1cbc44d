"""Draws a run folder: reward, boosting score, actors and cost, over rounds and over time.

Several folders are compared: runs that differ in their seed only become one curve, mean and one standard
deviation.

examples:
  nitro plot runs/hopper-20260101-120000                    # writes result.png into it
  nitro plot runs/nitro-* runs/fixed-* --out compared.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nitro_learner.cli.common import DONE, CommandError, check_picture, distinct


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, nargs="+", help="run folder")
    parser.add_argument(
        "--out",
        type=Path,
        help="picture (.png, .svg or .pdf); default: result.png in the folder, compared.png for several",
    )


def run(arguments: argparse.Namespace) -> int:
    check_picture(arguments.out)
    from nitro_learner.plot import draw
    from nitro_learner.rundir import RunDirError

    runs = distinct(arguments.run)
    out = arguments.out or (runs[0] / "result.png" if len(runs) == 1 else Path("compared.png"))
    try:
        print(draw(runs, out))
    except RunDirError as error:
        raise CommandError(str(error)) from None
    return DONE
