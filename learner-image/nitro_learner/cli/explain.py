"""Documentation of every field of a job, from the models themselves.

examples:
  nitro explain                        # the top
  nitro explain spec.scaling           # one object
  nitro explain spec.scaling.decay     # one field
"""

from __future__ import annotations

import argparse

from nitro_api.explain import explain
from nitro_learner.cli.common import DONE, CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("field", nargs="?", default="", help="path such as spec.scaling.decay")


def run(arguments: argparse.Namespace) -> int:
    try:
        print(explain(arguments.field))
    except (KeyError, ValueError) as error:
        raise CommandError(str(error).strip("'\"")) from None
    return DONE
