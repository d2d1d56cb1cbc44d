"""What the presets of all algorithms for several agents have in common: the size of a round."""

from __future__ import annotations

from nitro_api.algorithms.record import Rows

# fmt: off
ROUNDS: Rows = (
    # path below spec                  paper         tuned
    ("environment.rolloutLength",      100,          100),
    ("environment.envsPerActor",       4,            4),
    ("network.hiddenSizes",            [64, 64],     [64, 64]),
    ("network.logStd",                 "state",      "parameter"),
    ("evaluation.everyRounds",         10,           10),
    ("stop.rounds",                    100,          100),
    ("scaling.minActors",              10,           10),
    ("scaling.maxActors",              50,           40),
    ("scaling.initialActors",          50,           40),
)
# fmt: on
"""`paper` has the MARLess paper's numbers of actors; `tuned` 4,000 steps a round at most."""
