"""Jobs of a cluster, as a user may read them."""

from __future__ import annotations

from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from nitro_api import GROUP, PLURAL, VERSION
from nitro_learner.cluster.api import TIMEOUT_SECONDS, NoCluster, connect, current_namespace

Job = dict[str, Any]


class ClusterError(Exception):
    """The cluster does not return what was asked for.

    Attributes:
        no_such_job: whether it answered that there is no job of that name.
    """

    def __init__(self, message: str, *, no_such_job: bool = False) -> None:
        super().__init__(message)
        self.no_such_job = no_such_job


def get_job(name: str, namespace: str | None) -> Job:
    """One job; of the current namespace if none is given.

    Raises:
        ClusterError: there is none, or the cluster does not answer.
    """
    return _asked("get_namespaced_custom_object", namespace or current_namespace(), name)


def list_jobs(namespace: str | None) -> list[Job]:
    """All jobs of a namespace, or of the cluster.

    Raises:
        ClusterError: the cluster does not answer, or does not let this user.
    """
    if namespace:
        found = _asked("list_namespaced_custom_object", namespace)
    else:
        found = _asked("list_cluster_custom_object", None)
    jobs: list[Job] = found["items"]
    return jobs


def _asked(call: str, namespace: str | None, name: str | None = None) -> Job:
    where = [GROUP, VERSION, *([namespace] if namespace else []), PLURAL, *([name] if name else [])]
    try:
        answer: Job = getattr(connect(), call)(*where, _request_timeout=TIMEOUT_SECONDS)
    except NoCluster as error:
        raise ClusterError(str(error)) from None
    except ApiException as error:
        if error.status == 404 and name:
            raise ClusterError(
                f"there is no job {name} in namespace {namespace}; `kubectl get ntj -A` lists them",
                no_such_job=True,
            ) from None
        if error.status == 404:
            raise ClusterError("the cluster knows no NitroTrainingJob; install Nitro there") from None
        if error.status == 403 and not namespace:
            raise ClusterError(
                "you may not list the jobs of all namespaces; name one with --namespace"
            ) from None
        raise ClusterError(f"the API server answered {error.status}: {error.reason}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ClusterError(f"the API server does not answer: {error}") from None
    return answer
