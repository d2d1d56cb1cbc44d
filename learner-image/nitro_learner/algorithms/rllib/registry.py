"""RLlib's algorithms by spec.algorithm.name."""

from nitro_learner.algorithms.rllib.impala import RllibAppo, RllibImpala
from nitro_learner.algorithms.rllib.ppo import RllibPpo

ALGORITHMS = {"rllib/ppo": RllibPpo, "rllib/appo": RllibAppo, "rllib/impala": RllibImpala}
