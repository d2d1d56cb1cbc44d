"""Every trigger of the operator, one line each. Handlers only take note: the reconcile does the work."""

from __future__ import annotations

from typing import Any

import kopf

from nitro_operator.config import Config
from nitro_operator.controller import Controller
from nitro_operator.kinds import TRAINING_JOB, WATCHED_CHILDREN
from nitro_operator.settings import configure

_KINDS = {(kind.group, kind.plural): kind for kind in (TRAINING_JOB, *WATCHED_CHILDREN)}


@kopf.on.login()
def login(**kwargs: Any) -> Any:
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    configure(settings)
    memo.controller = await Controller.start(Config.from_environment())


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    await memo.controller.stop()


@kopf.on.probe(id="alive")
async def alive(memo: kopf.Memo, **_: Any) -> str:
    try:
        memo.controller.check_alive()
    except RuntimeError as error:
        raise kopf.PermanentError(str(error)) from error  # the health endpoint then answers 500
    return "yes"


@kopf.on.event("nitro.dev", "v1alpha1", "nitrotrainingjobs")
@kopf.on.event("batch", "v1", "jobs")
@kopf.on.event("v1", "pods")
@kopf.on.event("v1", "services")
@kopf.on.event("v1", "serviceaccounts")
@kopf.on.event("v1", "persistentvolumeclaims")
@kopf.on.event("rbac.authorization.k8s.io", "v1", "roles")
@kopf.on.event("rbac.authorization.k8s.io", "v1", "rolebindings")
@kopf.on.event("networking.k8s.io", "v1", "networkpolicies")
@kopf.on.event("serving.knative.dev", "v1", "services")
@kopf.on.event("serving.knative.dev", "v1", "revisions")
async def noticed(event: Any, resource: kopf.Resource, memo: kopf.Memo, **_: Any) -> None:
    memo.controller.notice(_KINDS[resource.group, resource.plural], event)
