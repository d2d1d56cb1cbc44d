"""Price lists: what other machines would charge, and how long they would take, for `--prices FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, ValidationError

from nitro_api import FieldError, JobInvalid, ResolvedJob
from nitro_api.base import Model
from nitro_api.loading import yamlfile
from nitro_api.resolution.presets import preset_values
from nitro_api.schema.openapi import schema_of
from nitro_api.schema.wording import located_errors, value_at
from nitro_api.spec.pricing import GivenPricing, Pricing
from nitro_experiments.reading.curves import Floats

_DECISIVE = (
    "network.hiddenSizes",
    "algorithm.hyperparameters.epochs",
    "algorithm.hyperparameters.minibatchSize",
)
"""What decides, below spec, how long an update of a number of transitions takes. Convolutions have other
hidden sizes, too."""

_Text = Annotated[str, Field(min_length=1, max_length=2000)]
_Seconds = Annotated[list[Annotated[float, Field(ge=0, le=1e6)]], Field(min_length=2, max_length=100)]


class LearnerSeconds(Model):
    """How long a learner takes for batches of several sizes, as tests/benchmarks/bench_price_list.py writes
    it."""

    algorithm: _Text
    """As spec.algorithm.name."""

    preset: _Text
    """As spec.algorithm.preset."""

    transitions: Annotated[list[Annotated[int, Field(ge=1, le=10**9)]], Field(min_length=2, max_length=100)]
    """Sizes of batches, ascending: actors times spec.environment.rolloutLength."""

    update: _Seconds
    """The update of a batch of each size. Unit: seconds."""

    detector: _Seconds
    """The boosting detector on a batch of each size. Unit: seconds."""

    def of(self, values: list[float], transitions: Floats) -> Floats:
        """Seconds for batches of these sizes, f64 [n]: between two sizes of the table on a line, beyond them
        on the line through the two nearest."""
        sizes, seconds = np.array(self.transitions, float), np.array(values)
        index = np.clip(np.searchsorted(sizes, transitions), 1, len(sizes) - 1)
        slope = (seconds[index] - seconds[index - 1]) / (sizes[index] - sizes[index - 1])
        return np.asarray(np.maximum(seconds[index] + slope * (transitions - sizes[index]), 0.0))


class ActorSeconds(Model):
    """How long an actor's invocation takes."""

    invocation: Annotated[float, Field(ge=0, le=1e6)]
    """Whatever its steps. Unit: seconds."""

    step: Annotated[float, Field(ge=0, le=1e6)]
    """Each environment step, with its policy. Unit: seconds."""


class PriceList(Model):
    """Prices and seconds of a named learner and of its actors."""

    name: _Text
    """The report names it so."""

    learner: _Text
    """The learner's machine."""

    source: _Text
    """Where prices and seconds come from."""

    pricing: GivenPricing
    """Prices that replace those of spec.pricing. What is not here stays as the run's job has it."""

    provisioned_concurrency: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Sandboxes that Lambda keeps ready, paid for in every second of the run. Unit: actors."""

    actor_seconds: ActorSeconds | None = None
    """An actor's seconds. Without them those that the runs measured are used, which depend on what else the
    machine did."""

    seconds: Annotated[list[LearnerSeconds], Field(max_length=100)] = Field(default_factory=list)
    """The learner's seconds. Runs of an algorithm and preset without an entry keep their own, and so do runs
    with other epochs, minibatches or layers than their preset's, a recurrent layer among them."""

    def seconds_of(self, job: ResolvedJob) -> LearnerSeconds | None:
        """The entry of a resolved job's algorithm and preset. None as well if the job has other epochs,
        minibatches or layers than the preset, or a recurrent layer: its updates take another time."""
        wanted = job.spec.algorithm.name, job.spec.algorithm.preset
        entry = next(
            (seconds for seconds in self.seconds if (seconds.algorithm, seconds.preset) == wanted), None
        )
        if entry is None or job.spec.network.recurrent is not None:
            return None
        usual = preset_values(entry.preset, algorithm=entry.algorithm)
        spec = job.spec.model_dump(by_alias=True)
        own = {path: value_at(spec, tuple(path.split("."))) for path in _DECISIVE if path in usual}
        return entry if all(value == usual[path] for path, value in own.items()) else None

    def pricing_of(self, job: ResolvedJob) -> Pricing:
        """The prices of a resolved job, with those of this list in place of its own."""
        named = self.pricing.model_fields_set
        return job.spec.pricing.model_copy(update={name: getattr(self.pricing, name) for name in named})


_SCHEMA = schema_of(PriceList)


def load(path: Path) -> PriceList:
    """The price list in a file.

    Raises:
        JobInvalid: the file has mistakes. The error lists all of them.
    """
    data, mistakes = yamlfile.read(path)
    data = yamlfile.as_stored(data)
    if not isinstance(data, dict):
        message = "must be a mapping with name, learner, source and pricing; see experiments/prices/"
        raise JobInvalid([*mistakes, FieldError("", data, message)])
    try:
        price_list = PriceList.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise JobInvalid([*mistakes, *(item for _, item in located_errors(error, data, _SCHEMA))]) from None
    for index, seconds in enumerate(price_list.seconds):
        sizes, place = seconds.transitions, f"seconds[{index}]"
        if sorted(set(sizes)) != sizes:
            mistakes.append(FieldError(f"{place}.transitions", sizes, "must ascend; sort them"))
        for name, values in (("update", seconds.update), ("detector", seconds.detector)):
            if len(values) != len(sizes):
                message = f"must have one number for each of the {len(sizes)} transitions"
                mistakes.append(FieldError(f"{place}.{name}", values, message))
    if mistakes:
        raise JobInvalid(mistakes)
    return price_list
