"""Algorithms of the user's own, which spec.algorithm.entryPoint names. `OwnPpo` is a base for them: PPO with
another loss."""

from nitro_learner.algorithms.own.ppo import OwnPpo
from nitro_learner.algorithms.ppo.samples import Samples

__all__ = ["OwnPpo", "Samples"]
