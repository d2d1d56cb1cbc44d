"""`python -m nitro_learner` is the `nitro` command."""

import sys

from nitro_learner.cli import main

sys.exit(main())
