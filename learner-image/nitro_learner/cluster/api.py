"""The connection to a Kubernetes API server: in a pod by its service account, else by the kubeconfig."""

import logging
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

TIMEOUT_SECONDS = (3.0, 10.0)
"""To connect, and to read an answer."""
BACKOFF_SECONDS = (0.5, 8.0)
"""Ceiling of the pause after the first failure, and after many."""


_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class NoCluster(Exception):  # noqa: N818
    """No configuration names a cluster."""


def connect(context: str | None = None) -> client.CustomObjectsApi:
    """Custom objects of the cluster of a context of the kubeconfig; of the current cluster if none is given.

    It does not retry: the caller does, because it knows what is newest by then. In a pod no proxy of the
    environment (HTTPS_PROXY) is used: it is for what is outside the cluster. On a user's machine the
    kubeconfig's proxy-url is, else the environment's with NO_PROXY, as kubectl does.

    Raises:
        NoCluster: there is no usable kubeconfig, or it has no such context.
    """
    in_pod = _in_pod() and context is None
    try:
        if in_pod:
            config.load_incluster_config()  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(context=context)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        if context is not None and (known := _contexts()) and context not in known:
            raise NoCluster(f"the kubeconfig has no context {context}; it has: {', '.join(known)}") from error
        raise NoCluster(
            f"no cluster to talk to: {str(error).rstrip('.')}. Set KUBECONFIG, or log in to the cluster"
        ) from error
    settings = client.Configuration.get_default_copy()
    if in_pod:
        settings.proxy = None
    settings.retries = urllib3.Retry(0)
    # urllib3 would log each of our retries as a warning.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    return client.CustomObjectsApi(client.ApiClient(settings))


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row: random, below a ceiling that doubles each time."""
    first, longest = BACKOFF_SECONDS
    return random.uniform(0.2 * first, min(longest, first * 2 ** min(failures, 6)))


def current_namespace(context: str | None = None) -> str:
    """The namespace of a context of the kubeconfig, by default of the current one, as kubectl has it.

    In a pod without a kubeconfig it is the pod's own."""
    if _in_pod() and context is None:
        with suppress(OSError):
            return _POD_NAMESPACE.read_text().strip()
    known = _contexts()
    entry = next(iter(known.values()), {}) if context is None else known.get(context, {})
    return str(entry.get("namespace") or "default")


def _contexts() -> dict[str, dict[str, Any]]:
    """The contexts of the kubeconfig by their names, the current one first; none where there is no file."""
    try:
        found, current = config.list_kube_config_contexts()  # type: ignore[no-untyped-call]
    except ConfigException:
        return {}
    return {entry["name"]: entry["context"] for entry in [current, *found]}


def _in_pod() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and not os.environ.get("KUBECONFIG")
