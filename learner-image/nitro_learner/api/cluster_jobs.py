"""Jobs of a cluster from a script or a notebook."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nitro_api import NitroTrainingJob
from nitro_learner.cluster.handle import ClusterJob, JobFailed, list_handles, send
from nitro_learner.cluster.jobs import ClusterError
from nitro_learner.run.code_package import find
from nitro_learner.studies.job_check import JobCheck

__all__ = ["ClusterError", "ClusterJob", "JobFailed", "jobs", "submit"]

logger = logging.getLogger(__name__)


def submit(
    job: NitroTrainingJob | Mapping[str, Any] | str | Path,
    *,
    code: str | Path | None = None,
    namespace: str | None = None,
    context: str | None = None,
) -> ClusterJob:
    """Check a job as `nitro validate` does, and have a cluster train it. What the check warns of is logged.

    Args:
        job: a model, a mapping as in a job file, YAML text, or the path of a job file.
        code: folder with the modules of your own parts; it goes to the cluster as a ConfigMap, and its digest
            becomes spec.code.
        namespace: where; by default the job's own, else that of the context.
        context: of the kubeconfig; the current one by default. In a pod without a kubeconfig its service
            account is used.

    Raises:
        JobInvalid: lists every mistake in the job; nothing was sent.
        CodeFolderError: the folder cannot be packed.
        ClusterError: the cluster does not take the job: its name exists, rights are missing, there is no
            cluster. The message says what to do.
    """
    source: Any = (
        job.model_dump(by_alias=True, exclude_unset=True) if isinstance(job, NitroTrainingJob) else job
    )
    package = None if code is None else find(Path(code))
    digest = [f"spec.code={package.digest}"] if package else []
    check = JobCheck(dict(source) if isinstance(source, Mapping) else source, digest, elsewhere=True)
    checked, _ = check.run(applied=False)
    for warning in check.warnings:
        logger.warning("%s", warning)
    return send(checked, namespace, context, package.config_map() if package else None)


def jobs(*, namespace: str | None = None, context: str | None = None) -> list[ClusterJob]:
    """All jobs of a namespace, or of the cluster if none is given.

    Raises:
        ClusterError: the cluster does not answer, or does not let this user.
    """
    return list_handles(namespace, context)
