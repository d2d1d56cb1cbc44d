"""The learner's Job: the training container, and Redis beside it as a native sidecar."""

from nitro_api.spec.lambda_backend import CREDENTIAL_KEYS, LambdaBackendSpec
from nitro_api.spec.tracking import MLFLOW_KEYS, TRACKING_PREFIX, WANDB_KEYS
from nitro_operator.builders import pod_settings
from nitro_operator.builders.code import code_mounts, code_variables, code_volumes
from nitro_operator.builders.redis import gate_container, redis_container, redis_volumes
from nitro_operator.builders.storage import CHECKPOINT_MOUNT, Source, checkpoint_volume, run_directory
from nitro_operator.builders.view import JobView, literal, resources, scratch
from nitro_operator.config import UNPRIVILEGED
from nitro_operator.kube import names
from nitro_operator.kube.kinds import Object

CONTAINER = "learner"
METRICS_PORT = 9090
TOKEN = "NITRO_TOKEN"
"""Variable with the token that actors require."""
GRACE_SECONDS = 120
"""Time for a learner to finish its step and write a checkpoint after the signal to stop."""
INVALID_JOB_EXIT_CODE = 2
"""Exit code of `nitro learn` when the job itself is wrong: another try would end the same way."""
DEFAULT_RESOURCES: Object = {
    "requests": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"},
    "limits": {"memory": "8Gi", "ephemeral-storage": "16Gi"},
}
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where clients of the API server look for the service account's token."""
BUCKET_KEYS = "s3"
"""Folder beside that token, with a file for each of the bucket's keys."""


def learner_job(view: JobView, deadline_seconds: int | None, source: Source | None = None) -> Object:
    """The Job that runs `nitro learn`.

    Args:
        deadline_seconds: time that the run has left; None = no limit.
        source: another run, from which the run starts.
    """
    spec: Object = {
        "backoffLimit": view.spec.learner.backoff_limit,
        "completions": 1,
        "parallelism": 1,
        "podFailurePolicy": _failure_policy(),
        "template": {
            "metadata": pod_settings.metadata(view.spec.learner, view.pod_labels(names.LEARNER), {}),
            "spec": _pod(view, source),
        },
    }
    if deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = max(1, deadline_seconds)
    metadata = view.metadata(names.learner(view.name), names.LEARNER)
    # Kueue reads the labels of the Job itself, and may copy chosen ones to its Workload.
    metadata["labels"] = {**(view.spec.learner.labels or {}), **view.queue_labels, **metadata["labels"]}
    metadata["annotations"] = {names.SETTINGS_HASH: view.settings_hash}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _failure_policy() -> Object:
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    invalid = {"containerName": CONTAINER, "operator": "In", "values": [INVALID_JOB_EXIT_CODE]}
    return {
        "rules": [
            # A drained or preempted node is not the learner's fault: it costs no retry.
            {"action": "Ignore", "onPodConditions": [disrupted]},
            {"action": "FailJob", "onExitCodes": invalid},
        ]
    }


def _pod(view: JobView, source: Source | None) -> Object:
    learner, given = view.spec.learner, _resources(view)
    return {
        "serviceAccountName": names.learner(view.name),
        **pod_settings.pod_fields(learner, view),
        "restartPolicy": "Never",  # a failure policy needs it; the Job starts the next pod
        "automountServiceAccountToken": False,  # only the learner's own container mounts the token
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **_group(view),
            **({"appArmorProfile": {"type": "RuntimeDefault"}} if view.config.apparmor else {}),
            "fsGroupChangePolicy": "OnRootMismatch",
        },
        # In this order: each starts when the one before it has.
        "initContainers": (
            [redis_container(view), gate_container(view, _default_image(view))] if view.has_redis else []
        ),
        "containers": [_container(view, source)],
        "volumes": [
            scratch("tmp", given),
            scratch("shm", given, memory=True),
            checkpoint_volume(view) or scratch("checkpoints", given),
            *(source.volumes(view) if source else []),
            *code_volumes(view),
            _renewed(view),
            *(redis_volumes(view) if view.has_redis else []),
            *pod_settings.listed(learner.volumes),
        ],
    }


def _group(view: JobView) -> Object:
    """The group that the pod's volumes get: the claim must be writable for any image's user."""
    group = view.config.fs_group
    return {} if group is None else {"fsGroup": UNPRIVILEGED if group == "auto" else group}


def _container(view: JobView, source: Source | None) -> Object:
    learner = view.spec.learner
    secret = _bucket_secret(view)
    return {
        **view.container(CONTAINER, learner.image or _default_image(view)),
        "command": ["nitro", "learn"],
        "env": [
            # First: of two variables with one name Kubernetes takes the last.
            *pod_settings.listed(learner.env),
            {"name": "NITRO_JOB_NAME", "value": view.name},
            {"name": "NITRO_JOB_NAMESPACE", "value": view.namespace},
            {"name": "NITRO_RUN", "value": view.uid},
            {"name": "NITRO_RUN_DIR", "value": run_directory(view)},
            *([source.variable()] if source else []),
            *code_variables(view),
            {"name": "NITRO_METRICS_PORT", "value": str(METRICS_PORT)},
            {"name": "HOME", "value": "/tmp"},  # libraries cache there; the root file system is read-only
            # With a prefix, so that no other AWS client in the process uses them.
            *(_aws_keys(secret, "NITRO_S3_") if secret else []),
            *([literal("NITRO_S3_CREDENTIALS", f"{TOKEN_MOUNT}/{BUCKET_KEYS}")] if secret else []),
            *_tracking_keys(view),
            *_reach_actors(view),
        ],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "resources": _resources(view),
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},  # torch's workers need more than the default 64 MiB
            {"name": "checkpoints", "mountPath": CHECKPOINT_MOUNT},
            *(source.mounts(view) if source else []),
            *code_mounts(view),
            {"name": "api-token", "mountPath": TOKEN_MOUNT, "readOnly": True},
            *pod_settings.listed(learner.volume_mounts),
        ],
    }


def _default_image(view: JobView) -> str:
    has_gpu = view.spec.learner.resources.has_gpu
    return view.config.learner_image if has_gpu else view.config.learner_cpu_image


def _resources(view: JobView) -> Object:
    return resources(view.spec.learner.resources, DEFAULT_RESOURCES)


def _bucket_secret(view: JobView) -> str | None:
    s3 = view.spec.learner.checkpoint.s3
    return s3.credentials_secret if s3 else None


def _renewed(view: JobView) -> Object:
    """What may change while the learner runs: the service account's token, as Kubernetes itself mounts it
    into every container of a pod, and the bucket's keys, which variables hold as they were at its start."""
    sources: list[Object] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    if secret := _bucket_secret(view):
        keys = [{"key": key, "path": f"{BUCKET_KEYS}/{key}"} for key in CREDENTIAL_KEYS]
        # The variables say what is missing; a pod that waits for a volume would tell it in an event alone.
        sources.append({"secret": {"name": secret, "items": keys, "optional": True}})
    return {"name": "api-token", "projected": {"sources": sources}}


def _reach_actors(view: JobView) -> list[Object]:
    """Environment variables for the actors: their address, the Redis, and the token that they require."""
    function = view.spec.backend.lambda_
    if function is not None:
        return _reach_function(view, function)
    return [
        {"name": "NITRO_ACTOR_URL", "value": actor_url(view)},
        view.secret_env("NITRO_REDIS_URL", "redis-learner-url"),
        view.secret_env(TOKEN, "token"),
    ]


def _reach_function(view: JobView, function: LambdaBackendSpec) -> list[Object]:
    """The token, and variables from the user's Secrets. The job has the function's name, region and
    endpoint."""
    variables: list[Object] = [view.secret_env(TOKEN, "token")] if function.manage else []
    if function.redis is not None:
        variables.append(_from_secret("NITRO_REDIS_URL", function.redis.secret_name, function.redis.key))
    if function.credentials_secret is not None:
        variables += _aws_keys(function.credentials_secret)
    return variables


def _aws_keys(secret: str, prefix: str = "") -> list[Object]:
    """AWS' keys from a user's Secret. Its other entries are not passed on, because a user who may create a
    job may have no right to read the Secret."""
    return [
        # Only temporary credentials have a session token.
        _from_secret(prefix + key, secret, key, optional=key == "AWS_SESSION_TOKEN")
        for key in CREDENTIAL_KEYS
    ]


def _tracking_keys(view: JobView) -> list[Object]:
    """Trackers' keys from a user's Secrets. All are optional, because training needs no tracker."""
    tracking = view.spec.tracking
    given = ((tracking.wandb, WANDB_KEYS), (tracking.mlflow, MLFLOW_KEYS)) if tracking else ()
    return [
        _from_secret(TRACKING_PREFIX + key, tracker.credentials_secret, key, optional=True)
        for tracker, keys in given
        if tracker is not None and tracker.credentials_secret is not None
        for key in keys
    ]


def _from_secret(variable: str, secret: str, key: str, *, optional: bool = False) -> Object:
    source: Object = {"name": secret, "key": key} | ({"optional": True} if optional else {})
    return {"name": variable, "valueFrom": {"secretKeyRef": source}}


def actor_url(view: JobView) -> str:
    """The Revision's own cluster-local address, which needs no ingress."""
    return f"http://{names.revision(view.name)}.{view.namespace}.svc.{view.config.cluster_domain}"
