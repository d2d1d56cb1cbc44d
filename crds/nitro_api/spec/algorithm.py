"""spec.algorithm: how the policy learns."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from nitro_api.algorithms.record import AlgorithmRecord
from nitro_api.algorithms.registry import RECORDS, AlgorithmName, AnyHyperparameters, PresetName, described
from nitro_api.base import WITHOUT_RULES, Model
from nitro_api.spec.free_json import FreeJson


class Algorithm(Model):
    """The learning algorithm."""

    name: AlgorithmName = Field("ppo", description=f"The algorithm. {described(RECORDS)}. Default: ppo.")

    preset: PresetName = "tuned"
    """Where values that the job leaves out come from: `paper` has the settings of the Nitro paper's
    experiments, `tuned` settings that reach a higher reward sooner, `artifact` those of the authors' released
    code, where it differs from the paper (impact only). Default: tuned."""

    hyperparameters: AnyHyperparameters = Field(default_factory=AnyHyperparameters)
    """Settings that differ from the preset."""

    rllib: Annotated[dict[str, Any], Field(max_length=128), FreeJson()] | None = None
    """RLlib's settings, by the names that its config's `training()` has: lr, num_epochs, clip_param, ... They
    are checked when the learner starts, and by `nitro validate` where RLlib is installed. Only with a name
    that begins with `rllib/`. Any JSON of at most 8 levels of mappings and lists, rllib itself the first.
    Default: `paper` has RLlib's own defaults, but steps on whole batches; `tuned` RLlib's own settings for
    MuJoCo; what neither names is as RLlib has it."""

    @property
    def record(self) -> AlgorithmRecord:
        """What is known of the algorithm of that name."""
        return RECORDS[self.name]

    @field_validator("hyperparameters", mode="before")
    @classmethod
    def _written(cls, value: Any) -> Any:
        return value.to_dict() if isinstance(value, Model) else value

    @model_validator(mode="after")
    def _narrow(self, info: ValidationInfo) -> Self:
        """Keep the settings as the algorithm's own model, once the rules have let no others pass."""
        if info.context != WITHOUT_RULES:
            own = self.record.hyperparameters
            self.hyperparameters = own.model_validate(self.hyperparameters.to_dict())
        return self
