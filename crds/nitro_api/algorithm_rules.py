"""The rules across the fields of spec.algorithm."""

from __future__ import annotations

from nitro_api.algorithm import ONLY, Algorithm, Hyperparameters
from nitro_api.base import Rule, declare

_UNSET = " && ".join(
    f"!has(self.hyperparameters.{field.alias})" for field in Hyperparameters.model_fields.values()
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
    Rule(
        path="preset",
        cel="self.preset != 'artifact' || self.name == 'impact'",
        sentence="must be paper or tuned, as artifact is for impact; choose one or set name: impact",
        holds=lambda algorithm: algorithm.preset != "artifact" or algorithm.name == "impact",
    ),
    *(
        Rule(
            path=f"hyperparameters.{field}",
            cel=f"self.name != '{other}' || !has(self.hyperparameters) || !has(self.hyperparameters.{field})",
            sentence=f"is a setting of {owner}, which {other} does not have; remove it or set name: {owner}",
            holds=lambda algorithm, other=other, field=field: (  # type: ignore[misc]
                algorithm.name != other or field not in algorithm.hyperparameters.to_dict()
            ),
        )
        for owner, other in (("ppo", "impact"), ("impact", "ppo"))
        for field in ONLY[owner]
    ),
)
