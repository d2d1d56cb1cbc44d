"""The connection to a Kubernetes API server: in a pod by its service account, else by the kubeconfig."""

import logging
import os
import random

import urllib3
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

TIMEOUT_SECONDS = (3.0, 10.0)
"""To connect, and to read an answer."""
BACKOFF_SECONDS = (0.5, 8.0)
"""Ceiling of the pause after the first failure, and after many."""


class NoCluster(Exception):  # noqa: N818
    """No configuration names a cluster."""


def connect() -> client.CustomObjectsApi:
    """Custom objects of the current cluster.

    It does not retry: the caller does, because it knows what is newest by then. In a pod no proxy of the
    environment (HTTPS_PROXY) is used: it is for what is outside the cluster. On a user's machine the
    kubeconfig's proxy-url is, else the environment's with NO_PROXY, as kubectl does.

    Raises:
        NoCluster: there is no usable kubeconfig.
    """
    try:
        if _in_pod():
            config.load_incluster_config()  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config()  # type: ignore[no-untyped-call]
    except ConfigException as error:
        raise NoCluster(
            f"no cluster to talk to: {str(error).rstrip('.')}. Set KUBECONFIG, or log in to the cluster"
        ) from error
    settings = client.Configuration.get_default_copy()
    if _in_pod():
        settings.proxy = None
    settings.retries = urllib3.Retry(0)
    # urllib3 would log each of our retries as a warning.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    return client.CustomObjectsApi(client.ApiClient(settings))


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row: random, below a ceiling that doubles each time."""
    first, longest = BACKOFF_SECONDS
    return random.uniform(0.2 * first, min(longest, first * 2 ** min(failures, 6)))


def current_namespace() -> str:
    """The namespace of the kubeconfig's current context, which kubectl uses too."""
    try:
        _, current = config.list_kube_config_contexts()  # type: ignore[no-untyped-call]
    except ConfigException:
        return "default"
    return str(current["context"].get("namespace") or "default")


def _in_pod() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and not os.environ.get("KUBECONFIG")
