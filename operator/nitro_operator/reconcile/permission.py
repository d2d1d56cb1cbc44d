"""What a platform forbids of jobs that the API server takes."""

from nitro_api import JobSpec
from nitro_api.spec.pod_metadata import unlisted
from nitro_operator.config import Config
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import Observed
from nitro_operator.status.phase import Judgement, Stage


def metadata(spec: JobSpec, config: Config) -> Problem | None:
    """The refusal of a job whose pods have a label or annotation that is neither usual nor the platform's."""
    for part, template in (("learner", spec.learner), ("actor", spec.actor)):
        other = unlisted(template, config.metadata_prefixes)
        if other is not None:
            field, keys = f"spec.{part}.{other.field}", ", ".join(map(repr, other.keys))
            free = "keys without a domain, and " if other.field == "labels" else ""
            return Problem(
                "MetadataForbidden",
                f"{field}: a job may not give its pods {keys}, because {other.field} can weaken what "
                "confines them. Remedy: suspend the job, remove it, and resume the job, or ask the "
                f"platform's administrator to add its beginning to the chart's {other.value}. Allowed are "
                f"{free}keys that begin with {', '.join(other.allowed)}.",
            )
    return None


def judged(forbidden: Problem | None, unlisted: Problem | None, observed: Observed) -> Judgement | None:
    """The stage of a job that would run, if the platform forbids something of it.

    Args:
        forbidden: what no job may do; None if it does nothing of that.
        unlisted: labels or annotations that no job may start with. A job that is changed is suspended before,
            so a learner that is there has started with them.
    """
    if forbidden is None and unlisted is not None and observed.learner_job is not None:
        said = (
            "the job was started before this was forbidden, and runs on with it; once it is suspended, it is "
            f"refused. {unlisted.message}"
        )
        return Judgement(Stage.ACTIVE, Problem(unlisted.reason, said))
    problem = forbidden or unlisted
    return None if problem is None else Judgement(Stage.NOT_ALLOWED, problem)


def other_code(spec: JobSpec) -> Problem | None:
    """The refusal of a job that can bring code into an allowed image: `os:system` would run any command, and
    so would a mounted module that PYTHONPATH names."""
    environment = spec.environment
    named = environment.entry_point or environment.id
    if ":" in named:
        field = "entryPoint" if environment.entry_point is not None else "id"
        return _forbidden(
            f"spec.environment.{field}: {named!r} names a module to import",
            "create a job whose environment.id is registered in the actor image",
        )
    for name, entry_point, ours in (
        ("scaling", spec.scaling.entry_point, "scaling.scaler is one of Nitro's"),
        ("algorithm", spec.algorithm.entry_point, "algorithm is one of Nitro's"),
        ("network", spec.network.entry_point, "network has Nitro's own layers"),
    ):
        if entry_point is not None:
            return _forbidden(
                f"spec.{name}.entryPoint: {entry_point!r} names a module to import",
                f"create a job whose {ours}",
            )
    if spec.code is not None:
        return _forbidden(
            "spec.code brings modules of the job's author",
            "create a job without it whose environment, network, algorithm and scaler are in the images",
        )
    for part, pod in (("actor", spec.actor), ("learner", spec.learner)):
        for field, given in (("env", pod.env), ("volumes", pod.volumes)):
            if given:
                return _forbidden(
                    f"spec.{part}.{field} can make a program load other code",
                    f"suspend the job, remove spec.{part}.{field}, and resume it",
                )
    return None


def _forbidden(what: str, remedy: str) -> Problem:
    return Problem(
        "EntryPointForbidden",
        f"{what}, which this platform forbids (the chart's platform.entryPoints is false). Remedy: {remedy}, "
        "or ask the platform's administrator. The job continues by itself if that changes.",
    )
