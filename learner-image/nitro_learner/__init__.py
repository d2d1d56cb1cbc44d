"""Nitro's learner: algorithms, boosting, scalers, dispatch and the nitro command line.

As a library, `import nitro_learner as nitro`:

    policy = nitro.load("runs/hopper")          # see nitro_learner.api.loading
    action = policy.act(observation)            # see nitro_learner.api.policy
    run = nitro.train({"spec": ...})            # see nitro_learner.api.training
    run = nitro.resume(run, rounds=200)         # see nitro_learner.api.training
    run = nitro.Run("runs/hopper")              # see nitro_learner.api.run
    with nitro.Sampler("Hopper-v5") as sampler: # see nitro_learner.api.sampler
    plan = nitro.plan("hopper.yaml")            # see nitro_learner.api.planning
    job = nitro.submit("hopper.yaml")           # see nitro_learner.api.cluster_jobs
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nitro_learner.api.cluster_jobs import ClusterError, ClusterJob, JobFailed, jobs, submit
    from nitro_learner.api.loading import load
    from nitro_learner.api.planning import plan
    from nitro_learner.api.policy import PlayedEpisode, TrainedPolicy
    from nitro_learner.api.run import Run
    from nitro_learner.api.sampler import Sampler
    from nitro_learner.api.training import resume, train

__all__ = [
    "ClusterError",
    "ClusterJob",
    "JobFailed",
    "PlayedEpisode",
    "Run",
    "Sampler",
    "TrainedPolicy",
    "jobs",
    "load",
    "plan",
    "resume",
    "submit",
    "train",
]

_MODULES = {
    "ClusterError": "cluster_jobs",
    "ClusterJob": "cluster_jobs",
    "JobFailed": "cluster_jobs",
    "PlayedEpisode": "policy",
    "Run": "run",
    "Sampler": "sampler",
    "TrainedPolicy": "policy",
    "jobs": "cluster_jobs",
    "load": "loading",
    "plan": "planning",
    "resume": "training",
    "submit": "cluster_jobs",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    """A name of the library, whose module is imported only now: commands need none of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.api.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
