"""Compile the programs of all maps, as an image's build does: `python -m nitro_actor.agents.smax COPIES`."""

import sys

import numpy as np

from nitro_actor.agents.smax import MAPS
from nitro_actor.agents.smax.engine import SmaxEngine

for count in sys.argv[1:]:
    for name in MAPS:
        engine = SmaxEngine(name, int(count))
        engine.reset(range(engine.count))
        engine.step({"ally": np.zeros(engine.alive["ally"].shape, np.int64)})
