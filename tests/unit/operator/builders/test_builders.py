"""The objects that a job becomes."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from typing import Any

import pytest

from nitro_api.rules.pod_rules import OPERATORS_PATHS, OPERATORS_PREFIXES, OPERATORS_VOLUMES
from nitro_operator import builders
from nitro_operator.builders.storage import Source, checkpoint_location
from nitro_operator.kube import names
from nitro_operator.kube.kinds import kind_of
from nitro_operator.reconcile.apply import drifted
from operator_objects import CONFIG, UID, make_view
from pod_settings_support import MENDED

Object = dict[str, Any]


def all_children(**spec: Any) -> list[Object]:
    view = make_view(**spec)
    claim = builders.checkpoint_claim(view)
    return [
        *builders.learner_access(view),
        *builders.network_policies(view),
        builders.redis_service(view),
        builders.credentials_secret(view),
        builders.actor_service(view),
        builders.learner_job(view, None),
        *([claim] if claim else []),
    ]


def pod_of(**spec: Any) -> Object:
    pod: Object = builders.learner_job(make_view(**spec), None)["spec"]["template"]["spec"]
    return pod


def container(pod: Object, name: str) -> Object:
    return next(c for c in [*pod.get("initContainers", []), *pod["containers"]] if c["name"] == name)


def containers_of(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def environment(container: Object) -> Object:
    return {e["name"]: e.get("value", e.get("valueFrom", {}).get("secretKeyRef")) for e in container["env"]}


@pytest.mark.parametrize(
    ("resources", "image"),
    [
        ({}, "learner-cpu:1"),
        ({"limits": {"cpu": "4", "memory": "16Gi"}}, "learner-cpu:1"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "learner:1"),
        ({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}, "learner:1"),
        ({"limits": {"nvidia.com/mig-1g.5gb": "1"}}, "learner:1"),
        ({"limits": {"amd.com/gpu": "1"}}, "learner:1"),
    ],
    ids=str,
)
def test_only_a_learner_that_asks_for_a_gpu_gets_the_image_with_cuda(resources: Object, image: str) -> None:
    pod = pod_of(learner={"resources": resources})
    assert container(pod, "learner")["image"] == f"registry.test/{image}"
    named = pod_of(learner={"resources": resources, "image": "mine:2"})
    assert container(named, "learner")["image"] == "mine:2"


def test_children_have_the_documented_names() -> None:
    names = {(kind_of(c).plural, c["metadata"]["name"]) for c in all_children()}
    assert names == {
        ("serviceaccounts", "hopper-learner"),
        ("roles", "hopper-learner"),
        ("rolebindings", "hopper-learner"),
        ("networkpolicies", "hopper-learner"),
        ("networkpolicies", "hopper-actors"),
        ("services", "hopper-redis"),
        ("secrets", f"hopper-{UID[:8]}-credentials"),
        ("services", "hopper-actors"),
        ("jobs", "hopper-learner"),
        ("persistentvolumeclaims", "hopper-checkpoint"),
    }


def test_jobs_with_similar_names_share_no_child() -> None:
    made = [kind_of(c).kind + "/" + c["metadata"]["name"] for c in all_children()]
    # Knative makes Services of the cluster's own kind after its Service and Revision.
    made += [f"Service/hopper-actors{more}" for more in ("", "-v1", "-v1-private")]
    for suffix in sorted({name.partition("/hopper")[2] for name in made}):
        alike = {name.replace("/hopper", f"/hopper{suffix}", 1) for name in made}
        assert not alike & set(made), f"hopper and hopper{suffix}"


def test_every_child_has_the_label_and_the_owner_of_its_job() -> None:
    for child in all_children():
        labels = child["metadata"]["labels"]
        assert labels["nitro.dev/job"] == "hopper"
        assert labels["app.kubernetes.io/managed-by"] == "nitro-operator"
        if child["kind"] != "PersistentVolumeClaim":
            (owner,) = child["metadata"]["ownerReferences"]
            assert (owner["uid"], owner["controller"]) == (UID, True)


def test_an_owned_claim_outlives_the_job_unless_retain_is_false() -> None:
    kept = builders.checkpoint_claim(make_view())
    assert kept is not None
    assert "ownerReferences" not in kept["metadata"]
    checkpoint = {"checkpoint": {"pvc": {"retain": False, "size": "5Gi", "storageClassName": "fast"}}}
    gone = builders.checkpoint_claim(make_view(learner=checkpoint))
    assert gone is not None
    assert gone["metadata"]["ownerReferences"][0]["uid"] == UID
    assert gone["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert gone["spec"]["storageClassName"] == "fast"


def test_a_named_claim_is_used_and_not_made() -> None:
    spec = {"learner": {"checkpoint": {"pvc": {"claimName": "mine"}}}}
    assert builders.checkpoint_claim(make_view(**spec)) is None
    volumes = {v["name"]: v for v in pod_of(**spec)["volumes"]}
    assert volumes["checkpoints"]["persistentVolumeClaim"] == {"claimName": "mine"}


def test_a_bucket_replaces_the_claim() -> None:
    where = {"bucket": "runs", "prefix": "team/a", "credentialsSecret": "keys"}
    spec = {"learner": {"checkpoint": {"s3": where}}}
    assert builders.checkpoint_claim(make_view(**spec)) is None
    pod = pod_of(**spec)
    volumes = {v["name"]: v for v in pod["volumes"]}
    assert volumes["checkpoints"] == {"name": "checkpoints", "emptyDir": {"sizeLimit": "16Gi"}}
    # With a prefix: actors on AWS may have other credentials.
    from_secret = {
        one["name"]: one["valueFrom"]["secretKeyRef"]
        for one in pod["containers"][0]["env"]
        if one["name"].startswith("NITRO_S3_AWS_")
    }
    # Named keys only: the Secret may hold others, and its reader may not be the job's author.
    assert "envFrom" not in pod["containers"][0]
    assert from_secret == {
        "NITRO_S3_AWS_ACCESS_KEY_ID": {"name": "keys", "key": "AWS_ACCESS_KEY_ID"},
        "NITRO_S3_AWS_SECRET_ACCESS_KEY": {"name": "keys", "key": "AWS_SECRET_ACCESS_KEY"},
        "NITRO_S3_AWS_SESSION_TOKEN": {"name": "keys", "key": "AWS_SESSION_TOKEN", "optional": True},
    }
    # The same as files, which follow the Secret while the learner runs.
    *_, files = volumes["api-token"]["projected"]["sources"]
    assert files["secret"]["name"] == "keys"
    assert [one["key"] for one in files["secret"]["items"]] == [
        name.removeprefix("NITRO_S3_") for name in from_secret
    ]
    assert environment(pod["containers"][0])["NITRO_S3_CREDENTIALS"] == (
        "/var/run/secrets/kubernetes.io/serviceaccount/s3"
    )
    assert checkpoint_location(make_view(**spec)) == f"s3://runs/team/a/hopper-{UID}"


def test_trackers_get_the_named_keys_of_their_secrets_only() -> None:
    mlflow = {"trackingUri": "https://mlflow.example.com", "credentialsSecret": "ours"}
    tracking = {"wandb": {"credentialsSecret": "keys"}, "mlflow": mlflow}
    learner = container(pod_of(tracking=tracking), "learner")
    expected = [
        ("NITRO_TRACKING_WANDB_API_KEY", "keys", "WANDB_API_KEY"),
        ("NITRO_TRACKING_MLFLOW_TRACKING_USERNAME", "ours", "MLFLOW_TRACKING_USERNAME"),
        ("NITRO_TRACKING_MLFLOW_TRACKING_PASSWORD", "ours", "MLFLOW_TRACKING_PASSWORD"),
        ("NITRO_TRACKING_MLFLOW_TRACKING_TOKEN", "ours", "MLFLOW_TRACKING_TOKEN"),
    ]
    variables = environment(learner)
    for variable, secret, key in expected:  # a missing key must not keep the training from starting
        assert variables[variable] == {"name": secret, "key": key, "optional": True}
    assert "envFrom" not in learner
    without = environment(container(pod_of(tracking={"wandb": {}}), "learner"))
    assert not any(name.startswith("NITRO_TRACKING_") for name in without)


IN_BUCKET = {"learner": {"checkpoint": {"s3": {"bucket": "runs", "prefix": "team/a"}}}}
SHARED = {"learner": {"checkpoint": {"pvc": {"claimName": "shared"}}}}


@pytest.mark.parametrize(
    ("theirs", "mine", "volume", "claim"),
    [
        ({}, SHARED, "resume-from", "hopper-checkpoint"),
        (SHARED, {}, "resume-from", "shared"),
        (SHARED, IN_BUCKET, "resume-from", "shared"),
        (SHARED, SHARED, "checkpoints", "shared"),
    ],
)
def test_a_learner_reads_another_run_in_its_claim_and_nothing_else_there(
    theirs: Object, mine: Object, volume: str, claim: str
) -> None:
    source = Source.of(make_view(**theirs))
    pod = builders.learner_job(make_view(**mine), None, source)["spec"]["template"]["spec"]
    claims = {
        one["name"]: one["persistentVolumeClaim"]["claimName"]
        for one in pod["volumes"]
        if "persistentVolumeClaim" in one
    }
    assert claims[volume] == claim
    assert list(claims.values()).count(claim) == 1, "one volume for each claim"
    learner = container(pod, "learner")
    assert environment(learner)["NITRO_RESUME_FROM"] == "/resume-from"
    (mount,) = [one for one in learner["volumeMounts"] if one["mountPath"] == "/resume-from"]
    assert mount == {
        "name": volume,
        "mountPath": "/resume-from",
        "subPath": f"hopper-{UID}",
        "readOnly": True,
    }


def expanded(variables: list[Object]) -> Object:
    """What the kubelet makes of values: $ of $$, and of $(NAME) the value of an earlier variable."""
    found: Object = {}
    for each in variables:
        found[each["name"]] = re.sub(
            r"\$(?:\$|\((\w+)\))",
            lambda place: "$" if place[1] is None else found.get(place[1], place[0]),
            each.get("value", ""),
        )
    return found


def test_dollars_that_a_user_wrote_reach_the_container_as_they_are() -> None:
    kwargs = {"pattern": "^a$$", "home": "$(HOME)", "timeout": "$$(NITRO_A)", "price": "5$", "$(A)": "\\$"}
    view = make_view(
        environment={"id": "Mine-v0", "kwargs": kwargs}, actor={"env": [{"name": "A", "value": "b"}]}
    )
    actor = container(builders.actor_service(view)["spec"]["template"]["spec"], "actor")
    assert json.loads(expanded(actor["env"])["NITRO_ENVIRONMENT"])["kwargs"] == kwargs
    bucket = {"checkpoint": {"s3": {"bucket": "runs", "prefix": "$(A)/$$"}}}
    variable = Source.of(make_view(learner=bucket)).variable()
    earlier = {"name": "A", "value": "b"}
    assert expanded([earlier, variable])["NITRO_RESUME_FROM"] == f"s3://runs/$(A)/$$/hopper-{UID}"


def test_a_learner_is_told_the_place_of_another_run_in_a_bucket() -> None:
    source = Source.of(make_view(**IN_BUCKET))
    pod = builders.learner_job(make_view(), None, source)["spec"]["template"]["spec"]
    assert environment(container(pod, "learner"))["NITRO_RESUME_FROM"] == f"s3://runs/team/a/hopper-{UID}"
    assert not [one for one in pod["volumes"] if one["name"] == "resume-from"]


class TestLearner:
    def test_disruptions_are_not_counted_as_failures_and_exit_code_2_is_final(self) -> None:
        job = builders.learner_job(make_view(learner={"backoffLimit": 5}), None)["spec"]
        assert job["backoffLimit"] == 5
        ignore, fail = job["podFailurePolicy"]["rules"]
        assert ignore["action"] == "Ignore"
        assert ignore["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
        assert fail["action"] == "FailJob"
        assert fail["onExitCodes"] == {"containerName": "learner", "operator": "In", "values": [2]}
        assert job["template"]["spec"]["restartPolicy"] == "Never"

    def test_the_learners_deadline_is_the_time_that_is_left(self) -> None:
        assert "activeDeadlineSeconds" not in builders.learner_job(make_view(), None)["spec"]
        assert builders.learner_job(make_view(), 90)["spec"]["activeDeadlineSeconds"] == 90
        assert builders.learner_job(make_view(), 0)["spec"]["activeDeadlineSeconds"] == 1

    def test_placement_comes_from_the_job(self) -> None:
        pod = pod_of(
            learner={
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "nodeSelector": {"gpu": "a100"},
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "priorityClassName": "high",
                "image": "mine:2",
            }
        )
        assert container(pod, "learner")["resources"] == {
            "requests": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"},
            "limits": {"memory": "8Gi", "ephemeral-storage": "16Gi", "nvidia.com/gpu": 1},
        }
        assert container(pod, "learner")["image"] == "mine:2"
        assert pod["nodeSelector"] == {"gpu": "a100"}
        assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
        assert pod["priorityClassName"] == "high"

    def test_the_learner_gets_its_job_run_and_addresses_as_variables(self) -> None:
        found = environment(container(pod_of(), "learner"))
        assert found["NITRO_JOB_NAME"] == "hopper"
        assert found["NITRO_JOB_NAMESPACE"] == "team"
        assert found["NITRO_RUN"] == UID
        assert found["NITRO_RUN_DIR"] == f"/checkpoints/hopper-{UID}"
        assert found["NITRO_ACTOR_URL"] == "http://hopper-actors-v1.team.svc.cluster.local"
        assert found["NITRO_REDIS_URL"] == {
            "name": f"hopper-{UID[:8]}-credentials",
            "key": "redis-learner-url",
        }
        assert found["NITRO_TOKEN"] == {"name": f"hopper-{UID[:8]}-credentials", "key": "token"}

    def test_redis_is_a_native_sidecar_without_persistence_or_eviction(self) -> None:
        redis = container(pod_of(), "redis")
        assert redis["restartPolicy"] == "Always"
        arguments = " ".join(redis["args"])
        assert "--maxmemory-policy noeviction" in arguments
        assert "--appendonly no" in arguments
        assert "--aclfile /etc/nitro/users.acl" in arguments

    def test_strangers_meet_the_gate_and_never_redis(self) -> None:
        pod = pod_of()
        redis, gate = pod["initContainers"]
        arguments = dict(zip(redis["args"][::2], redis["args"][1::2], strict=True))
        assert arguments["--bind"] == "127.0.0.1"
        assert "ports" not in redis
        assert gate["ports"] == [{"name": "redis", "containerPort": 6379, "protocol": "TCP"}]
        assert gate["startupProbe"]["tcpSocket"] == {"port": 6379}, "actors and learner wait for both"
        given = dict(zip(gate["args"][::2], gate["args"][1::2], strict=True))
        assert given["--listen"] == "$(POD_IPS)"
        assert given["--redis"] == arguments["--unixsocket"]
        assert given["--users"] == arguments["--aclfile"]
        assert redis["volumeMounts"] == gate["volumeMounts"]
        assert gate["env"] == [{"name": "POD_IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]

    def test_the_gate_is_of_the_operators_release_whatever_image_the_learner_has(self) -> None:
        pod = pod_of(learner={"image": "mine:1"})
        assert container(pod, "redis-gate")["image"] == "registry.test/learner-cpu:1"
        assert container(pod, "learner")["image"] == "mine:1"

    def test_pull_settings_reach_every_pod(self) -> None:
        config = dataclasses.replace(CONFIG, image_pull_policy="Never", image_pull_secrets=("a", "b"))
        view = make_view(config)
        pods = [
            builders.learner_job(view, None)["spec"]["template"]["spec"],
            builders.actor_service(view)["spec"]["template"]["spec"],
        ]
        for pod in pods:
            assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
            assert all(c["imagePullPolicy"] == "Never" for c in pod["containers"])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "8Gi"}}),
        ({"requests": {}}, {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "8Gi"}}),
        ({"requests": {"cpu": 4}}, {"requests": {"memory": "2Gi", "cpu": 4}, "limits": {"memory": "8Gi"}}),
        # Neither may contradict what is given: a request above a limit would be refused.
        ({"limits": {"memory": "1Gi"}}, {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}),
        ({"requests": {"memory": "16Gi"}}, {"requests": {"cpu": "1", "memory": "16Gi"}, "limits": {}}),
        (
            {"requests": {"cpu": 2}, "limits": {"cpu": 2, "memory": "4Gi"}},
            {"requests": {"cpu": 2}, "limits": {"cpu": 2, "memory": "4Gi"}},
        ),
    ],
)
def test_a_resource_that_the_job_does_not_name_keeps_the_operators_default(
    given: Object, found: Object
) -> None:
    built = container(pod_of(learner={"resources": given}), "learner")["resources"]
    disk = {part: amounts.pop("ephemeral-storage") for part, amounts in built.items()}
    assert disk == {"requests": "1Gi", "limits": "16Gi"}
    assert built == found


BUCKET: Object = {"learner": {"checkpoint": {"s3": {"bucket": "runs"}}}}


@pytest.mark.parametrize("spec", [{}, BUCKET, {"actor": {"perPod": 4}}], ids=["claim", "bucket", "team"])
def test_every_container_and_every_scratch_volume_has_a_bound_of_disk(spec: Object) -> None:
    view = make_view(**spec)
    for built in (builders.learner_job(view, None), builders.actor_service(view)):
        pod = built["spec"]["template"]["spec"]
        for each in [*pod.get("initContainers", []), *pod["containers"]]:
            for part in ("requests", "limits"):
                assert "ephemeral-storage" in each["resources"][part], each["name"]
        empty = [volume for volume in pod["volumes"] if "emptyDir" in volume]
        assert empty
        assert all("sizeLimit" in volume["emptyDir"] for volume in empty)


def test_a_scratch_volume_is_as_large_as_the_containers_limit() -> None:
    pod = pod_of(learner={"resources": {"limits": {"memory": "4Gi", "ephemeral-storage": "50Gi"}}})
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["tmp"]["emptyDir"] == {"sizeLimit": "50Gi"}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "4Gi"}


def test_only_the_learners_own_container_has_the_token_of_the_api_server() -> None:
    pod = pod_of()
    assert pod["automountServiceAccountToken"] is False
    tokens = [volume["name"] for volume in pod["volumes"] if "projected" in volume]
    holders = [
        each["name"]
        for each in [*pod["initContainers"], *pod["containers"]]
        for mount in each["volumeMounts"]
        if mount["name"] in tokens
    ]
    assert holders == ["learner"]


@pytest.mark.parametrize(
    ("spec", "mib"),
    [
        ({}, 1024),
        ({"cache": {"memory": "256Mi"}}, 256),
        ({"cache": {"memory": 2_000_000_000}}, 1908),
        ({"environment": {"id": "Humanoid-v5", "rolloutLength": 20_000}}, 1429),
    ],
)
def test_the_memory_of_redis_holds_two_rounds_or_is_what_the_job_says(spec: Object, mib: int) -> None:
    redis = container(pod_of(**spec), "redis")
    arguments = redis["args"]
    assert arguments[arguments.index("--maxmemory") + 1] == f"{mib}mb"
    assert redis["resources"]["requests"]["memory"] == f"{mib * 3 // 2}Mi"
    assert redis["resources"]["limits"]["memory"] == f"{mib * 3 // 2}Mi"


def test_containers_that_the_operator_adds_pass_quotas_of_every_limit_and_ratios_of_memory() -> None:
    for added in pod_of()["initContainers"]:
        requests, limits = added["resources"]["requests"], added["resources"]["limits"]
        assert requests.keys() == limits.keys() == {"cpu", "memory", "ephemeral-storage"}, added["name"]
        assert requests["memory"] == limits["memory"], added["name"]


def test_the_resources_of_redis_are_what_the_job_says() -> None:
    given = {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "4Gi"}}
    redis = container(pod_of(cache={"resources": given}), "redis")
    assert redis["resources"] == {
        "requests": {"cpu": "2", "ephemeral-storage": "64Mi"},
        "limits": {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "64Mi"},
    }
    gate = container(pod_of(cache={"resources": given}), "redis-gate")["resources"]
    assert (gate["requests"]["cpu"], gate["limits"]["cpu"]) == ("2", "2"), "a ratio of CPU holds for it, too"
    own = {"memory": "108Mi", "ephemeral-storage": "64Mi"}
    given = {"limits": {"memory": "4Gi"}, "requests": {"cpu": "1"}}
    gate = container(pod_of(cache={"resources": given}), "redis-gate")["resources"]
    assert gate == {"requests": own | {"cpu": "1"}, "limits": own}


@pytest.mark.parametrize("kind", ["learner", "actors"])
def test_every_container_passes_the_restricted_standard(kind: str) -> None:
    view = make_view()
    built = builders.learner_job(view, None) if kind == "learner" else builders.actor_service(view)
    pod = built["spec"]["template"]["spec"]
    for each in [*pod.get("initContainers", []), *pod["containers"]]:
        context = each["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["runAsNonRoot"] is True
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert each["terminationMessagePolicy"] == "FallbackToLogsOnError"
        assert any(mount["mountPath"] == "/tmp" for mount in each["volumeMounts"])


@pytest.mark.parametrize(
    ("given", "user", "redis_user", "group"),
    [
        ("auto", None, 65532, 65532),
        (None, None, None, None),
        (1000680000, 1000680000, 1000680000, 1000680000),
    ],
)
def test_the_platform_may_name_users_and_groups_or_have_them_left_out(
    given: Any, user: int | None, redis_user: int | None, group: int | None
) -> None:
    """OpenShift's restricted-v2 refuses a number outside the namespace's range, and fills in the absent."""
    view = make_view(dataclasses.replace(CONFIG, run_as_user=given, fs_group=given))
    learner = builders.learner_job(view, None)["spec"]["template"]["spec"]
    actor = builders.actor_service(view)["spec"]["template"]["spec"]
    users = {
        name: container(pod, name)["securityContext"].get("runAsUser")
        for pod, name in ((learner, "learner"), (learner, "redis"), (actor, "actor"))
    }
    assert users == {"learner": user, "redis": redis_user, "actor": user}
    assert learner["securityContext"].get("fsGroup") == group
    assert "securityContext" not in actor, "Knative takes one only with a feature flag"


def test_pods_name_the_profile_of_apparmor_where_the_platform_has_it() -> None:
    """A node without AppArmor refuses a pod that names a profile, so not every platform can."""
    plain, view = make_view(), make_view(dataclasses.replace(CONFIG, apparmor=True))
    learners = [builders.learner_job(one, None)["spec"]["template"]["spec"] for one in (plain, view)]
    profiles = [pod["securityContext"].get("appArmorProfile") for pod in learners]
    assert profiles == [None, {"type": "RuntimeDefault"}]
    key = "container.apparmor.security.beta.kubernetes.io/"
    metadata = [builders.actor_service(one)["spec"]["template"]["metadata"] for one in (plain, view)]
    named = [{k: v for k, v in one["annotations"].items() if k.startswith(key)} for one in metadata]
    assert named == [{}, {f"{key}actor": "runtime/default", f"{key}queue-proxy": "runtime/default"}]


@pytest.mark.parametrize("part", ["learner", "actor"])
class TestPodSettings:
    """Settings that Kubernetes has under the same names."""

    def template(self, part: str, *, code: str | None = None, **settings: Any) -> Object:
        view = make_view(**{part: settings}, code=code)
        built = builders.learner_job(view, None) if part == "learner" else builders.actor_service(view)
        found: Object = built["spec"]["template"]
        return found

    def test_every_setting_reaches_the_pod_as_it_is_written(self, part: str) -> None:
        template = self.template(part, **MENDED)
        pod, made = template["spec"], container(template["spec"], part)
        for name in ("nodeSelector", "affinity", "topologySpreadConstraints", "imagePullSecrets"):
            assert pod[name] == MENDED[name]
        for name in ("priorityClassName", "runtimeClassName", "serviceAccountName"):
            assert pod[name] == MENDED[name]
        assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
        assert not drifted(MENDED["volumes"], [v for v in pod["volumes"] if v["name"] in "abcd"])
        assert not drifted(MENDED["volumeMounts"], [m for m in made["volumeMounts"] if m["name"] in "abcd"])
        assert not drifted(MENDED["env"], made["env"][:3])
        assert template["metadata"]["labels"].items() >= {"team": "rl", "nitro.dev/job": "hopper"}.items()
        assert template["metadata"]["annotations"].items() >= MENDED["annotations"].items()

    def test_no_setting_takes_away_what_the_restricted_standard_needs(self, part: str) -> None:
        plain, template = (self.template(part, **settings) for settings in ({}, MENDED))
        kept = ("securityContext", "automountServiceAccountToken", "enableServiceLinks")
        for name in kept:
            assert template["spec"].get(name) == plain["spec"].get(name)
        for before, after in zip(plain["spec"]["containers"], template["spec"]["containers"], strict=True):
            assert after["securityContext"] == before["securityContext"]
        sources = {source for v in template["spec"]["volumes"] for source in v.keys() - {"name"}}
        assert sources <= {"configMap", "secret", "persistentVolumeClaim", "emptyDir", "projected"}

    def test_the_operators_names_are_refused_in_a_job(self, part: str) -> None:
        pod = self.template(part, code="0" * 64)["spec"]
        assert {volume["name"] for volume in pod["volumes"]} <= set(OPERATORS_VOLUMES)
        mounted = {m["mountPath"] for c in containers_of(pod) for m in c["volumeMounts"]}
        assert mounted <= set(OPERATORS_PATHS)
        for label in self.template(part)["metadata"]["labels"]:
            assert label.startswith(OPERATORS_PREFIXES) or label in names.NOT_BACKED_UP


class TestActors:
    def test_the_template_is_constant(self) -> None:
        service = builders.actor_service(make_view())
        template = service["spec"]["template"]
        assert template["metadata"]["name"] == "hopper-actors-v1"
        assert template["metadata"]["annotations"] == {
            "autoscaling.knative.dev/target": "1",
            "autoscaling.knative.dev/target-utilization-percentage": "100",
            "autoscaling.knative.dev/target-burst-capacity": "-1",
            "autoscaling.knative.dev/window": "6s",
            "serving.knative.dev/progress-deadline": "720h",
            "autoscaling.knative.dev/min-scale": "0",
            "autoscaling.knative.dev/max-scale": "1",
        }
        assert template["spec"]["containerConcurrency"] == 1
        assert template["spec"]["automountServiceAccountToken"] is False
        labels = service["metadata"]["labels"]
        assert labels["networking.knative.dev/visibility"] == "cluster-local"
        scaled = {"minActors": 4, "initialActors": 5, "maxActors": 6}
        assert builders.actor_service(make_view(scaling=scaled))["spec"] == service["spec"]

    def test_a_pod_of_several_actors_takes_as_many_requests_and_has_their_resources(self) -> None:
        given = {"requests": {"cpu": "5m", "memory": "100Mi"}, "limits": {"memory": "1.5Gi"}}
        one = builders.actor_service(make_view(actor={"resources": given}))["spec"]["template"]
        view = make_view(actor={"perPod": 8, "resources": given})
        template = builders.actor_service(view)["spec"]["template"]
        annotations = template["metadata"]["annotations"]
        assert annotations["autoscaling.knative.dev/target"] == "8"
        assert annotations["nitro.dev/actors-per-pod"] == "8"
        assert "nitro.dev/actors-per-pod" not in one["metadata"]["annotations"]
        assert (one["spec"]["containerConcurrency"], template["spec"]["containerConcurrency"]) == (1, 8)
        actor = container(template["spec"], "actor")
        assert environment(actor)["NITRO_ACTORS"] == "8"
        assert actor["resources"] == {
            "requests": {"cpu": "40m", "memory": "800Mi", "ephemeral-storage": "512Mi"},
            "limits": {"memory": "12.0Gi", "ephemeral-storage": "8Gi"},
        }

    def test_an_actor_gets_its_environment_and_redis_url_as_variables(self) -> None:
        view = make_view(
            environment={
                "id": "Mine-v0",
                "kwargs": {"size": 3},
                "entryPoint": "my.envs:Mine",
                "envsPerActor": 2,
            },
            actor={"image": "mine:1", "timeoutSeconds": 90, "resources": {"limits": {"memory": "2Gi"}}},
        )
        spec = builders.actor_service(view)["spec"]["template"]["spec"]
        actor = container(spec, "actor")
        assert spec["timeoutSeconds"] == 90
        assert spec["responseStartTimeoutSeconds"] == 90, "Knative's own default is 300"
        assert actor["image"] == "mine:1"
        assert actor["resources"] == {
            "requests": {"cpu": "250m", "ephemeral-storage": "64Mi"},
            "limits": {"memory": "2Gi", "ephemeral-storage": "1Gi"},
        }
        found = environment(actor)
        assert json.loads(found["NITRO_ENVIRONMENT"]) == {
            "id": "Mine-v0",
            "kwargs": {"size": 3},
            "entryPoint": "my.envs:Mine",
            "envs": 2,
            "frameStack": 1,
            "clipRewards": False,
        }
        assert found["NITRO_REDIS_URL"]["key"] == "redis-actor-url"
        assert found["NITRO_TIMEOUT_SECONDS"] == "90"


class TestAccess:
    def test_the_learner_may_only_read_its_job_and_report_its_status(self) -> None:
        _, role, binding = builders.learner_access(make_view())
        assert role["rules"] == [
            {
                "apiGroups": ["nitro.dev"],
                "resources": ["nitrotrainingjobs"],
                "resourceNames": ["hopper"],
                "verbs": ["get", "watch"],
            },
            {
                "apiGroups": ["nitro.dev"],
                "resources": ["nitrotrainingjobs/status"],
                "resourceNames": ["hopper"],
                "verbs": ["patch"],
            },
        ]
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "hopper-learner", "namespace": "team"}
        ]

    def test_an_account_that_the_job_names_gets_the_learners_rights_and_is_not_made(self) -> None:
        view = make_view(learner={"serviceAccountName": "robot"})
        role, binding = builders.learner_access(view)
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "team"}]
        assert role["rules"] == builders.learner_access(make_view())[1]["rules"]

    def test_passwords_are_new_each_time_and_redis_knows_only_their_hashes(self) -> None:
        first, second = (builders.credentials_secret(make_view()) for _ in range(2))
        assert first["stringData"] != second["stringData"]
        assert first["immutable"] is True
        data = first["stringData"]
        for user in ("learner", "actor"):
            password = data[f"redis-{user}-url"].split(":")[2].split("@")[0]
            assert password not in data["redis-acl"]
            assert f"user {user} on #{hashlib.sha256(password.encode()).hexdigest()} " in data["redis-acl"]
        assert data["redis-acl"].startswith("user default off\n")
        assert f"~nitro:{UID}:*" in data["redis-acl"]
        assert "@hopper-redis.team.svc:6379" in data["redis-actor-url"]
        assert len(base64.urlsafe_b64decode(data["token"] + "==")) >= 32

    @pytest.mark.parametrize("backend", ["Knative", "Local", "Lambda"])
    def test_learners_reach_dns_their_actors_and_what_the_platform_names_only(self, backend: str) -> None:
        function = {"manage": False, "functionName": "mine", "region": "us-east-2", "memoryMiB": 512}
        spec = {"type": backend, **({"lambda": function} if backend == "Lambda" else {})}
        open_ = builders.network_policies(make_view(backend=spec))[0]["spec"]
        assert open_["policyTypes"] == ["Ingress"]
        assert "egress" not in open_

        server = {"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}], "ports": [{"protocol": "TCP", "port": 6443}]}
        view = make_view(dataclasses.replace(CONFIG, learner_egress=(server,)), backend=spec)
        learner = builders.network_policies(view)[0]["spec"]
        assert learner["policyTypes"] == ["Ingress", "Egress"]
        assert learner["ingress"] == open_["ingress"]
        dns, *actors, named = learner["egress"]
        assert {rule["port"] for rule in dns["ports"]} == {53}
        assert named == server
        if backend != "Knative":  # Local actors are in the same pod, and Lambda is outside the cluster
            assert actors == []
            return
        ((knative, own),) = (rule["to"] for rule in actors)
        namespace = knative["namespaceSelector"]["matchLabels"]
        assert namespace == {"kubernetes.io/metadata.name": "knative-serving"}
        labels = {"nitro.dev/job": "hopper", "app.kubernetes.io/component": "actor"}
        assert own == {"podSelector": {"matchLabels": labels}}

    def test_actors_reach_dns_and_their_redis_only(self) -> None:
        learner, actors = builders.network_policies(make_view())
        assert learner["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "learner"
        assert actors["spec"]["policyTypes"] == ["Ingress", "Egress"]
        redis, dns = actors["spec"]["egress"]
        assert redis["ports"] == [{"protocol": "TCP", "port": 6379}]
        assert {rule["port"] for rule in dns["ports"]} == {53}
