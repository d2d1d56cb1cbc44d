"""Jobs of a cluster, read for people."""

from __future__ import annotations

from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from nitro_api import GROUP, PLURAL, VERSION
from nitro_learner.cli.common import FAILED, CommandError
from nitro_learner.cluster.api import TIMEOUT_SECONDS, NoCluster, connect, current_namespace

Job = dict[str, Any]


def get_job(name: str, namespace: str | None) -> Job:
    """One job; of the current namespace if none is given.

    Raises:
        CommandError: there is none, or the cluster does not answer.
    """
    return _asked("get_namespaced_custom_object", namespace or current_namespace(), name)


def list_jobs(namespace: str | None) -> list[Job]:
    """All jobs of a namespace, or of the cluster.

    Raises:
        CommandError: the cluster does not answer, or does not let this user.
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
        raise CommandError(str(error), FAILED) from None
    except ApiException as error:
        if error.status == 404 and name:
            raise CommandError(
                f"there is no job {name} in namespace {namespace}; `kubectl get ntj -A` lists them"
            ) from None
        if error.status == 404:
            raise CommandError("the cluster knows no NitroTrainingJob; install Nitro there", FAILED) from None
        if error.status == 403 and not namespace:
            raise CommandError(
                "you may not list the jobs of all namespaces; name one with --namespace", FAILED
            ) from None
        raise CommandError(f"the API server answered {error.status}: {error.reason}", FAILED) from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise CommandError(f"the API server does not answer: {error}", FAILED) from None
    return answer
