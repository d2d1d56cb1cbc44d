"""The learner's own job on the API server: read it, watch it, and write its part of the status."""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.watch import Watch

from nitro_api import GROUP, KIND, PLURAL, VERSION
from nitro_learner.cluster.api import TIMEOUT_SECONDS, connect

FIELD_MANAGER = "nitro-learner"
WATCH_SECONDS = (300, 600)
"""After a time between these the API server ends a watch: learners that started together reconnect apart."""
WATCH_TIMEOUT_SECONDS = (3.0, 30.0)
"""To connect, and between two events. Every heartbeat is an event, so a silent connection is dead."""
UNAUTHORIZED = 3
"""Answers 401 in a row after which the job is given up. An API server that starts may give one by mistake."""
CONFLICTS = 5
"""Writes in a row that may find a newer version of the job. The operator writes about once a second."""


class ApiUnavailable(Exception):  # noqa: N818
    """The API server did not answer, or not as it should; another try may succeed."""


class JobGone(Exception):  # noqa: N818
    """The job does not exist any more, another one has its name, or its learner's account is gone."""


class WatchExpired(Exception):  # noqa: N818
    """The API server does not know any more what has happened since that version (410)."""


class JobClient:
    """One job, over connections with time-outs. Blocking: for threads of its own.

    Args:
        uid: its identity; None where it is not known. A job of the same name and another identity is refused.
    """

    def __init__(self, namespace: str, name: str, uid: str | None) -> None:
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self._api = connect()
        self._watch: Watch | None = None
        self._version: str | None = None
        """The version of this job that was seen last."""
        self._refused = 0
        """Answers in a row that did not accept the learner's account."""

    def get(self) -> dict[str, Any]:
        """The job as stored.

        Raises:
            ApiUnavailable, JobGone
        """
        return self._call(self._api.get_namespaced_custom_object)

    def watch(self, version: str) -> Iterator[dict[str, Any]]:
        """The job after every change since `version`, until the API server ends the watch.

        Raises:
            ApiUnavailable, JobGone, WatchExpired
        """
        self._watch = watch = Watch()  # type: ignore[no-untyped-call]
        try:
            for event in watch.stream(  # type: ignore[no-untyped-call]
                self._api.list_namespaced_custom_object,
                GROUP,
                VERSION,
                self.namespace,
                PLURAL,
                # The learner's Role allows to watch this name only.
                field_selector=f"metadata.name={self.name}",
                resource_version=version,
                timeout_seconds=random.randint(*WATCH_SECONDS),
                _request_timeout=WATCH_TIMEOUT_SECONDS,
            ):
                if event["type"] == "DELETED":
                    raise JobGone(f"job {self.namespace}/{self.name} is deleted")
                yield self._checked(event["object"])
        except ApiException as error:
            if error.status == 410:
                raise WatchExpired(str(error.reason)) from error
            raise self._refusal(error) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiUnavailable(f"the API server does not answer: {error}") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ApiUnavailable(f"the API server's event cannot be read: {error!r}") from error

    def end_watch(self) -> None:
        """End the watch that another thread waits in, if any."""
        if self._watch is not None:
            self._watch.stop()  # type: ignore[no-untyped-call]

    def apply_status(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side applies the learner's part of the status and returns the whole job as it is then.

        Fields that an earlier call had and this one leaves out are removed. The API server takes no uid as a
        condition for a status, so the write names the version of a read whose uid matched. A new job of the
        same name has another version, and never gets this one's reports.

        Raises:
            ApiUnavailable, JobGone
        """
        for _ in range(CONFLICTS):
            if self.uid and self._version is None:
                self.get()
            try:
                return self._apply(status, self._version if self.uid else None)
            except _Conflict:
                self._version = None
        raise ApiUnavailable(f"others have changed the job {CONFLICTS} times between a read and a write")

    def _apply(self, status: Mapping[str, Any], version: str | None) -> dict[str, Any]:
        metadata = {"name": self.name, "namespace": self.namespace}
        if version is not None:
            metadata["resourceVersion"] = version
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
            raise self._refusal(error) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiUnavailable(f"the API server does not answer: {error}") from error
        return self._checked(job)

    def _refusal(self, error: ApiException) -> Exception:
        if error.status == 409:
            return _Conflict(str(error.reason))
        if error.status == 404 and _names(error, self.name):
            return JobGone(f"job {self.namespace}/{self.name} is gone")
        self._refused = self._refused + 1 if error.status == 401 else 0
        if self._refused >= UNAUTHORIZED:
            # The account goes with the job, and the token with the account.
            return JobGone(
                f"the API server does not know the account of {self.namespace}/{self.name} any more"
            )
        # One of several API servers may be broken, and it would answer as long as its connection is used.
        self._api.api_client.rest_client.pool_manager.clear()
        return ApiUnavailable(f"the API server answered {error.status}: {error.reason}")

    def _checked(self, job: dict[str, Any]) -> dict[str, Any]:
        if self.uid and job["metadata"]["uid"] != self.uid:
            raise JobGone(f"job {self.namespace}/{self.name} was replaced by another of its name")
        self._version = job["metadata"].get("resourceVersion")
        self._refused = 0
        return job


class _Conflict(Exception):  # noqa: N818
    """The job has changed since the version that a write named."""


def _names(error: ApiException, name: str) -> bool:
    """Whether a 404 is about this object. An API server that starts may not serve the kind yet."""
    try:
        return bool(json.loads(error.body or "")["details"]["name"] == name)
    except (ValueError, KeyError, TypeError):
        return False
