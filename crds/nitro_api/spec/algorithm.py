"""spec.algorithm: how the policies learn."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from nitro_api.algorithms.record import AlgorithmRecord, OptionalTensor
from nitro_api.algorithms.registry import (
    RECORDS,
    AlgorithmName,
    AnyHyperparameters,
    PresetName,
    TeamAlgorithmName,
    TeamHyperparameters,
    described,
)
from nitro_api.base import WITHOUT_RULES, Model
from nitro_api.spec.free_json import FreeJson, with_floats


def _as_written(settings: Any) -> Any:
    return settings.to_dict() if isinstance(settings, Model) else settings


class AgentsAlgorithm(Model):
    """What some of the agents learn by."""

    agents: Annotated[str, Field(min_length=1, max_length=64)]
    """Which agents, by their names in the environment: * stands for any text, ? for one character, such as
    adversary_*. Each agent may be among those of one entry only; those of no entry learn by
    spec.algorithm.name."""

    name: TeamAlgorithmName
    """Their algorithm, one of several agents."""

    hyperparameters: Annotated[TeamHyperparameters, BeforeValidator(_as_written)] = Field(
        default_factory=TeamHyperparameters
    )
    """Settings that differ from what spec.algorithm.preset has for this algorithm."""

    @property
    def record(self) -> AlgorithmRecord:
        """The record of the algorithm with that name."""
        return RECORDS[self.name]

    @model_validator(mode="after")
    def _narrow(self, info: ValidationInfo) -> Self:
        """Turn the settings into the algorithm's own model. The rules have already refused other settings."""
        if info.context != WITHOUT_RULES:
            self.hyperparameters = self.record.hyperparameters.model_validate(self.hyperparameters.to_dict())
        return self


class Algorithm(Model):
    """The learning algorithm."""

    name: AlgorithmName = Field("ppo", description=f"The algorithm. {described(RECORDS)}. Default: ppo.")

    preset: PresetName = "tuned"
    """Where values that the job leaves out come from: `paper` has the settings of the Nitro paper's
    experiments, `tuned` settings that reach a higher reward sooner, `artifact` those of the authors' released
    code, where it differs from the paper (impact only). Default: tuned."""

    hyperparameters: Annotated[AnyHyperparameters, BeforeValidator(_as_written)] = Field(
        default_factory=AnyHyperparameters
    )
    """Settings that differ from the preset."""

    rllib: Annotated[dict[str, Any], Field(max_length=128), FreeJson(levels=6)] | None = None
    """RLlib's settings, by the names that its config's `training()` has: lr, num_epochs, clip_param, ... They
    are checked when the learner starts, and by `nitro validate` where RLlib is installed. Only with a name
    that begins with `rllib/`. Any JSON of at most 6 levels of mappings and lists, rllib itself the first.
    Default: `paper` has RLlib's own defaults, but steps on whole batches; `tuned` RLlib's own settings for
    MuJoCo; what neither names is as RLlib has it."""

    entry_point: Annotated[str, Field(min_length=3, max_length=253)] | None = None
    """Algorithm of your own as `module:Class`. It has the methods of OnPolicyLearner or OffPolicyLearner in
    nitro_learner.algorithms.base; `name` says which, and whose presets and hyperparameters it has. A subclass
    of nitro_learner.algorithms.own.OwnPpo needs a loss only. Or it is a training loop as `module:function`,
    of the parameters (sampler, run). The module must be importable in the learner's image. Only with
    algorithms of one agent that are not RLlib's. Default: none."""

    settings: (
        Annotated[dict[str, Any], Field(max_length=64), FreeJson(levels=2), AfterValidator(with_floats)]
        | None
    ) = None
    """Keyword arguments of what entryPoint names, behind those that it gets by place: JSON as in
    scaling.settings. Only with entryPoint. Default: none."""

    policies: Annotated[list[AgentsAlgorithm], Field(min_length=1, max_length=16)] | None = None
    """Agents that learn by another algorithm, or with other settings, than the rest. Only with algorithms of
    several agents. Default: all agents learn by `name`."""

    team_reward: bool | None = None
    """Whether agents that learn by one algorithm learn from the sum of all their rewards, each from the same.
    Only with algorithms of several agents. Default: false with them."""

    @property
    def record(self) -> AlgorithmRecord:
        """The record of the algorithm with that name."""
        return RECORDS[self.name]

    @property
    def title(self) -> str:
        """The algorithm, for people: its name, and before it the user's own class."""
        return f"{self.entry_point} on {self.name}" if self.entry_point else self.name

    @property
    def records(self) -> tuple[AlgorithmRecord, ...]:
        """The record of `name`, and those of the entries of `policies`."""
        return (self.record, *(entry.record for entry in self.policies or ()))

    @property
    def tensors(self) -> frozenset[OptionalTensor]:
        """The optional tensors that all of the algorithms need in a fragment."""
        return frozenset().union(*(record.tensors for record in self.records))

    @property
    def anneals(self) -> bool:
        """Whether a setting changes over spec.stop.rounds, so that a run of fewer rounds is another run."""
        return any(holder.hyperparameters.anneals for holder in (self, *(self.policies or ())))

    @model_validator(mode="after")
    def _narrow(self, info: ValidationInfo) -> Self:
        """Turn the settings into the algorithm's own model. The rules have already refused other settings."""
        if info.context != WITHOUT_RULES:
            self.hyperparameters = self.record.hyperparameters.model_validate(self.hyperparameters.to_dict())
        return self
