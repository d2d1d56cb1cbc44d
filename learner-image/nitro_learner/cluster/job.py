"""The learner's own job on the API server: read it, and write its part of the status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from nitro_api import GROUP, KIND, PLURAL, VERSION
from nitro_learner.cluster.api import TIMEOUT_SECONDS, connect

FIELD_MANAGER = "nitro-learner"


class ApiUnavailable(Exception):  # noqa: N818
    """The API server did not answer, or not as it should; another try may succeed."""


class JobGone(Exception):  # noqa: N818
    """The job does not exist any more, or another one has its name."""


class JobClient:
    """One job, over one connection with time-outs. Blocking: for threads of its own.

    Args:
        namespace: of the job.
        name: of the job.
        uid: its identity; None where it is not known. A job of the same name and another identity is refused.
    """

    def __init__(self, namespace: str, name: str, uid: str | None) -> None:
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self._api = connect()

    def get(self) -> dict[str, Any]:
        """The job as stored.

        Raises:
            ApiUnavailable, JobGone
        """
        return self._call(self._api.get_namespaced_custom_object)

    def apply_status(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side applies the learner's part of the status and returns the whole job as it is then.

        Fields that an earlier call had and this one leaves out are removed.

        Raises:
            ApiUnavailable, JobGone
        """
        metadata = {"name": self.name, "namespace": self.namespace}
        if self.uid:
            # A precondition: a new job of the same name must not get this one's reports.
            metadata["uid"] = self.uid
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": metadata,
            "status": dict(status),
        }
        return self._call(
            self._api.patch_namespaced_custom_object_status,
            body=body,
            field_manager=FIELD_MANAGER,
            force=True,
            _content_type="application/apply-patch+yaml",
        )

    def _call(self, method: Any, **arguments: Any) -> dict[str, Any]:
        try:
            job: dict[str, Any] = method(
                GROUP,
                VERSION,
                self.namespace,
                PLURAL,
                self.name,
                _request_timeout=TIMEOUT_SECONDS,
                **arguments,
            )
        except ApiException as error:
            if error.status in (404, 409):
                raise JobGone(f"job {self.namespace}/{self.name} is gone: {error.reason}") from error
            # Of several API servers one may be ill, and would answer for as long as it is spoken to.
            self._api.api_client.rest_client.pool_manager.clear()
            raise ApiUnavailable(f"the API server answered {error.status}: {error.reason}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiUnavailable(f"the API server does not answer: {error}") from error
        if self.uid and job["metadata"]["uid"] != self.uid:
            raise JobGone(f"job {self.namespace}/{self.name} was replaced by another of its name")
        return job
