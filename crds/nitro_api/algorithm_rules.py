"""The rules across the fields of spec.algorithm."""

from __future__ import annotations

from nitro_api.algorithm import Algorithm, PpoHyperparameters
from nitro_api.base import Rule, declare

_UNSET = " && ".join(
    f"!has(self.hyperparameters.{field.alias})" for field in PpoHyperparameters.model_fields.values()
)

declare(
    Algorithm,
    Rule(
        path="rllib",
        cel="!has(self.rllib) || self.name.startsWith('rllib/')",
        sentence="is only allowed with a name that begins with rllib/; remove it or change the name",
        holds=lambda algorithm: algorithm.rllib is None or algorithm.name.startswith("rllib/"),
    ),
    Rule(
        path="hyperparameters",
        cel=f"!self.name.startsWith('rllib/') || !has(self.hyperparameters) || ({_UNSET})",
        sentence="is not for the algorithms of RLlib; move the settings to rllib, under RLlib's names",
        holds=lambda algorithm: (
            not algorithm.name.startswith("rllib/") or algorithm.hyperparameters.to_dict() == {}
        ),
    ),
)
