"""The learner's rights: to read and watch its own job, and to report the job's status."""

from nitro_operator.builders.view import JobView
from nitro_operator.kube import names
from nitro_operator.kube.kinds import TRAINING_JOB, Object


def learner_access(view: JobView) -> list[Object]:
    """Role and RoleBinding of the learner, and its ServiceAccount unless the job names one."""
    name = names.learner(view.name)
    account = view.spec.learner.service_account_name
    rbac = "rbac.authorization.k8s.io"
    own = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": view.metadata(name, names.LEARNER) | _identity(view),
        "automountServiceAccountToken": False,  # the learner's pod asks for it; no other pod gets it
    }
    return [
        *([own] if account is None else []),
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "Role",
            "metadata": view.metadata(name, names.LEARNER),
            "rules": [
                _rule(TRAINING_JOB.plural, view.name, "get", "watch"),
                _rule(f"{TRAINING_JOB.plural}/status", view.name, "patch"),
            ],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": view.metadata(name, names.LEARNER),
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account or name, "namespace": view.namespace}],
        },
    ]


def _identity(view: JobView) -> Object:
    """The AWS role that EKS gives to the learner's pod (IRSA)."""
    role = view.spec.learner.role_arn
    return {"annotations": {"eks.amazonaws.com/role-arn": role}} if role is not None else {}


def _rule(resource: str, name: str, *verbs: str) -> Object:
    return {
        "apiGroups": [TRAINING_JOB.group],
        "resources": [resource],
        "resourceNames": [name],
        "verbs": list(verbs),
    }
