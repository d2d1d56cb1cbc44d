"""What a job's user is told of an environment, beside what is wrong in it: how it fits the job's learning."""

from __future__ import annotations

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_learner.run.checking import first_actions, lost_digits, stateful_wrappers


def warnings(environment: DescribedEnvironment, spec: JobSpec, *, new: bool = True) -> list[str]:
    """Warnings, each a sentence that begins with the field that they concern.

    Args:
        environment: of the actors.
        spec: of a resolved job.
        new: whether the policies know nothing yet; others have learned with what they see and do.
    """
    told = stateful_wrappers.warnings(environment, spec)
    return [*told, *first_actions.warnings(environment), *lost_digits.warnings(environment)] if new else told
