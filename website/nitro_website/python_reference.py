"""The reference of the Python library: what mkdocstrings makes of the docstrings."""

from __future__ import annotations

from collections.abc import Mapping

PUBLIC = {
    "nitro.load": "nitro_learner.api.loading.load",
    "nitro.train": "nitro_learner.api.training.train",
    "nitro.resume": "nitro_learner.api.training.resume",
    "nitro.plan": "nitro_learner.api.planning.plan",
    "nitro.submit": "nitro_learner.api.cluster_jobs.submit",
    "nitro.jobs": "nitro_learner.api.cluster_jobs.jobs",
    "nitro.ClusterJob": "nitro_learner.cluster.handle.ClusterJob",
    "nitro.JobFailed": "nitro_learner.cluster.handle.JobFailed",
    "nitro.ClusterError": "nitro_learner.cluster.jobs.ClusterError",
    "nitro.Run": "nitro_learner.api.run.Run",
    "nitro.Sampler": "nitro_learner.api.sampler.Sampler",
    "nitro.TrainedPolicy": "nitro_learner.api.policy.TrainedPolicy",
    "nitro.PlayedEpisode": "nitro_learner.api.policy.PlayedEpisode",
}
"""Public names -> where they are defined, in the order in which one meets them."""
TOLD = {
    path: path
    for path in (
        "nitro_learner.training.round_report.RoundReport",
        "nitro_learner.studies.planning.plan.Plan",
        "nitro_learner.studies.planning.plan.PlanChoice",
        "nitro_api.JobInvalid",
        "nitro_learner.run.rundir.RunDirError",
        "nitro_learner.checkpoints.store.CheckpointError",
        "nitro_learner.training.failures.TrainingFailed",
        "nitro_learner.studies.planning.probe.ProbeFailed",
    )
}
"""What the library reports and raises."""
_TEXT = """\
# The Python library

`import nitro_learner as nitro`: what it has, from its docstrings. [Nitro as a Python library](../python.md)
shows how to use it.
"""
_MORE = "# What it reports and raises\n"


def page() -> str:
    """Markdown with a directive of mkdocstrings for each name."""
    return "\n".join([_TEXT, *_directives(PUBLIC), _MORE, *_directives(TOLD)])


def _directives(names: Mapping[str, str]) -> list[str]:
    return [
        f"::: {path}\n    options:\n      heading: {name}\n      toc_label: {path.rpartition('.')[2]}\n"
        for name, path in names.items()
    ]
