"""Rules of spec.resumeFrom, and whether one job's policies fit another job."""

from collections.abc import Mapping
from typing import Any

from nitro_api.base import Rule, declare
from nitro_api.rules.pod_rules import below
from nitro_api.spec.algorithm import AgentsAlgorithm, Algorithm
from nitro_api.spec.job import JobSpec, NitroTrainingJob
from nitro_api.spec.resume_from import ResumeFrom

_S3 = "^s3://[a-z0-9][a-z0-9.-]*[a-z0-9](/[^/]+)+$"

_SHAPING = ("normaliseObservations", "normaliseRewards", "dueling", "mixerUnits", "hypernetworkUnits")
"""Settings of algorithms without which a policy's state has no meaning. Others, such as the learning rate,
may differ."""

declare(
    ResumeFrom,
    Rule(
        path="job",
        cel="[has(self.job), has(self.s3), has(self.claim)].exists_one(given, given)",
        sentence="must be given, or s3, or claim with folder, but one only; name one",
    ),
    Rule(
        path="folder",
        cel="has(self.folder) == has(self.claim)",
        sentence="must be given with claim, and only with it; add or remove one",
    ),
    below("folder", "NAME-UID"),
    Rule(
        path="s3",
        cel=f"!has(self.s3) || self.s3.matches(r'{_S3}')",
        sentence="must be the folder of a run in a bucket; write it as s3://BUCKET/PREFIX/NAME-UID",
    ),
)
declare(
    NitroTrainingJob,
    Rule(
        path="spec.resumeFrom",
        cel="!has(self.spec.resumeFrom) || !has(self.spec.resumeFrom.job) "
        "|| self.spec.resumeFrom.job != self.metadata.name",
        sentence="must name another job; a job goes on from its own checkpoints by itself",
    ),
)


def differences(source: JobSpec, spec: JobSpec) -> list[str]:
    """The fields in which a job must be equal to the one whose policies it takes, and is not, each with both
    values. Both specs are resolved."""
    there, here = _fixed(source), _fixed(spec)
    return [
        f"spec.{path} is {there.get(path)!r} there and {here.get(path)!r} here"
        for path in unequal(there, here)
    ]


def unequal(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The names whose values differ, in order. A name that is missing has the value None."""
    return [name for name in sorted({*there, *here}) if there.get(name) != here.get(name)]


def _fixed(spec: JobSpec) -> dict[str, Any]:
    """What must be equal, by its path below spec."""
    fixed = {f"network.{name}": value for name, value in spec.network.to_dict().items()}
    fixed["environment.frameStack"] = spec.environment.frame_stack
    fixed["environment.rescaleActions"] = bool(spec.environment.rescale_actions)
    fixed["sharing.mode"] = spec.sharing.mode if spec.sharing is not None else None
    entries = {f"algorithm.policies[{i}]": entry for i, entry in enumerate(spec.algorithm.policies or ())}
    fixed |= {f"{path}.agents": entry.agents for path, entry in entries.items()}
    learners: dict[str, Algorithm | AgentsAlgorithm] = {"algorithm": spec.algorithm, **entries}
    for path, learner in learners.items():
        fixed[f"{path}.name"] = learner.name
        settings = learner.hyperparameters.to_dict()
        fixed |= {f"{path}.hyperparameters.{name}": settings.get(name) for name in _SHAPING}
    return fixed
