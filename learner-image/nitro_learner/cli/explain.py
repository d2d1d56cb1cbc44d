"""Documentation of every field of a job, from the models themselves.

On a terminal lines are wrapped to its width. In a pipe or a file each text is one line.

examples:
  nitro explain                        # the top
  nitro explain spec.scaling           # one object
  nitro explain spec.scaling.decay     # one field
"""

import argparse
import shutil
import sys

from nitro_api.schema.explain import explain
from nitro_learner.cli.exits import DONE, CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("field", nargs="?", default="", help="path such as spec.scaling.decay")


def run(arguments: argparse.Namespace) -> int:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    try:
        print(explain(arguments.field, width))
    except (KeyError, ValueError) as error:
        raise CommandError(str(error).strip("'\"")) from None
    return DONE
