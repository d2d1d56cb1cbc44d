"""Settings of pods that a job may have, for tests of the API and of the builders."""

from typing import Any

MENDED = {
    "image": "mine:2",
    "resources": {"limits": {"memory": "4Gi"}},
    "labels": {"team": "rl"},
    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    "env": [
        {"name": "A", "value": "b"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
    ],
    "volumes": [
        {"name": "a", "configMap": {"name": "maps", "items": [{"key": "k", "path": "p"}]}},
        {"name": "b", "secret": {"secretName": "licence", "optional": True}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"name": "d", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ],
    "volumeMounts": [{"name": name, "mountPath": f"/data/{name}"} for name in "abcd"],
    "nodeSelector": {"gpu": "a100"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"nitro.dev/job": "hopper"}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"nitro.dev/job": "hopper"}},
        }
    ],
    "priorityClassName": "high",
    "runtimeClassName": "gvisor",
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "registry"}],
}
"""A value of every setting of pods that a suspended job may change."""


def _mounted(**settings: str) -> dict[str, Any]:
    return {"volumes": [{"name": "a", "emptyDir": {}}], "volumeMounts": [{"name": "a", **settings}]}


def _on_nodes(**requirement: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "cores", **requirement}]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


UNUSUAL = [
    _mounted(mountPath="/checkpoints/mine"),
    _mounted(mountPath="/.cache/...", subPath="a..b/.c"),
    _mounted(mountPath="/a b/..c"),
    {"resources": {"requests": {"nvidia.com/gpu": 2, "cpu": "0.5"}, "limits": {"nvidia.com/gpu": "2"}}},
    {"resources": {"limits": {"hugepages-2Mi": "64Mi", "example.com/fast_NIC.1": 1}}},
    {"labels": {"example.com/team": "", "Team_1": "a.B-c"}, "annotations": {"a.b-c.d/E": "any text /"}},
    {"nodeSelector": {"a" * 63: "b" * 63, f"{'c' * 250}.d/e": "f"}},
    {"tolerations": [{"key": "node.kubernetes.io/Not_ready", "operator": "Exists"}, {"operator": "Exists"}]},
    _on_nodes(operator="Gt", values=["8"]),
    _on_nodes(operator="NotIn", values=["8", "16"]),
    _on_nodes(operator="DoesNotExist"),
    {"serviceAccountName": "robot.example.com", "priorityClassName": "1st"},
]
"""Settings that Kubernetes takes, although few would write them."""
